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


WRONG = {
    "check_afterwards": {
        "returns nothing": lambda w, may: None,
        "is complex": lambda w, may: w * may / (w * may).sum(-1, keepdim=True) + 5j,
        "does not mask": lambda w, may: w,
        "hides without sharing anew": lambda w, may: w * may,
        "takes a softmax of the weights": lambda w, may: w.masked_fill(
            ~may, -math.inf
        ).softmax(-1),
        "takes a softmax of what is left": lambda w, may: (w * may).softmax(-1),
        "shares the hidden part evenly": lambda w, may: (
            (
                w
                + (w * ~may).sum(-1, keepdim=True)
                / may.expand_as(w).sum(-1, keepdim=True)
            )
            * may
        ),
        "divides by the number of keys": lambda w, may: (
            w * may / may.expand_as(w).sum(-1, keepdim=True)
        ),
        "divides by the share that is hidden": lambda w, may: (
            w * may / (w * ~may).sum(-1, keepdim=True)
        ),
        "divides each column": lambda w, may: w * may / (w * may).sum(-2, keepdim=True),
        "divides by one sum for all": lambda w, may: w * may / (w * may).sum(),
        "keeps what should be hidden": lambda w, may: (
            w * ~may / (w * ~may).sum(-1, keepdim=True)
        ),
        "weights all keys equally": lambda w, may: (
            may.expand_as(w) / may.expand_as(w).sum(-1, keepdim=True)
        ),
    },
    "check_packed": {
        "is a list": lambda d: (same_text(d) & past(d)).tolist(),
        "is only causal": lambda d: past(d).expand(len(d), 1, -1, -1),
        "is not causal": same_text,
        "does not read itself": lambda d: same_text(d) & past(d, -1),
        "reads one too far": lambda d: same_text(d) & past(d, 1),
        "reads the future": lambda d: same_text(d) & past(d).T,
        "leaves the rows of padding empty": lambda d: (
            same_text(d) & past(d) & (d != 0)[:, None, None, :]
        ),
        "reads texts with smaller numbers": lambda d: (
            (d[:, None, :, None] >= d[:, None, None, :]) & past(d)
        ),
        "reads texts with larger numbers": lambda d: (
            (d[:, None, :, None] <= d[:, None, None, :]) & past(d)
        ),
        "has no axis for the heads": lambda d: (same_text(d) & past(d))[:, 0],
        "is for the first row alone": lambda d: (same_text(d[:1]) & past(d)).expand(
            len(d), -1, -1, -1
        ),
        "hides what may be read": lambda d: ~(same_text(d) & past(d)),
        "is a mask of numbers": lambda d: (same_text(d) & past(d)).long(),
        "reads only the token before": lambda d: (
            same_text(d) & past(d) & past(d, -2).logical_not()
        ),
        "hides only padding": lambda d: (
            (d != 0)[:, None, None, :] & past(d) | torch.eye(d.size(1)).bool()
        ),
    },
    "check_share": {
        "is zero": lambda words, pads, gap: 0,
        "is not a number": lambda words, pads, gap: math.nan,
        "is a share for each PAD": lambda words, pads, gap: torch.full(
            (pads,), share(words, pads, gap) / pads
        ),
        "is a number as text": lambda *given: str(share(*given)),
        "is too large": lambda words, pads, gap: 10**400,
        "is text": lambda words, pads, gap: "pads / (words + pads)",
        "forgets to share": lambda words, pads, gap: math.exp(-gap),
        "has one PAD": lambda words, pads, gap: share(words, 1, gap),
        "has one word": lambda words, pads, gap: share(1, pads, gap),
        "leaves padding out of the sum": lambda words, pads, gap: (
            pads * math.exp(-gap) / words
        ),
        "is the share of one PAD": lambda words, pads, gap: (
            share(words, pads, gap) / pads
        ),
        "is the share of the words": lambda words, pads, gap: (
            1 - share(words, pads, gap)
        ),
        "has the gap the wrong way round": lambda words, pads, gap: share(
            words, pads, -gap
        ),
        "compares scores without exponentials": lambda words, pads, gap: (
            pads / (words * (1 + gap) + pads)
        ),
        "does not care for the scores": lambda words, pads, gap: pads / (words + pads),
    },
}
