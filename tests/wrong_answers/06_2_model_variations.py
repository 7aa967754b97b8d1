"""Wrong answers to the exercises of 6.2, by check and by mistake."""

import math
from statistics import mean

import numpy as np


def standings(centre, order=None, at=None):
    """Ratios of a centre of each row's runs, in the order of `order`."""

    def answer(curves, place):
        place = place if at is None else at
        found = {row: centre([r[place] for r in runs]) for row, runs in curves.items()}
        rows = sorted(found, key=found.get) if order is None else order(found)
        return {row: found[row] / found["base"] for row in rows}

    return answer


def geometric(values):
    return math.exp(mean(map(math.log, values)))


def in_another_order(curves, place):
    """The right ratios, sorted by the mean of the perplexities."""
    found = standings(geometric)(curves, place)
    return {row: found[row] for row in standings(mean)(curves, place)}


def backwards(found):
    return sorted(found, key=found.get, reverse=True)


def of_logs(curves, place):
    """The logarithms themselves divided."""
    logs = {row: mean(math.log(r[place]) for r in runs) for row, runs in curves.items()}
    return {row: logs[row] / logs["base"] for row in sorted(logs, key=logs.get)}


def best(chosen_by, reported, base):
    """The idea that the first scores choose, with its gain by the second scores."""
    place = chosen_by.argmin()
    return place, base.mean() - reported[place]


def each_reports(ideas, base):
    """Each seed reports on the idea that the others choose."""
    gains = []
    for seed in range(ideas.shape[1]):
        others = np.delete(ideas, seed, axis=1).mean(axis=1)
        gains.append(best(others, ideas[:, seed], base)[1])
    return ideas.mean(axis=1).argmin(), np.mean(gains)


def in_two_halves(ideas, base):
    one, two = np.split(ideas, 2, axis=1)
    return best(one.mean(1), two.mean(1), base)


def seeds(rule):
    """An answer from 1.645 spreads, measured in gains."""
    return lambda gain, spread: math.ceil(rule(1.645 * spread / gain))


def count_up(gain, spread):
    number = 1
    while gain < 1.645 * spread * math.sqrt(2 / number):
        number += 1
    return number


# fmt: off
WRONG = {
    "check_best_idea": {
        "as it was": lambda ideas, base: best(ideas.mean(1), ideas.mean(1), base),
        "the best seed against the best": lambda ideas, base: best(ideas.min(1), ideas.min(1), base.min(keepdims=True)),
        "one seed chooses, all report": lambda ideas, base: best(ideas[:, 0], ideas.mean(1), base),
        "all choose, one reports": lambda ideas, base: best(ideas.mean(1), ideas[:, 0], base),
        "the median": lambda ideas, base: best(np.median(ideas, 1), np.median(ideas, 1), base),
        "always the first idea": lambda ideas, base: (0, base.mean() - ideas[0].mean()),
        "the luck of two seeds subtracted": lambda ideas, base: (
            ideas.mean(1).argmin(), base.mean() - ideas.mean(1).min() - 0.0165
        ),
        "nothing below 5 %": lambda ideas, base: (
            ideas.mean(1).argmin(), (base.mean() - ideas.mean(1).min()) * (base.mean() - ideas.mean(1).min() > 0.05)
        ),
        "always zero": lambda ideas, base: (ideas.mean(1).argmin(), 0.0),
        "the worst idea": lambda ideas, base: (ideas[:, 0].argmax(), base.mean() - ideas[ideas[:, 0].argmax(), 1:].mean()),
        "the sign": lambda ideas, base: (ideas[:, 0].argmin(), ideas[ideas[:, 0].argmin(), 1:].mean() - base.mean()),
        "an even number of seeds only": in_two_halves,
        "the gain alone": lambda ideas, base: base.mean() - ideas.mean(1).min(),
        "nothing": lambda ideas, base: None,
    },
    "check_seeds_needed": {
        "base without luck": seeds(lambda z: z**2),
        "rounded down": lambda gain, spread: math.floor(2 * (1.645 * spread / gain) ** 2),
        "rounded": lambda gain, spread: round(2 * (1.645 * spread / gain) ** 2),
        "not rounded": lambda gain, spread: 2 * (1.645 * spread / gain) ** 2,
        "both ends": seeds(lambda z: 2 * (z * 1.96 / 1.645) ** 2),
        "no square": seeds(lambda z: 2 * z),
        "the root of two": seeds(lambda z: math.sqrt(2) * z),
        "scatters added": seeds(lambda z: (2 * z) ** 2),
        "by heart": lambda gain, spread: {(0.02, 0.0316): 14, (0.01, 0.0127): 9, (0.02, 0.0127): 3, (0.03, 0.03): 6}[gain, spread],
        "a factor of 5.3": lambda gain, spread: math.ceil(5.3 * (spread / gain) ** 2),
        "a factor of 5.5": lambda gain, spread: math.ceil(5.5 * (spread / gain) ** 2),
        "one standard deviation": seeds(lambda z: 2 * (z / 1.645) ** 2),
        "the inverse": lambda gain, spread: math.ceil(2 * (1.645 * gain / spread) ** 2),
        "nothing": lambda gain, spread: None,
    },
    "check_standings": {
        "the mean of perplexities": standings(mean),
        "the best seed of each row": standings(min),
        "the first seed of each row": standings(lambda values: values[0]),
        "the last step": standings(geometric, at=-1),
        "the first step": standings(geometric, at=0),
        "the worst row first": standings(geometric, order=backwards),
        "in the order of the mean perplexities": in_another_order,
        "in the given order": standings(geometric, order=list),
        "rows by name": standings(geometric, order=sorted),
        "logarithms divided": of_logs,
        "not divided by base": lambda curves, place: {
            row: ratio * geometric([r[place] for r in curves["base"]])
            for row, ratio in standings(geometric)(curves, place).items()
        },
        "base left out": lambda curves, place: {
            row: ratio for row, ratio in standings(geometric)(curves, place).items() if row != "base"
        },
        "a list": lambda curves, place: [*standings(geometric)(curves, place).items()],
        "nothing": lambda curves, place: None,
    },
}

RIGHT = {
    "check_best_idea": {
        "the last seed reports": lambda ideas, base: best(ideas[:, :-1].mean(1), ideas[:, -1], base),
        "halves": lambda ideas, base: best(
            ideas[:, : ideas.shape[1] // 2].mean(1), ideas[:, ideas.shape[1] // 2 :].mean(1), base
        ),
        "the median chooses": lambda ideas, base: best(np.median(ideas[:, 1:], 1), ideas[:, 0], base),
        "each seed reports once": each_reports,
    },
    "check_seeds_needed": {
        "one after the other": count_up,
        "by the scatter of the difference": lambda gain, spread: math.ceil((1.645 * math.hypot(spread, spread) / gain) ** 2),
    },
}
# fmt: on
