"""Compare the rows of one matrix in three places with the rows of three matrices.

German nouns of one gender fit the same places, so a noun's most similar noun tells
whether rows group by place: its share of the same gender, beside that of a random noun.
The small translators are those of results/input_factor.py; here each noun is a token.
Then the decoder reads, in place of each token in turn, the one with the most similar
row, or a random one: how often does its choice for the next token stay the same?

python -m results.tied_rows
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from results.input_factor import SEEDS, TEST, TRAIN, build, toy_corpus, train
from results.models import ThreeMatrices, TwoMatrices
from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.data.toy import NOUNS
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import UNK
from transformer_lite_book.recordings import TIED_ROWS

VOCAB = 600
"""Tokens, so many that every noun is one."""


def of_the_same_gender(rows: Tensor) -> float:
    """Return the share of nouns whose most similar other noun has their gender.

    Args:
        rows: One for each of `NOUNS`, (nouns, d_model).
    """
    normalized = F.normalize(rows, dim=1)
    nearest = (normalized @ normalized.T).fill_diagonal_(-2).argmax(1).tolist()
    pairs = zip(NOUNS, nearest, strict=True)
    return sum(noun.gender == NOUNS[i].gender for noun, i in pairs) / len(NOUNS)


def of_a_random_noun() -> float:
    """Return the share of pairs of different nouns that have the same gender."""
    pairs = [(a, b) for a in NOUNS for b in NOUNS if a is not b]
    return sum(a.gender == b.gender for a, b in pairs) / len(pairs)


def matrices(model: Transformer) -> dict[str, Tensor]:
    """Return the matrix that the decoder reads, and the one that scores, if another."""
    own = model.decoder.embedding
    if isinstance(own, TwoMatrices):
        return {"three, input": own.input.weight, "three, output": own.weight}
    return {"one": own.weight}


def neighbours(rows: Tensor, among: Tensor) -> Tensor:
    """Return for each token of `among` the other one with the most similar row.

    Args:
        rows: The matrix, (vocab, d_model).
        among: Ids of tokens, (tokens,).
    """
    normalized = F.normalize(rows[among], dim=1)
    stand_ins = torch.arange(len(rows))
    stand_ins[among] = among[(normalized @ normalized.T).fill_diagonal_(-2).argmax(1)]
    return stand_ins


def random_others(vocab_size: int, among: Tensor, random: torch.Generator) -> Tensor:
    """Return for each token of `among` a random other one of them."""
    apart = torch.randint(1, len(among), among.shape, generator=random)
    stand_ins = torch.arange(vocab_size)
    stand_ins[among] = among[(torch.arange(len(among)) + apart) % len(among)]
    return stand_ins


@torch.no_grad()
def with_the_same_choice(
    model: Transformer, src: Tensor, read: Tensor, stand_ins: Tensor
) -> float:
    """Return how often the best next token stays if the decoder reads a stand-in.

    Args:
        model: The translator.
        src: The sentences' ids, (sentences, src_len).
        read: What the decoder reads, (sentences, steps). Each token that has a stand-in
            is replaced alone.
        stand_ins: For each token's id the id that is read instead, (vocab,).
    """
    best, same = model(src, read).argmax(-1), []
    for place in range(1, read.size(1)):
        other = read.clone()
        other[:, place] = stand_ins[read[:, place]]
        replaced = other[:, place] != read[:, place]
        found = model(src, other)[:, place].argmax(-1)
        same.append((found == best[:, place])[replaced])
    return torch.cat(same).double().mean().item()


def main() -> None:
    """Train both kinds with each seed, and write the shares and the last losses."""
    torch.set_num_threads(1)
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    result |= {"same_gender": {"random noun": of_a_random_noun()}}
    result |= {"same_choice": {}, "losses": {}}
    corpus, tokenizer = toy_corpus(VOCAB)
    pieces = tokenizer.pieces(range(VOCAB))
    nouns = torch.tensor([pieces.index(f"▁{noun.german}") for noun in NOUNS])
    unseen = slice(TRAIN, TRAIN + TEST)
    pairs = corpus.src_ids[unseen], corpus.tgt_input[unseen]
    targets = corpus.tgt_input[:TRAIN].unique()
    targets = targets[targets > UNK]  # trained on, and part of the text
    for seed in SEEDS:
        for kind, of in (("one", Transformer), ("three", ThreeMatrices)):
            torch.manual_seed(seed)
            model = build("factor", VOCAB, of)
            loss = train(model, seed, corpus)[-1]
            result["losses"].setdefault(kind, []).append(loss)
            random = torch.Generator().manual_seed(seed)
            read = {f"{kind}, random token": random_others(VOCAB, targets, random)}
            for name, matrix in matrices(model).items():
                share = of_the_same_gender(matrix.detach()[nouns])
                result["same_gender"].setdefault(name, []).append(share)
                read[name] = neighbours(matrix.detach(), targets)
            for name, stand_ins in read.items():
                share = with_the_same_choice(model, *pairs, stand_ins)
                result["same_choice"].setdefault(name, []).append(share)
            print(seed, kind, loss, result["same_choice"], flush=True)
    write_json(TIED_ROWS, result)


if __name__ == "__main__":
    main()
