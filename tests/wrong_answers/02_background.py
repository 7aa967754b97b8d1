"""Wrong answers to the exercises of chapter 2, by check and by mistake."""

import math

import torch


def reach(operations, k):
    """How far that many dilated convolutions see to each side."""
    return (k**operations - 1) // 2


def first_that_reaches(enough):
    """The smallest number of operations with which `enough` is content."""

    def candidate(distance, k):
        operations = 1
        while not enough(operations, distance, k):
            operations += 1
        return operations

    return candidate


def hidden(query, keys):
    return torch.tanh(query[:, None] + keys[None])


WRONG = {
    "check_additive": {
        "a softmax over the queries": lambda q, k, v: (hidden(q, k) @ v).softmax(0),
        "keys as rows": lambda q, k, v: (hidden(k, q) @ v).softmax(-1),
        "no tanh": lambda q, k, v: ((q[:, None] + k) @ v).softmax(-1),
        "tanh before the sum": lambda q, k, v: (
            (q.tanh()[:, None] + k.tanh()) @ v
        ).softmax(-1),
        "tanh after v": lambda q, k, v: ((q[:, None] + k) @ v).tanh().softmax(-1),
        "no softmax": lambda q, k, v: hidden(q, k) @ v,
        "a product": lambda q, k, v: ((q[:, None] * k).tanh() @ v).softmax(-1),
        "a dot product": lambda q, k, v: (q @ k.T).softmax(-1),
        "the first query for all": lambda q, k, v: (
            (hidden(q[:1], k) @ v).softmax(-1).expand(len(q), -1)
        ),
        "even weights": lambda q, k, v: torch.full((len(q), len(k)), 1 / len(k)),
        "a sum without v": lambda q, k, v: hidden(q, k).sum(-1).softmax(-1),
        "a loop over the queries": lambda q, k, v: torch.stack(
            [(torch.tanh(row + k) @ v).softmax(-1) for row in q]
        ),
        "a loop over the keys": lambda q, k, v: torch.stack(
            [torch.tanh(q + row) @ v for row in k], dim=1
        ).softmax(-1),
        "one softmax for all queries": lambda q, k, v: (
            (hidden(q, k) @ v).flatten().softmax(0).view(len(q), len(k))
        ),
        "a loop over plain numbers": lambda q, k, v: (
            torch.tensor(
                [
                    sum(c * math.tanh(a + b) for a, b, c in zip(x, y, w, strict=True))
                    for xs, ys, w in [(q.tolist(), k.tolist(), v.tolist())]
                    for x in xs
                    for y in ys
                ]
            )
            .view(len(q), len(k))
            .softmax(-1)
        ),
    },
    "check_sharpness": {
        "two keys": lambda p, gap, n: math.log(p / (1 - p)) / gap,
        "n rivals": lambda p, gap, n: math.log(n * p / (1 - p)) / gap,
        "no gap": lambda p, gap, n: math.log((n - 1) * p / (1 - p)),
        "times the gap": lambda p, gap, n: math.log((n - 1) * p / (1 - p)) * gap,
        "a gap of 1/4": lambda p, gap, n: 4 * math.log((n - 1) * p / (1 - p)),
        "digits": lambda p, gap, n: math.log10((n - 1) * p / (1 - p)) / gap,
        "the share itself": lambda p, gap, n: math.log((n - 1) * p) / gap,
        "rivals outside of the logarithm": lambda p, gap, n: (
            (n - 1) * math.log(p / (1 - p)) / gap
        ),
        "the sign": lambda p, gap, n: -math.log((n - 1) * p / (1 - p)) / gap,
        "never below 0": lambda p, gap, n: max(
            0.0, math.log((n - 1) * p / (1 - p)) / gap
        ),
        "very sharp": lambda p, gap, n: 1000,
        "one plus the odds": lambda p, gap, n: (
            math.log(1 + (n - 1) * p / (1 - p)) / gap
        ),
    },
    "check_dilated": {
        "a constant": lambda distance, k: 5,
        "always one": lambda distance, k: 1,
        "gaps that double": first_that_reaches(lambda n, d, k: 2**n - 1 >= d),
        "no growing gaps": lambda distance, k: math.ceil(distance / (k // 2)),
        "both sides together": first_that_reaches(lambda n, d, k: k**n >= d),
        "one too far": first_that_reaches(lambda n, d, k: reach(n, k) > d),
        "one too short": first_that_reaches(lambda n, d, k: reach(n, k) >= d - 1),
        "rounded down": lambda distance, k: int(math.log(2 * distance + 1, k)),
        "rounded": lambda distance, k: round(math.log(2 * distance + 1, k)),
        "rounded up too early": lambda distance, k: math.ceil(math.log(distance, k)),
        "k = 3 for all": first_that_reaches(lambda n, d, k: reach(n, 3) >= d),
        "a logarithm, rounded at the wrong moment": lambda distance, k: math.ceil(
            math.log(2 * distance + 1, k)
        ),
    },
}
