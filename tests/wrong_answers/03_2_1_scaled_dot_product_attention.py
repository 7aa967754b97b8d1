"""Wrong answers to the exercises of 3.2.1, by check and by mistake."""

import math


def moved_by_one_step(d_k, size, divisor):
    """What the check has under this name."""
    return d_k**0.25 if size < 1 else 1.0


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
        "rounded": lambda share: [round(math.log(share / (1 - share)), 2), 0] * 2,
        "right for 0.5 and 0.9": lambda share: [0 if share == 0.5 else math.log(9), 0] * 2,
        "never less than half": lambda share: [abs(math.log(share / (1 - share))), 0] * 2,
        "at most 0.99": lambda share: [min(math.log(share / (1 - share)), 4.6), 0] * 2,
    },
    "check_divisor": {
        "divides by zero": lambda *_: 1 / 0,
        "text": lambda *_: "the root",
        "mean not squared": lambda d_k, q, k, mu: q * math.sqrt(d_k * (k**2 + abs(mu))),
        "a constant": lambda d_k, q, k, mu: 1.5 * math.sqrt(d_k),
        "nearly the mean's square": lambda d_k, q, k, mu: q * math.sqrt(d_k * (k**2 + abs(mu) * (abs(mu) + 1) / 2)),
        "two percent too much": lambda d_k, q, k, mu: 1.02 * q * math.sqrt(d_k * (k**2 + mu**2)),
        "a rounded root": lambda d_k, q, k, mu: q * math.isqrt(d_k) * math.sqrt(k**2 + mu**2),
    },
    "check_farther": {
        "divides by zero": lambda d_k: 1 / 0,
        "text": lambda d_k: "farther",
        "a constant that is right at 256": lambda d_k: 4,
        "rounded": lambda d_k: round(d_k**0.25),
        "calls the check's measurement": lambda d_k: moved_by_one_step(d_k, d_k**-0.25, 1) / moved_by_one_step(d_k, 1, d_k**0.5),
        "nearly the fourth root": lambda d_k: d_k**0.253,
    },
}
# fmt: on
