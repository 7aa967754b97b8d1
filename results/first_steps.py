"""Train small translators with none, some or many full steps of Adam at the start.

All runs of a seed share the start and the batches; after step 30, all learning rates
of a peak are the same. One run takes its full steps to random sides. One has as good
a guess in v from the start as the gradients of 30 batches give.

python -m results.first_steps
"""

from concurrent.futures import ProcessPoolExecutor
from statistics import mean
from typing import Any

import torch

from results.models import PreNorm
from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.model import Transformer
from transformer_lite_book.first_steps import (
    Changes,
    Course,
    flat_rate,
    short_sentences,
    small_model,
    train_small,
    with_ramp,
)
from transformer_lite_book.recordings import FIRST_STEPS

PEAK, LOW, LOWER_PEAK, WARMUP, STEPS = 0.01, 0.002, 0.003, 30, 100
SEEDS = range(1, 9)
WORKERS = 4


def with_full(count: int, peak: float = PEAK) -> list[float]:
    """Return rates of *flat*, but only the first few of the first 30 are full."""
    return [
        LOW if count < step <= WARMUP else flat_rate(step, peak, WARMUP)
        for step in range(1, STEPS + 1)
    ]


def ramp(peak: float) -> list[float]:
    """Return rates that rise to a peak."""
    return [with_ramp(step, peak, WARMUP) for step in range(1, STEPS + 1)]


RUNS: dict[str, tuple[list[float], Changes]] = {
    "ramp": (ramp(PEAK), Changes()),
    "low first": (with_full(0), Changes()),
    "one full": (with_full(1), Changes()),
    "five full": (with_full(5), Changes()),
    "flat": (with_full(WARMUP), Changes()),
    "five full, random signs": (with_full(5), Changes(random_signs=range(1, 6))),
    "flat, v filled": (with_full(WARMUP), Changes(filled=WARMUP)),
    "ramp, 0.003": (ramp(LOWER_PEAK), Changes()),
    "flat, 0.003": (with_full(WARMUP, LOWER_PEAK), Changes()),
}
IN_PRE_NORM = ("ramp", "flat")
STEP_BY_STEP = (*tuple(RUNS)[:6], "flat, 0.003")
"""Runs that are written down step by step."""


def runs_of(seed: int) -> dict[str, Course]:
    """Train with a seed in all ways, each by its name."""
    torch.set_num_threads(1)
    corpus = short_sentences()

    def run(name: str, of: type[Transformer] = Transformer) -> Course:
        rates, changes = RUNS[name]
        return train_small(small_model(corpus, seed, of), corpus, rates, seed, changes)

    found = {name: run(name) for name in RUNS}
    for name in IN_PRE_NORM:
        found[f"{name}, pre-norm"] = run(name, of=PreNorm)
    return found


def main() -> None:
    """Train with all seeds; write how each run ends, and some step by step."""
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    result["seeds"] = [*SEEDS]
    courses: dict[str, list[Course]] = {}
    with ProcessPoolExecutor(WORKERS) as pool:
        for found in pool.map(runs_of, SEEDS):
            for name, course in found.items():
                courses.setdefault(name, []).append(course)
    result["end"] = {
        name: [round(one.end, 3) for one in of] for name, of in courses.items()
    }
    result["lengths"] = {
        name: [
            round(mean(at), 6)
            for at in zip(*(c.lengths for c in courses[name]), strict=True)
        ]
        for name in STEP_BY_STEP
    }
    result["own_shares"] = {
        name: [[round(x, 3) for x in c.own_shares] for c in courses[name]]
        for name in STEP_BY_STEP
    }
    write_json(FIRST_STEPS, result)


if __name__ == "__main__":
    main()
