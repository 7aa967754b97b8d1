"""Wrong answers to the exercises of 3.2.1, by check and by mistake."""

import math

import torch
from torch.nn import functional as F


def softmax_less(subtracted):
    """A softmax that subtracts something else than each row's largest score."""

    def candidate(scores):
        exponentials = (scores - subtracted(scores)).exp()
        return exponentials / exponentials.sum(-1, keepdim=True)

    return candidate


def with_logaddexp(scores):
    """A softmax whose sum a finished function takes."""
    total = scores[..., 0]
    for i in range(1, scores.size(-1)):
        total = torch.logaddexp(total, scores[..., i])
    return (scores - total[..., None]).exp()


def moved_by_one_step(d_k, size, divisor):
    """What the check has under this name."""
    return d_k**0.25 if size < 1 else 1.0


# fmt: off
WRONG = {
    "check_softmax": {
        "subtracts a row of another shape": lambda s: s - s.new_zeros(17),
        "subtracts nothing": softmax_less(torch.zeros_like),
        "subtracts the row's mean and clamps": softmax_less(lambda s: s - (s - s.mean(-1, True)).clamp(-700, 700)),
        "takes another axis": lambda s: s.softmax(0),
        "calls softmax": lambda s: s.softmax(-1),
        "calls log_softmax": lambda s: s.log_softmax(-1).exp(),
        "calls logsumexp": lambda s: (s - s.logsumexp(-1, True)).exp(),
        "adds up with logaddexp": with_logaddexp,
        "leaves 700, too much for float32": softmax_less(lambda s: s.amax(-1, True) - 700),
        "calls attention": lambda s: F.scaled_dot_product_attention(
            s, *[torch.eye(s.size(-1)).to(s).expand(*s.shape[:-2], -1, -1)] * 2, scale=1
        ),
        "returns a list": lambda s: s.softmax(-1).tolist(),
        "leaves out the last axis": lambda s: s.sum(-1),
        "clamps the scores": lambda s: (lambda e: e / e.sum(-1, keepdim=True))(s.clamp(-700, 700).exp()),
        "subtracts the row's first score": softmax_less(lambda s: s[..., :1]),
        "subtracts the row's mean": softmax_less(lambda s: s.mean(-1, True)),
        "subtracts the largest of all rows": softmax_less(torch.max),
        "subtracts the middle of the row": softmax_less(lambda s: (s.amax(-1, True) + s.amin(-1, True)) / 2),
        "subtracts the second largest": softmax_less(lambda s: s.topk(2, -1)[0][..., 1:]),
        "subtracts the largest but the first": softmax_less(lambda s: s[..., 1:].amax(-1, True)),
        "subtracts the larger end": softmax_less(lambda s: torch.maximum(s[..., :1], s[..., -1:])),
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
