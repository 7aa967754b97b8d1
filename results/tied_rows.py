"""Compare the rows of one matrix in three places with the rows of three matrices.

German nouns of one gender fit the same places, so a noun's most similar noun tells
whether rows group by place: its share of the same gender, beside that of a random noun.
The small translators are those of results/input_factor.py; here each noun is a token.

python -m results.tied_rows
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from results.input_factor import SEEDS, build, toy_corpus, train
from results.models import ThreeMatrices, TwoMatrices
from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.data.toy import NOUNS
from transformer_lite.model import Transformer
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


def main() -> None:
    """Train both kinds with each seed, and write the shares and the last losses."""
    torch.set_num_threads(1)
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    result |= {"same_gender": {"random noun": of_a_random_noun()}, "losses": {}}
    corpus, tokenizer = toy_corpus(VOCAB)
    pieces = tokenizer.pieces(range(VOCAB))
    nouns = torch.tensor([pieces.index(f"▁{noun.german}") for noun in NOUNS])
    for seed in SEEDS:
        for kind, of in (("one", Transformer), ("three", ThreeMatrices)):
            torch.manual_seed(seed)
            model = build("factor", VOCAB, of)
            loss = train(model, seed, corpus)[-1]
            result["losses"].setdefault(kind, []).append(loss)
            for name, matrix in matrices(model).items():
                share = of_the_same_gender(matrix.detach()[nouns])
                result["same_gender"].setdefault(name, []).append(share)
            print(seed, kind, loss, result["same_gender"], flush=True)
    write_json(TIED_ROWS, result)


if __name__ == "__main__":
    main()
