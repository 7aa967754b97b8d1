"""Wrong answers to the exercises of 3.2.3, by check and by mistake."""

import math

import torch


def same_text(document):
    return document[:, None, :, None] == document[:, None, None, :]


def past(document, shift=0):
    length = document.size(1)
    return torch.ones(length, length, dtype=torch.bool).tril(shift)


def share(words, pads, gap):
    return pads * math.exp(-gap) / (words + pads * math.exp(-gap))


# fmt: off
WRONG = {
    "check_afterwards": {
        "returns nothing": lambda w, may: None,
        "is complex": lambda w, may: w * may / (w * may).sum(-1, keepdim=True) + 5j,
        "does not mask": lambda w, may: w,
        "hides without sharing anew": lambda w, may: w * may,
        "takes a softmax of what is left": lambda w, may: (w * may).softmax(-1),
        "divides by one sum for all": lambda w, may: w * may / (w * may).sum(),
    },
    "check_packed": {
        "is a list": lambda d: (same_text(d) & past(d)).tolist(),
        "is only causal": lambda d: past(d).expand(len(d), 1, -1, -1),
        "is not causal": same_text,
        "does not read itself": lambda d: same_text(d) & past(d, -1),
        "leaves the rows of padding empty": lambda d: same_text(d) & past(d) & (d != 0)[:, None, None, :],
        "reads texts with smaller numbers": lambda d: (d[:, None, :, None] >= d[:, None, None, :]) & past(d),
        "reads texts with larger numbers": lambda d: (d[:, None, :, None] <= d[:, None, None, :]) & past(d),
        "is for the first row alone": lambda d: (same_text(d[:1]) & past(d)).expand(len(d), -1, -1, -1),
        "reads only the token before": lambda d: same_text(d) & past(d) & past(d, -2).logical_not(),
    },
    "check_share": {
        "is zero": lambda words, pads, gap: 0,
        "is not a number": lambda words, pads, gap: math.nan,
        "is a number as text": lambda *given: str(share(*given)),
        "is too large": lambda words, pads, gap: 10**400,
        "has the gap the wrong way round": lambda words, pads, gap: share(words, pads, -gap),
    },
}
# fmt: on
