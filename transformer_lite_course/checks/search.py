"""Checks of greedy search and beam search (Section 6.1).

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/course/test_checks.py
"""

from collections.abc import Callable
from functools import partial
from itertools import product
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from transformer_lite_course.comparing import (
    Fault,
    random,
    require,
)

# Section 6.1


def check_search(part: ModuleType) -> None:
    """Greedy search, and a beam that finds what greedy search misses."""
    a, b, bos, eos = range(4)

    def chain(table: dict[int, list[float]]) -> Callable[[Tensor], Tensor]:
        """A model whose next token depends on the last one alone."""
        rows = [table.get(token, [0.25] * 4) for token in range(4)]
        log_probs = torch.tensor(rows).clamp(min=1e-9).log()
        return lambda ids: log_probs[ids[:, -1]]

    line = chain({bos: [0.6, 0.3, 0, 0.1], a: [0, 0.7, 0, 0.3], b: [0.2, 0, 0, 0.8]})
    found = _ids("greedy_search", part.greedy_search(line, bos, eos, 9))
    _require_clean("greedy_search", found, bos, eos)
    require(
        found == [a, b],
        f"greedy_search returns {found} where [0, 1] is the likeliest token every time.",
    )
    endless = chain({bos: [1, 0, 0, 0], a: [0.9, 0, 0, 0.1]})
    found = _ids("greedy_search", part.greedy_search(endless, bos, eos, 5))
    require(
        len(found) in (4, 5),
        f"greedy_search returns {len(found)} tokens where max_length is 5.",
    )
    # a is likelier than b, but what follows a is not.
    garden = chain({bos: [0.6, 0.4, 0, 0], a: [0.5, 0, 0, 0.5], b: [0, 0, 0, 1]})
    search = partial(part.beam_search, garden, bos, eos, 6)
    found = _ids("beam_search", search(1, 0.0))
    _require_clean("beam_search", found, bos, eos)
    require(
        found[:1] == [a], f"With a beam of 1, beam_search returns {found}; greedy [0]."
    )
    found = _ids("beam_search", search(2, 0.0))
    require(
        found == [b],
        f"With a beam of 2, beam_search returns {found}, which is less likely than [1]: keep the likeliest of all extensions, and compare what is finished at the end.",
    )
    _compare_with_brute_force(part)


def _ids(name: str, found: Any) -> list[int]:
    try:
        return [int(token) for token in found]
    except (TypeError, ValueError):
        kind = type(found).__name__
        raise Fault(f"{name} returns a {kind}; return a list of token ids.") from None


def _require_clean(name: str, found: list[int], bos: int, eos: int) -> None:
    require(bos not in found, f"{name} returns BOS; leave it out.")
    if eos in found:
        where = (
            "after EOS it goes on"
            if found.index(eos) < len(found) - 1
            else "leave it out"
        )
        raise Fault(f"{name} returns EOS; {where}.")


def _compare_with_brute_force(part: ModuleType) -> None:
    """Let a beam that loses nothing search small random models."""
    vocab, limit, bos, eos = 4, 4, 2, 3
    others = [token for token in range(vocab) if token != eos]
    outputs = [
        (*tokens, eos)
        for length in range(limit)
        for tokens in product(others, repeat=length)
    ]
    wrong: dict[str, list[bool]] = {}
    example = ""
    for seed, alpha in product(range(20), (0.0, 0.6, 1.0, 2.0, 4.0)):
        table = (2 * random(vocab, vocab, vocab, seed=seed)).log_softmax(-1)

        def next_log_probs(ids: Tensor, table: Tensor = table) -> Tensor:
            """Let the next token depend on the last two."""
            before = ids[:, -2] if ids.size(1) > 1 else torch.full_like(ids[:, 0], bos)
            return table[before, ids[:, -1]]

        width = vocab**limit
        said = part.beam_search(next_log_probs, bos, eos, limit, width, alpha)
        found = _ids("beam_search", said)
        log_probs = {
            output: sum(
                table[triple].item()
                for triple in zip(
                    [bos, bos, *output], [bos, *output], output, strict=False
                )
            )
            for output in outputs
        }
        best = {
            sentence: max(outputs, key=lambda o: score(log_probs[o], len(o), alpha))
            for sentence, score in SCORES.items()
        }
        right = list(best.pop("")[:-1])
        if found != right and not example:
            example = f"With a beam that can hold every output, beam_search returns {found}; of all outputs {right} has the best score (α = {alpha}). Does it keep looking after the first output is finished, and do the tokens of a beam stay together?"
        for sentence, output in best.items():
            wrong.setdefault(sentence, []).append(found == list(output[:-1]))
    if example:
        # A mistake explains every result, or it is not the one.
        named = [sentence for sentence, same in wrong.items() if all(same)]
        raise Fault(named[0] if named else example)


def _penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


SCORES: dict[str, Callable[[float, int, float], float]] = {
    "": lambda p, n, a: p / _penalty(n, a),
    "beam_search ignores α: divide log P by ((5 + length) / 6)^α.": lambda p, n, a: p,
    "beam_search multiplies by the length penalty; divide log P by it.": lambda p, n, a: (
        p * _penalty(n, a)
    ),
    "beam_search divides log P by the length itself; the penalty is ((5 + length) / 6)^α.": lambda p, n, a: (
        p / n**a
    ),
    "The length in beam_search's penalty leaves EOS out; it counts.": lambda p, n, a: (
        p / _penalty(n - 1, a)
    ),
    "beam_search takes the least likely output: log P is negative.": lambda p, n, a: (
        -p / _penalty(n, a)
    ),
}
"""The right score of an output, and those of mistakes, from log P, length and α."""
