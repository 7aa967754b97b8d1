"""Checks of greedy search and beam search (Section 6.1).

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/course/test_checks.py
"""

from collections.abc import Callable
from itertools import product
from types import ModuleType

import torch
from torch import Tensor

from transformer_lite_course.comparison import MistakeError, random, require

# fmt: off
NO_LIST = "{} returns a {}; return a list of token ids."
HAS_BOS = "{} returns BOS; leave it out."
HAS_EOS = "{} returns EOS; leave it out."
GOES_ON = "{} returns EOS; after EOS it goes on."
NOT_GREEDY = "greedy_search returns {} where [0, 1] is the likeliest token every time."
TOO_LONG = "greedy_search returns {} tokens where max_length is 5."
BEAM_OF_1 = "With a beam of 1, beam_search returns {}; greedy [0]."
BEAM_OF_2 = "With a beam of 2, beam_search returns {}, which is less likely than [1]: keep the likeliest of all extensions, and compare what is finished at the end."
NOT_BEST = "With a beam that can hold every output, beam_search returns {}; of all outputs {} has the best score (α = {}). Does it keep looking after the first output is finished, and do the tokens of a beam stay together?"
NO_PENALTY = "beam_search ignores α: divide log P by ((5 + length) / 6)^α."
PENALTY_MULTIPLIES = "beam_search multiplies by the length penalty; divide log P by it."
BY_LENGTH = "beam_search divides log P by the length itself; the penalty is ((5 + length) / 6)^α."
WITHOUT_EOS = "The length in beam_search's penalty leaves EOS out; it counts."
LEAST_LIKELY = "beam_search takes the least likely output: log P is negative."
# fmt: on


def _score(log_p: float, length: int, alpha: float) -> float:
    return log_p / ((5 + length) / 6) ** alpha


WRONG_SCORES: dict[str, Callable[[float, int, float], float]] = {
    NO_PENALTY: lambda log_p, length, alpha: log_p,
    PENALTY_MULTIPLIES: lambda log_p, length, alpha: _score(log_p, length, -alpha),
    BY_LENGTH: lambda log_p, length, alpha: log_p / length**alpha,
    WITHOUT_EOS: lambda log_p, length, alpha: _score(log_p, length - 1, alpha),
    LEAST_LIKELY: lambda log_p, length, alpha: -_score(log_p, length, alpha),
}
"""The scores of an output that mistakes give, from log P, length and α."""


def check_search(part: ModuleType) -> None:
    """Greedy search, and a beam that finds what greedy search misses."""
    a, b, bos, eos = range(4)

    def chain(table: dict[int, list[float]]) -> Callable[[Tensor], Tensor]:
        """A model whose next token depends on the last one alone."""
        rows = [table.get(token, [0.25] * 4) for token in range(4)]
        log_probs = torch.tensor(rows).clamp(min=1e-9).log()
        return lambda ids: log_probs[ids[:, -1]]

    def run(
        name: str, model: Callable[[Tensor], Tensor], *settings: float
    ) -> list[int]:
        ids = _ids(name, getattr(part, name)(model, bos, eos, *settings))
        require(bos not in ids, HAS_BOS.format(name))
        require(eos not in ids[:-1], GOES_ON.format(name))
        require(eos not in ids, HAS_EOS.format(name))
        return ids

    line = chain({bos: [0.6, 0.3, 0, 0.1], a: [0, 0.7, 0, 0.3], b: [0.2, 0, 0, 0.8]})
    ids = run("greedy_search", line, 9)
    require(ids == [a, b], NOT_GREEDY.format(ids))
    endless = chain({bos: [1, 0, 0, 0], a: [0.9, 0, 0, 0.1]})
    ids = run("greedy_search", endless, 5)
    require(len(ids) in (4, 5), TOO_LONG.format(len(ids)))
    # a is likelier than b, but what follows a is not.
    garden = chain({bos: [0.6, 0.4, 0, 0], a: [0.5, 0, 0, 0.5], b: [0, 0, 0, 1]})
    ids = run("beam_search", garden, 6, 1, 0.0)
    require(ids[:1] == [a], BEAM_OF_1.format(ids))
    ids = run("beam_search", garden, 6, 2, 0.0)
    require(ids == [b], BEAM_OF_2.format(ids))
    _compare_with_brute_force(part)


def _ids(name: str, output: object) -> list[int]:
    try:
        return [int(token) for token in output]
    except (TypeError, ValueError):
        kind = type(output).__name__
        raise MistakeError(NO_LIST.format(name, kind)) from None


def _compare_with_brute_force(part: ModuleType) -> None:
    """Let a beam that loses nothing search small random models."""
    vocab, limit, bos, eos = 4, 4, 2, 3
    others = [token for token in range(vocab) if token != eos]
    outputs = [
        (*tokens, eos)
        for length in range(limit)
        for tokens in product(others, repeat=length)
    ]
    possible, difference = set(WRONG_SCORES), ""
    for seed, alpha in product(range(20), (0.0, 0.6, 1.0, 2.0, 4.0)):
        table = (2 * random(vocab, vocab, vocab, seed=seed)).log_softmax(-1)

        def next_log_probs(ids: Tensor, table: Tensor = table) -> Tensor:
            """Let the next token depend on the last two."""
            before = ids[:, -2] if ids.size(1) > 1 else torch.full_like(ids[:, 0], bos)
            return table[before, ids[:, -1]]

        log_probs = {}
        for output in outputs:
            triples = zip((bos, bos, *output), (bos, *output), output, strict=False)
            log_probs[output] = sum(table[triple].item() for triple in triples)

        def best(
            score: Callable[[float, int, float], float],
            log_probs: dict[tuple[int, ...], float] = log_probs,
            alpha: float = alpha,
        ) -> list[int]:
            *tokens, _ = max(outputs, key=lambda o: score(log_probs[o], len(o), alpha))
            return tokens

        beam_size = vocab**limit
        output = part.beam_search(next_log_probs, bos, eos, limit, beam_size, alpha)
        ids, right = _ids("beam_search", output), best(_score)
        if ids != right and not difference:
            difference = NOT_BEST.format(ids, right, alpha)
        possible = {s for s in possible if best(WRONG_SCORES[s]) == ids}
    if difference:
        # A mistake explains every result, or it is not the one.
        raise MistakeError(next((s for s in WRONG_SCORES if s in possible), difference))
