"""Train small translators whose first steps of Adam are long, short or otherwise.

All runs of a seed share the start and the batches; after step 30, all learning rates
of a peak are the same. A control has as good a guess in v as the gradients of 30
batches give. All its steps are as long as those of the run that has none, or, in one
more run, as long as Adam makes them.

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

PEAK, LOW, WARMUP, STEPS = 0.01, 0.002, 30, 100
SEEDS = range(1, 9)
WORKERS = 4
LIMITS = (0.4, 0.2, 0.1)
"""How long a step may be in the first 30, in learning rates; without one, it is 1."""
FIRST, NEXT = range(1, WARMUP + 1), range(WARMUP + 1, 2 * WARMUP + 1)
ALL = range(1, STEPS + 1)

FLAT = [flat_rate(step, PEAK, WARMUP) for step in range(1, STEPS + 1)]


def low_in(first: int, last: int) -> list[float]:
    """Return the rates of *flat*, but low ones in some steps."""
    return [LOW if first <= step <= last else rate for step, rate in enumerate(FLAT, 1)]


RUNS: dict[str, tuple[list[float], Changes]] = {
    "ramp": ([with_ramp(s, PEAK, WARMUP) for s in range(1, STEPS + 1)], Changes()),
    "low first": (low_in(1, WARMUP), Changes()),
    "flat": (FLAT, Changes()),
    "five full": (low_in(6, WARMUP), Changes()),
    "five full, random signs": (low_in(6, WARMUP), Changes(random_signs=range(1, 6))),
    "restart": (low_in(1, WARMUP), Changes(anew=WARMUP + 1)),
    "restart, at most 0.1": (
        low_in(1, WARMUP),
        Changes(anew=WARMUP + 1, longest=dict.fromkeys(NEXT, 0.1)),
    ),
    "flat, v filled, lengths free": (FLAT, Changes(filled=WARMUP)),
    "ramp, 0.003": ([with_ramp(s, 0.003, WARMUP) for s in range(1, 101)], Changes()),
    "flat, 0.003": ([flat_rate(s, 0.003, WARMUP) for s in range(1, 101)], Changes()),
}
RUNS |= {
    f"flat, at most {limit}": (FLAT, Changes(longest=dict.fromkeys(FIRST, limit)))
    for limit in LIMITS
}
IN_PRE_NORM = ("ramp", "flat")
IN_FULL = ("ramp", "low first", "flat", "flat, at most 0.1")
"""Runs that are written down step by step."""


def as_long_as(course: Course, steps: range, later: int = 0) -> dict[int, float]:
    """Return how long steps are to be, if they take the lengths of a run's."""
    return {step + later: course.lengths[step - 1] for step in steps}


def runs_of(seed: int) -> dict[str, Course]:
    """Train with a seed in all ways, each by its name."""
    torch.set_num_threads(1)
    corpus = short_sentences()

    def run(
        rates: list[float], changes: Changes, of: type[Transformer] = Transformer
    ) -> Course:
        return train_small(small_model(corpus, seed, of), corpus, rates, seed, changes)

    found = {name: run(*way) for name, way in RUNS.items()}
    for name in ("flat", *(f"flat, at most {limit}" for limit in LIMITS)):
        changes = Changes(filled=WARMUP, as_long=as_long_as(found[name], ALL))
        found[f"{name}, v filled"] = run(FLAT, changes)
    lengths = as_long_as(found["flat"], FIRST, later=WARMUP)
    found["long steps later"] = run(low_in(1, WARMUP), Changes(as_long=lengths))
    for name in IN_PRE_NORM:
        found[f"{name}, pre-norm"] = run(*RUNS[name], of=PreNorm)
    return found


def main() -> None:
    """Train with all seeds; write how each run ends, and some runs step by step."""
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
        name: [round(mean(at), 6) for at in zip(*(c.lengths for c in of), strict=True)]
        for name, of in courses.items()
    }
    for what in ("losses", "own_shares"):
        result[what] = {
            name: [[round(x, 3) for x in getattr(c, what)] for c in courses[name]]
            for name in IN_FULL
        }
    write_json(FIRST_STEPS, result)


if __name__ == "__main__":
    main()
