"""Wrong answers to the exercises of 3.2.3, by check and by mistake."""

import math

import torch
from torch.nn import functional as F


def same_text(document):
    return document[:, None, :, None] == document[:, None, None, :]


def past(document, shift=0):
    length = document.size(1)
    return torch.ones(length, length, dtype=torch.bool).tril(shift)


def share(words, pads, gap):
    return pads * math.exp(-gap) / (words + pads * math.exp(-gap))


def one_step(x, past, w_q, w_k, w_v, itself=True, order=1, **options):
    newest = x @ w_k, x @ w_v
    keys, values = (torch.cat(pair[::order]) for pair in zip(past, newest, strict=True))
    read = (keys, values) if itself else past
    output = F.scaled_dot_product_attention(x @ w_q, *read, **options)
    return output, (keys, values)


def one_step_with_its_own_past(x, past, w_q, w_k, w_v, kept=[]):  # noqa: B006
    """Reads a past that it keeps itself; a given past of length 0 begins a new one."""
    own = kept.pop() if kept and len(past[0]) else past
    output, longer = one_step(x, own, w_q, w_k, w_v)
    kept[:] = [longer]
    return output, longer


# fmt: off
WRONG = {
    "check_one_step": {
        "returns nothing": lambda x, past, *w: None,
        "does not return the past": lambda *given: one_step(*given)[0],
        "does not read itself": lambda *given: one_step(*given, itself=False),
        "keeps no past": lambda x, past, *w: one_step(x, [p[:0] for p in past], *w),
        "does not grow its past": lambda x, past, *w: (one_step(x, past, *w)[0], past),
        "uses the flag is_causal": lambda *given: one_step(*given, is_causal=True),
        "does not scale": lambda *given: one_step(*given, scale=1.0),
        "puts the newest first": lambda x, past, *w: one_step(x, past, *w, order=-1),
        "takes the keys as values": lambda x, past, w_q, w_k, w_v: one_step(x, past, w_q, w_k, w_k),
        "is complex": lambda *given: (one_step(*given)[0] + 5j, one_step(*given)[1]),
        "keeps a past of its own": one_step_with_its_own_past,
        "gives a list as the past": lambda *given: (one_step(*given)[0], [*one_step(*given)[1]]),
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
        "has room for ten texts": lambda d: (F.one_hot(d, 10) @ F.one_hot(d, 10).mT).bool()[:, None] & past(d),
        "reads padding": lambda d: (same_text(d) | (d == 0)[:, None, None, :]) & past(d),
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
