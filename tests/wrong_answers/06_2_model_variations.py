"""Wrong answers to the exercises of 6.2, by check and by mistake."""

import math
from itertools import combinations
from statistics import mean, median


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


# fmt: off
WRONG = {
    "check_fewer_parameters": {
        "attention to the encoder forgotten": lambda: 12 * 2 * 512 * 256,
        "queries alone": lambda: 18 * 512 * 256,
        "values and outputs, too": lambda: 18 * 4 * 512 * 256,
        "what is left": lambda: 18 * 2 * 512 * 256 * 16 // 8,
        "nothing": lambda: None,
    },
    "check_p_value": {
        "one side, doubled": doubled,
        "exactly as far or farther": share(both_sides, centre=rounded_mean, slack=0.0),
        "medians": share(both_sides, centre=median),
        "largest values": share(both_sides, centre=max),
        "a constant": lambda one, other: 0.05,
        "a slack of a hundredth": share(lambda a, first, slack: abs(a) >= abs(first) - 0.01),
        "a slack of a ten-thousandth": share(lambda a, first, slack: abs(a) >= abs(first) - 1e-4),
        "rounded scores": lambda one, other: share(both_sides)(
            [round(x, 1) for x in one], [round(x, 1) for x in other]
        ),
        "nothing": lambda one, other: None,
        "not a number": lambda one, other: math.nan,
        "one side": share(lambda a, first, slack: a >= first - slack),
    },
}
# fmt: on
