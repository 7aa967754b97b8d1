"""Wrong answers to the exercises of 6.2, by check and by mistake."""

import math
from itertools import combinations, permutations
from statistics import mean, median


def signs(values):
    return [(a > b) - (a < b) for a, b in combinations(values, 2)]


def products(one, other):
    return [a * b for a, b in zip(signs(one), signs(other), strict=True)]


def over(total):
    """Kendall's correlation with another denominator."""
    return lambda one, other: (
        sum(products(one, other)) / (total(signs(one), signs(other)) or 1)
    )


def correlation(one, other):
    a = [x - mean(one) for x in one]
    b = [x - mean(other) for x in other]
    size = math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / size


def ranks(values):
    return [
        sum(o < v for o in values) + (sum(o == v for o in values) + 1) / 2
        for v in values
    ]


def in_order(values):
    """Ranks that give equal values different places."""
    order = sorted(range(len(values)), key=values.__getitem__)
    return [order.index(i) for i in range(len(values))]


def untied(pairs):
    return sum(map(abs, pairs))


def right_kendall(one, other):
    return over(lambda a, b: math.sqrt(untied(a) * untied(b)))(one, other)


def ties_agree(one, other):
    pairs = zip(signs(one), signs(other), strict=True)
    marks = [1 if a == b else -1 for a, b in pairs]
    return sum(marks) / len(marks)


def neighbours(one, other):
    marks = [
        ((a > b) - (a < b)) * ((c > d) - (c < d))
        for a, b, c, d in zip(one, one[1:], other, other[1:], strict=False)
    ]
    return sum(marks) / len(marks)


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
    "check_kendall": {
        "over all pairs": over(lambda a, b: len(a)),
        "over pairs without any tie": over(
            lambda a, b: sum(x * y != 0 for x, y in zip(a, b, strict=True))
        ),
        "over the first table's untied pairs": over(lambda a, b: untied(a)),
        "over the second table's untied pairs": over(lambda a, b: untied(b)),
        "over the mean of both": over(lambda a, b: (untied(a) + untied(b)) / 2),
        "Pearson's correlation": correlation,
        "Spearman's correlation": lambda one, other: correlation(
            ranks(one), ranks(other)
        ),
        "ties agree": ties_agree,
        "ties broken by place": lambda one, other: right_kendall(
            in_order(one), in_order(other)
        ),
        "neighbours alone": neighbours,
        "the sign": lambda one, other: -right_kendall(one, other),
        "the size": lambda one, other: abs(right_kendall(one, other)),
        "sorted first": lambda one, other: right_kendall(sorted(one), sorted(other)),
        "a constant": lambda one, other: 1.0,
        "equal rows count once": lambda one, other: right_kendall(
            *zip(*sorted(set(zip(one, other, strict=True))), strict=True)
        ),
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
        "rounded scores": lambda one, other: share(both_sides)(
            [round(x, 1) for x in one], [round(x, 1) for x in other]
        ),
    },
}
