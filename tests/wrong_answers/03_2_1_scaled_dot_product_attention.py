"""Wrong answers to the exercises of 3.2.1, by check and by mistake."""

import math
import sys
from functools import partial

import torch


def measurement_of_the_check():
    """Return the measurement of the check that is running, wherever it is."""
    frame = sys._getframe()
    while "moved_by_one_step" not in frame.f_globals:
        frame = frame.f_back
    return frame.f_globals["moved_by_one_step"]


def measured_by_the_check(d_k):
    moved = measurement_of_the_check()
    return moved(d_k, d_k**-0.25, 1) / moved(d_k, 1, d_k**0.5)


def measured_inside(d_k):
    def inside():
        return measured_by_the_check(d_k)

    return inside()


def measured_by_training(d_k):
    """The same measurement, written again with other words."""

    def moved(size, divisor):
        torch.manual_seed(3)
        start = size * torch.randn(2, 16, d_k, dtype=torch.float64)
        parts = start.clone().requires_grad_()
        scores = parts[0] @ parts[1].T / divisor
        loss = torch.nn.functional.cross_entropy(scores, torch.arange(16))
        (slope,) = torch.autograd.grad(loss, parts)
        later = start - 1e-5 * slope.sign()
        return (later[0] @ later[1].T / divisor - scores.detach()).std().item()

    return moved(d_k**-0.25, 1) / moved(1, d_k**0.5)


def of_all(d_k, q, k, mu):
    """The first divisor, right."""
    return q * math.sqrt(d_k * (k**2 + mu**2))


def of_one(d_k, q, k, mu):
    """The second divisor, right."""
    return q * k * math.sqrt(d_k)


def first(wrong):
    """A wrong first divisor, and the right second one."""
    return lambda *given: (wrong(*given), of_one(*given))


def second(wrong):
    """The right first divisor, and a wrong second one."""
    return lambda *given: (of_all(*given), wrong(*given))


FIXED = {0.5: 0.0, 0.9: math.log(9), 0.9999: math.log(9999), 0.2: -math.log(4)}


# fmt: off
WRONG = {
    "check_query": {
        "the query of By hand": lambda share: [1, 0, 1, 0],
        "none": lambda share: None,
        "one number": lambda share: math.log(share / (1 - share)),
        "two numbers": lambda share: [math.log(share / (1 - share)), 0],
        "forgets the division by 2": lambda share: [math.log(share / (1 - share)) / 2, 0] * 2,
        "the share of tea": lambda share: [math.log((1 - share) / share), 0] * 2,
        "leaves out the other exponential": lambda share: [math.log(share), 0] * 2,
        "the logarithm to base 10": lambda share: [math.log10(share / (1 - share)), 0] * 2,
        "a table of the first four": lambda share: [FIXED.get(share, 1.0), 0] * 2,
        "the share itself": lambda share: [share, 0] * 2,
        "rounded": lambda share: [round(math.log(share / (1 - share)), 2), 0] * 2,
        "right for 0.5 and 0.9": lambda share: [0 if share == 0.5 else math.log(9), 0] * 2,
        "never less than half": lambda share: [abs(math.log(share / (1 - share))), 0] * 2,
        "at most 0.99": lambda share: [min(math.log(share / (1 - share)), 4.6), 0] * 2,
    },
    "check_divisors": {
        "divides by zero": lambda *_: 1 / 0,
        "text": lambda *_: ("the root", "the root"),
        "one number": lambda *given: of_all(*given),
        "three numbers": lambda *given: (of_all(*given), of_one(*given), 1),
        "not yet written": lambda *_: (None, None),
        "the other way round": lambda *given: (of_one(*given), of_all(*given)),
        "the variance": first(lambda *given: of_all(*given) ** 2),
        "the mean forgotten": first(of_one),
        "the negative root": first(lambda *given: -of_all(*given)),
        "σ_k + |μ|": first(lambda d_k, q, k, mu: q * (k + abs(mu)) * math.sqrt(d_k)),
        "mean not squared": first(lambda d_k, q, k, mu: q * math.sqrt(d_k * (k**2 + abs(mu)))),
        "the queries have the mean": first(lambda d_k, q, k, mu: k * math.sqrt(d_k * (q**2 + mu**2))),
        "means add up": first(lambda d_k, q, k, mu: q * math.sqrt(d_k * (k**2 + d_k * mu**2))),
        "a constant": first(lambda d_k, q, k, mu: 1.5 * math.sqrt(d_k)),
        "nearly the mean's square": first(
            lambda d_k, q, k, mu: q * math.sqrt(d_k * (k**2 + abs(mu) * (abs(mu) + 1) / 2))
        ),
        "two percent too much": first(lambda *given: 1.02 * of_all(*given)),
        "a rounded root": first(lambda d_k, q, k, mu: q * math.isqrt(d_k) * math.sqrt(k**2 + mu**2)),
        "zero": first(lambda *_: 0),
        "the first again": second(of_all),
        "the second's variance": second(lambda *given: of_one(*given) ** 2),
        "the second negative": second(lambda *given: -of_one(*given)),
        "the second without d_k": second(lambda d_k, q, k, mu: q * k),
        "the second without the queries": second(lambda d_k, q, k, mu: k * math.sqrt(d_k)),
    },
    "check_farther": {
        "divides by zero": lambda d_k: 1 / 0,
        "text": lambda d_k: "farther",
        "a constant that is right at 256": lambda d_k: 4,
        "rounded": lambda d_k: round(d_k**0.25),
        "the root": lambda d_k: d_k**0.5,
        "A by B": lambda d_k: d_k**-0.25,
        "as far": lambda d_k: 1,
        "right for four widths": lambda d_k: {10: 10**0.25, 16: 2, 100: 100**0.25, 256: 4}.get(d_k, 1),
        "calls the check's measurement": measured_by_the_check,
        "calls it in a function of its own": measured_inside,
        "calls it through partial": partial(measured_inside),
        "measures in its own way": measured_by_training,
        "nearly the fourth root": lambda d_k: d_k**0.253,
    },
}
# fmt: on
