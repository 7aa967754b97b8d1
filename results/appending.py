"""Train small translators whose positions are added, or appended to the words.

All have 24 channels. Where positions are appended, a word's vector has the first
channels and its position the others. The output matrix, which is the embeddings' own,
keeps all channels; only where it is called narrow, it loses the positions' channels.
The task is that of chapter 3.5: who finds whom.

python -m results.appending
"""

import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import permutations
from multiprocessing import get_context
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.batching import Batch, pad
from transformer_lite.config import TINY
from transformer_lite.data import toy
from transformer_lite.embeddings import sinusoidal_encoding
from transformer_lite.model import Transformer
from transformer_lite.search import beam_search
from transformer_lite.tokenizer import BOS, EOS, PAD
from transformer_lite_book.recordings import APPENDING

SPECIAL = ["PAD", "BOS", "EOS", "UNK"]
WIDTH, LONGEST = 24, 64
"""Channels of each vector, and positions of the tables."""
WAYS = {
    "added": (0, False),
    "20 + 4": (4, False),
    "12 + 12": (12, False),
    "12 + 12, narrow": (12, True),
}
"""Channels that hold nothing but the position, and whether the output matrix loses them
as well."""
SEEDS = {250: list(range(1, 21)), 1000: list(range(1, 6))}
"""By the steps of training."""
BATCH = 32


def lowered(pair: toy.ToyPair) -> tuple[list[str], list[str]]:
    """Return the words of the source and of the target, in lower case."""
    source, target = (
        toy.split_words(side.lower()) for side in (pair.source, pair.target)
    )
    return source, target


def test_pairs() -> list[tuple[list[str], list[str]]]:
    """Return all sentences "the X finds the Y", with their translations."""
    find = next(verb for verb in toy.VERBS if verb.english == "finds")
    beings = [noun for noun in toy.NOUNS if noun.kind in toy.LIVING]
    found = []
    for who, whom in permutations(beings, 2):
        subject = toy.noun_phrase("the", who, "nominative")
        their_object = toy.noun_phrase("the", whom, "accusative")
        clause = toy.clause("second", subject, find, their_object)
        found.append(lowered(toy.to_pair(clause + toy.unit(".", "."))))
    return found


def training_pairs(number: int = 3000) -> list[tuple[list[str], list[str]]]:
    """Return other sentences of this kind, with their translations."""
    source_of_chance, tests = random.Random(1), test_pairs()
    pairs = []
    for _ in range(number):
        speaker = toy.Speaker(source_of_chance)
        clause, *_ = speaker.event("second", toy.LIVING, toy.LIVING)
        pairs.append(lowered(toy.to_pair(clause + toy.unit(".", "."))))
    return [pair for pair in pairs if pair not in tests]


def positions(channels: int) -> Tensor:
    """Return the table that is added: all of it, or zeros before its own channels."""
    own = channels or WIDTH
    return F.pad(sinusoidal_encoding(LONGEST, own), (WIDTH - own, 0))


def untrained(size: int, way: str, seed: int) -> Transformer:
    """Return a model whose words never use the last channels."""
    channels, narrow = WAYS[way]
    config = replace(TINY, num_layers=1, d_model=WIDTH, d_ff=128, num_heads=2)
    config = replace(config, dropout=0.0, vocab_size=size, max_len=LONGEST)
    torch.manual_seed(seed)
    model = Transformer(config)
    for side in (model.encoder, model.decoder):
        side.positions.encoding.copy_(positions(channels))

    def kept_free(values: Tensor) -> Tensor:
        return F.pad(values[..., : WIDTH - channels], (0, channels))

    embedding = model.encoder.embedding
    # Only what enters the first layer; `logits` still reads the whole matrix.
    embedding.register_forward_hook(lambda module, given, found: kept_free(found))
    if narrow:
        embedding.weight.data.copy_(kept_free(embedding.weight.data))
        embedding.weight.register_hook(kept_free)  # no gradient there: these stay 0
    return model


def share_right(way: str, seed: int, num_steps: int) -> float:
    """Train one translator; return the share of the tests that it translates."""
    pairs, tests = training_pairs(), test_pairs()
    words = [
        *SPECIAL,
        *sorted({word for pair in pairs for side in pair for word in side}),
    ]
    to_id = {word: i for i, word in enumerate(words)}
    sides = [[[to_id[word] for word in side] for side in pair] for pair in pairs]
    model = untrained(len(words), way, seed)
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step in range(num_steps):
        rows = [sides[i] for i in torch.randint(len(sides), (BATCH,)).tolist()]
        batch = Batch.from_ids(*zip(*rows, strict=True))
        adam.param_groups[0]["lr"] = 0.005 * min((step + 1) / 30, 1 - step / num_steps)
        logits = model(batch.src_ids, batch.tgt_input)
        loss = F.cross_entropy(logits.mT, batch.labels, ignore_index=PAD)
        adam.zero_grad()
        loss.backward()
        adam.step()
    model.eval()
    with torch.inference_mode():
        src_ids = pad([[*(to_id[word] for word in side), EOS] for side, _ in tests])
        limits = torch.full((len(src_ids),), 15)
        start = model.start(src_ids)
        found = beam_search(model.decoder.step, start, limits, BOS, EOS)
    said = [[words[i] for i in best.ids] for (best,) in found]
    right = [own == wanted for own, (_, wanted) in zip(said, tests, strict=True)]
    return round(sum(right) / len(right), 3)


def main() -> None:
    """Train all of them."""
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    result |= {"width": WIDTH, "seeds": SEEDS, "batch": BATCH, "right": {}}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for num_steps, seeds in SEEDS.items():
            of_way = result["right"][str(num_steps)] = {}
            for way in WAYS:
                train = partial(share_right, way, num_steps=num_steps)
                of_way[way] = list(pool.map(train, seeds))
                print(num_steps, way, *of_way[way], flush=True)
    write_json(APPENDING, result)


if __name__ == "__main__":
    main()
