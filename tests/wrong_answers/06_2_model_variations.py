"""Wrong answers to the exercises of 6.2, by check and by mistake."""

import math
from itertools import combinations, permutations
from statistics import mean, median

import numpy as np


def splits(one, other, centre=mean):
    """How far apart the two groups are, for every way to deal out the runs."""
    runs = [*one, *other]
    for chosen in combinations(range(len(runs)), len(one)):
        rest = [runs[i] for i in range(len(runs)) if i not in chosen]
        yield centre([runs[i] for i in chosen]) - centre(rest)


def share(far, centre=mean, slack=1e-9):
    """A share of all ways that counts other ones as far, or other centres."""

    def p_value(one, other):
        apart = [*splits(one, other, centre)]
        return sum(far(a, apart[0], slack) for a in apart) / len(apart)

    return p_value


def rounded_mean(values):
    """The mean as floating-point numbers give it; `statistics` computes exactly."""
    return sum(values) / len(values)


def both_sides(a, first, slack):
    return abs(a) >= abs(first) - slack


def doubled(one, other):
    return min(1.0, 2 * share(lambda a, first, slack: a >= first - slack)(one, other))


def without_the_first(one, other):
    apart = [*splits(one, other)]
    found = [a for a in apart[1:] if both_sides(a, apart[0], 1e-9)]
    return len(found) / (len(apart) - 1)


def one_more(one, other):
    apart = [*splits(one, other)]
    found = [a for a in apart if both_sides(a, apart[0], 1e-9)]
    return (len(found) + 1) / (len(apart) + 1)


def halves(one, other):
    """Every group is as large as the first."""
    size = min(len(one), len(other))
    return share(both_sides)(one[:size], other[:size])


def by_sums(one, other):
    return share(both_sides, centre=sum)(one, other)


def different_orders(one, other):
    found = {
        order
        for order in permutations([*one, *other])
        if abs(mean(order[: len(one)]) - mean(order[len(one) :]))
        >= abs(mean(one) - mean(other)) - 1e-9
    }
    return len(found) / math.factorial(len(one) + len(other))


WRONG = {
    "check_fewer_parameters": {
        "attention to the encoder forgotten": lambda: 12 * 2 * 512 * 256,
        "queries alone": lambda: 18 * 512 * 256,
        "values and outputs, too": lambda: 18 * 4 * 512 * 256,
        "eight heads": lambda: 18 * 2 * 512 * 8 * 48,
        "one head": lambda: 18 * 2 * 512 * 48,
        "as many as before: 16 heads of half the size": lambda: 0,
        "the sign": lambda: -18 * 2 * 512 * 256,
        "what is left": lambda: 18 * 2 * 512 * 256 * 16 // 8,
        "in millions": lambda: 4.7,
        "nothing": lambda: None,
        "yes": lambda: True,
        "a text": lambda: "4718592",
        "a list": lambda: [18 * 2 * 512 * 256],
        "a vector": lambda: np.array([18 * 2 * 512 * 256, 0]),
    },
    "check_p_value": {
        "one side": share(lambda a, first, slack: a >= first - slack),
        "the other side": share(lambda a, first, slack: a <= first + slack),
        "one side, doubled": doubled,
        "farther alone": share(lambda a, first, slack: abs(a) > abs(first) + slack),
        "exactly as far or farther": share(both_sides, centre=rounded_mean, slack=0.0),
        "medians": share(both_sides, centre=median),
        "largest values": share(both_sides, centre=max),
        "sums": by_sums,
        "what happened left out": without_the_first,
        "one more on both sides": one_more,
        "groups of equal size": halves,
        "different orders of all runs": different_orders,
        "nearer": share(lambda a, first, slack: abs(a) <= abs(first) + slack),
        "a constant": lambda one, other: 0.05,
        "a slack of a hundredth": share(
            lambda a, first, slack: abs(a) >= abs(first) - 0.01
        ),
        "a slack of a ten-thousandth": share(
            lambda a, first, slack: abs(a) >= abs(first) - 1e-4
        ),
        "rounded scores": lambda one, other: share(both_sides)(
            [round(x, 1) for x in one], [round(x, 1) for x in other]
        ),
        "nothing": lambda one, other: None,
        "yes": lambda one, other: True,
        "a text": lambda one, other: str(share(both_sides)(one, other)),
        "a list": lambda one, other: [share(both_sides)(one, other)],
        "two numbers": lambda one, other: np.array([1 / 3, 1 / 3]),
        "not a number": lambda one, other: math.nan,
        "per cent": lambda one, other: 100 * share(both_sides)(one, other),
    },
}
