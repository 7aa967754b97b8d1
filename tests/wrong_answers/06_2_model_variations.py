"""Wrong answers to the exercises of 6.2, by check and by mistake."""

import math
from statistics import mean


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


def backwards(found):
    return sorted(found, key=found.get, reverse=True)


def of_logs(curves, place):
    """The logarithms themselves divided."""
    logs = {row: mean(math.log(r[place]) for r in runs) for row, runs in curves.items()}
    return {row: logs[row] / logs["base"] for row in sorted(logs, key=logs.get)}


# fmt: off
WRONG = {
    "check_fewer_parameters": {
        "attention to the encoder forgotten": lambda heads, d_k: 12 * 2 * 512 * (512 - heads * d_k),
        "queries alone": lambda heads, d_k: 18 * 512 * (512 - heads * d_k),
        "values and outputs, too": lambda heads, d_k: 18 * 4 * 512 * (512 - heads * d_k),
        "what is left": lambda heads, d_k: 18 * 2 * 512 * heads * d_k,
        "eight heads": lambda heads, d_k: 18 * 2 * 512 * (512 - 8 * 2 * d_k),
        "a number": lambda heads, d_k: 18 * 2 * 512 * 256,
        "nothing": lambda heads, d_k: None,
    },
    "check_standings": {
        "the mean of perplexities": standings(mean),
        "the best seed of each row": standings(min),
        "the first seed of each row": standings(lambda values: values[0]),
        "the last step": standings(geometric, at=-1),
        "the first step": standings(geometric, at=0),
        "the worst row first": standings(geometric, order=backwards),
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
# fmt: on
