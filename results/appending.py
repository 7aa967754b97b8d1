"""Train small translators whose positions are added, or appended to the words.

Where positions are added, words and positions have all channels, as in the paper. Where
they are appended, the positions have the last 12 channels and the words the others. The
output matrix is the embeddings' own, so it loses these channels, too, except where it
is called whole. The task is that of chapter 3.5: who finds whom.

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
LONGEST = 64
"""Positions of the table."""
WAYS = {
    "added": (24, 24, 24),
    "appended": (24, 12, 12),
    "appended, output whole": (24, 12, 24),
    "added, wider": (36, 36, 36),
    "appended, wider": (36, 24, 24),
}
"""Channels of each vector, of the words at the input, and of the output matrix.

The channels without words have the positions; if there are none, all have."""
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


def positions(width: int, words: int) -> Tensor:
    """Return a table with all channels, or zeros where appended words are."""
    channels = width - words or width
    return F.pad(sinusoidal_encoding(LONGEST, channels), (width - channels, 0))


def untrained(size: int, way: str, seed: int) -> Transformer:
    """Return a model whose words have only the channels of this way."""
    width, at_input, at_output = WAYS[way]
    config = replace(TINY, num_layers=1, d_model=width, d_ff=128, num_heads=2)
    config = replace(config, dropout=0.0, vocab_size=size, max_len=LONGEST)
    torch.manual_seed(seed)
    model = Transformer(config)
    for side in (model.encoder, model.decoder):
        side.positions.encoding.copy_(positions(width, at_input))

    def first(channels: int, values: Tensor) -> Tensor:
        return F.pad(values[..., :channels], (0, width - channels))

    embedding = model.encoder.embedding
    # What enters the first layer; `logits` reads the matrix itself.
    embedding.register_forward_hook(lambda module, given, found: first(at_input, found))
    embedding.weight.data.copy_(first(at_output, embedding.weight.data))
    # No gradient in the other channels: they stay 0.
    embedding.weight.register_hook(partial(first, at_output))
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
    result |= {"ways": WAYS, "seeds": SEEDS, "batch": BATCH, "right": {}}
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
