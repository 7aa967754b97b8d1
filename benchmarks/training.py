"""Training: target tokens a second, ours and the peers' on the same batches."""

import statistics
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from peers import Marian, Naive, NaiveStep, Ours, marian
from turns import in_turn

from transformer_lite.batching import Batch, token_buckets
from transformer_lite.config import ModelConfig
from transformer_lite.data.corpora import load_corpus
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.model import Transformer
from transformer_lite.precision import choose_precision

CONFIG = ModelConfig(
    vocab_size=8_000, num_layers=3, d_model=256, d_ff=1024, num_heads=8, max_len=512
)
TRAINERS = {
    "ours, fp32": lambda model: Ours(model, "fp32"),
    "ours, bf16": lambda model: Ours(model, "bf16"),
    "Marian, eager": lambda model: Marian(marian(model, "eager")),
    "Marian, sdpa": lambda model: Marian(marian(model, "sdpa")),
    "torch.nn.Transformer": lambda model: NaiveStep(Naive(model)),
}
BATCHES, BATCH_TOKENS = 6, 2_048


def load(folder: Path) -> PreparedCorpus:
    """Return Multi30k, prepared at the first call."""
    if not folder.exists():
        corpus = load_corpus("multi30k")
        prepare(corpus, folder, CONFIG.vocab_size, 256, skip_unusable=True)
    return PreparedCorpus(folder)


def training_batches(folder: Path) -> list[Batch]:
    """Return batches of about 2,048 target tokens, evenly spread over the lengths."""
    src, tgt = load(folder).ids("train")
    epoch = token_buckets(src.lengths, tgt.lengths, BATCH_TOKENS, (1, 0))
    epoch.sort(key=lambda pairs: tgt.lengths[pairs].max())
    chosen = np.linspace(0, len(epoch) - 1, 2 * BATCHES + 1).astype(int)[1::2]
    return [Batch.of_pairs(src, tgt, epoch[n]) for n in chosen]


def begin(folder: Path, system: str) -> Callable[[], list[float]]:
    """Make a system ready; each turn gives the seconds of a step on every batch."""
    torch.manual_seed(1)
    model, batches = Transformer(CONFIG), training_batches(folder)
    if system.startswith("Marian"):
        check_loss(model, batches[0])
    trainer = TRAINERS[system](model)

    def turn() -> list[float]:
        times = [time.perf_counter()]
        for batch in batches:
            trainer.step(batch)
            times.append(time.perf_counter())
        return [end - start for start, end in pairwise(times)]

    return turn


@torch.no_grad()
def check_loss(ours: Transformer, batch: Batch) -> None:
    """Hold Marian's loss to ours, from equal weights and without dropout.

    Label smoothing is defined a little differently: hence the tolerance.
    """
    objective = Ours(ours.eval(), "fp32").objective
    sums = objective(batch.src_ids, batch.tgt_input, batch.labels, batch.real)
    expected = sums.loss / batch.tokens
    loss = Marian(marian(ours, "sdpa").eval()).loss(batch)
    ours.train()
    if abs(loss - expected) > 2e-3 * expected:
        raise AssertionError(f"Marian: loss {loss}, ours {expected}")


def measure(folder: Path, passes: int) -> dict:
    """Measure target tokens a second of each."""
    batches = training_batches(folder)
    tokens = sum(batch.tokens for batch in batches)
    systems = [*TRAINERS]
    if choose_precision("auto", torch.device("cpu")) != "bf16":
        systems.remove("ours, bf16")
    given, missing = in_turn(partial(begin, folder), systems, passes)
    ours = [sum(times) for times in given["ours, fp32"]]
    rates = {}
    for name, turns in given.items():
        each = zip(*turns, strict=True)
        best = tokens / sum(map(min, each))
        sums = [sum(times) for times in turns]
        rates[name] = rate(tokens, sums, ours) | {"best": best}
    return {
        "unit": "target tokens/s",
        "passes": passes,
        "batches": [list(batch.tgt_ids.shape) for batch in batches],
        "tokens": tokens,
        "rates": rates,
        "missing": missing,
    }


def rate(work: float, seconds: list[float], ours: list[float]) -> dict[str, float]:
    """Return a system's rates, and how many times as fast ours is, pass by pass."""
    ratios = [other / own for other, own in zip(seconds, ours, strict=True)]
    return {
        "best": work / min(seconds),
        "median": work / statistics.median(seconds),
        "ours_is_faster_by": statistics.median(ratios),
    }
