"""Wrong answers to the exercises of 3.2.1, by check and by mistake."""

import math

import torch


def softmax_less(subtracted):
    """A softmax that subtracts something else than each row's largest score."""

    def candidate(scores):
        exponentials = (scores - subtracted(scores)).exp()
        return exponentials / exponentials.sum(-1, keepdim=True)

    return candidate


WRONG = {
    "check_softmax": {
        "subtracts nothing": softmax_less(torch.zeros_like),
        "subtracts the row's first score": softmax_less(lambda s: s[..., :1]),
        "subtracts the row's mean": softmax_less(lambda s: s.mean(-1, True)),
        "subtracts the largest of all rows": softmax_less(torch.max),
        "subtracts 1000": softmax_less(lambda s: 1000),
        "takes another axis": lambda s: s.softmax(0),
        "calls softmax": lambda s: s.softmax(-1),
        "calls log_softmax": lambda s: s.log_softmax(-1).exp(),
        "subtracts the middle of the row": softmax_less(
            lambda s: (s.amax(-1, True) + s.amin(-1, True)) / 2
        ),
        "subtracts the second largest": softmax_less(
            lambda s: s.topk(2, -1)[0][..., 1:]
        ),
        "clamps the scores": lambda s: (lambda e: e / e.sum(-1, keepdim=True))(
            s.clamp(-700, 700).exp()
        ),
    },
    "check_divisor": {
        "no root": lambda d_k, q, k: q * k * d_k,
        "the root alone": lambda d_k, q, k: math.sqrt(d_k),
        "a constant": lambda d_k, q, k: 1.5 * math.sqrt(d_k),
        "a sum": lambda d_k, q, k: (q + k) * math.sqrt(d_k),
        "variances": lambda d_k, q, k: (q * k) ** 2 * math.sqrt(d_k),
        "a negative divisor": lambda d_k, q, k: -q * k * math.sqrt(d_k),
        "a little more width": lambda d_k, q, k: q * k * math.sqrt(d_k + 0.5),
        "a rounded root": lambda d_k, q, k: q * k * math.isqrt(d_k),
    },
    "check_derivative": {
        "the diagonal alone": lambda w: (w * (1 - w)).diag(),
        "a plus": lambda w: w.diag() + w[:, None] * w,
        "the sign": lambda w: w[:, None] * w - w.diag(),
        "four keys only": lambda w: w.diag() - w.outer(w) * len(w) / 4,
        "a constant": lambda w: 0.25 * torch.eye(len(w)).double(),
        "the check's own first matrix": lambda w: (lambda v: v.diag() - v.outer(v))(
            torch.tensor([0.5, -1, 2, 0]).double().softmax(-1)
        ),
        "the weights sorted": lambda w: (lambda v: v.diag() - v.outer(v))(w.sort()[0]),
    },
}
