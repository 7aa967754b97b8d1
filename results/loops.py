"""Train the two loops of chapter 1's race, and count the sentences that they translate.

Data, batches, steps and rate are those of transformer_lite_book/recurrent.json.

python -m results.loops
"""

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.batching import Batch
from transformer_lite.data.toy import generate_pairs
from transformer_lite.tokenizer import PAD, UNK
from transformer_lite_book.recordings import LOOPS, lowered
from transformer_lite_book.recurrent import LoopThenAttention

LAYERS = {"GRU": nn.GRU, "LSTM": nn.LSTM}
SEEDS = [1, 2, 3]
WIDTH, STEPS, WARMUP, PEAK = 128, 600, 60, 5e-3
BATCH, TRAIN, TEST = 64, 10_000, 1_000
POOL = 20
"""So many batches' pairs are sorted by length together."""

Pairs = list[tuple[list[int], list[int]]]
"""The ids of sentences and of their translations."""


def sentences() -> tuple[list[str], Pairs]:
    """Return the vocabulary, and the ids of all pairs; the last ones are the tests."""
    pairs = [
        [lowered(pair.source_words), lowered(pair.target_words)]
        for pair in islice(generate_pairs(seed=1), TRAIN + TEST)
    ]
    known = sorted({word for pair in pairs[:TRAIN] for side in pair for word in side})
    to_id = {word: i for i, word in enumerate(known, start=UNK + 1)}
    ids = [tuple([to_id[word] for word in side] for side in pair) for pair in pairs]
    return ["PAD", "BOS", "EOS", "UNK", *known], ids


def batch_of(pairs: Pairs) -> Batch:
    """Make the batch of these pairs."""
    sources, targets = ([*side] for side in zip(*pairs, strict=True))
    return Batch.from_ids(sources, targets)


def batches(pairs: Pairs, seed: int) -> Iterator[Batch]:
    """Yield endless batches of about equally long sentences, in random order."""
    chance = random.Random(seed)
    while True:
        shuffled, parts = chance.sample(pairs, len(pairs)), []
        for start in range(0, len(pairs), POOL * BATCH):
            pool = sorted(
                shuffled[start : start + POOL * BATCH], key=lambda pair: len(pair[1])
            )
            parts += [pool[k : k + BATCH] for k in range(0, len(pool), BATCH)]
        chance.shuffle(parts)
        yield from map(batch_of, parts)


def train(model: nn.Module, pairs: Pairs, seed: int) -> None:
    """Train it in place."""
    adam = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    for step, batch in enumerate(islice(batches(pairs, seed), STEPS), start=1):
        share = min(step / WARMUP, (STEPS + 1 - step) / (STEPS + 1 - WARMUP))
        adam.param_groups[0]["lr"] = PEAK * share
        logits = model(batch.src_ids, batch.tgt_input)
        loss = F.cross_entropy(logits.mT, batch.labels, ignore_index=PAD)
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()


@torch.inference_mode()
def translated(model: nn.Module, pairs: Pairs) -> int:
    """Count the sentences that greedy search would translate without a mistake.

    These are the ones in which, after the right words before, each next word is right.
    """
    model.eval()
    right = 0
    for start in range(0, len(pairs), 100):
        batch = batch_of(pairs[start : start + 100])
        guess = model(batch.src_ids, batch.tgt_input).argmax(dim=-1)
        as_it_should_be = (guess == batch.labels) | (batch.labels == PAD)
        right += int(as_it_should_be.all(dim=1).sum())
    return right


def run(layer: str, seed: int) -> dict[str, Any]:
    """Train one model, and test it."""
    words, pairs = sentences()
    torch.manual_seed(seed)
    model = LoopThenAttention(LAYERS[layer], len(words), WIDTH)
    train(model, pairs[:TRAIN], seed)
    right = translated(model, pairs[TRAIN:])
    return {"layer": layer, "seed": seed, "right": right}


def main() -> None:
    """Train all models, and write down how many of the test sentences are right."""
    torch.set_num_threads(1)
    result: dict[str, Any] = {"commit": require_clean(), **conditions(), "runs": []}
    for layer in LAYERS:
        for seed in SEEDS:
            result["runs"].append(run(layer, seed))
            print(result["runs"][-1], flush=True)
    write_json(LOOPS, result)


if __name__ == "__main__":
    main()
