"""Wrong answers to the exercises of The Multi-GPU Trainer, by check and by mistake."""

import math

import torch


def weighted(means, weights):
    """The rows of `means`, nan left out, added up with these weights."""
    weights = torch.tensor(weights, dtype=means.dtype)
    return (means.nan_to_num() * weights[:, None]).sum(0)


def share(tokens):
    """The share of each process in all tokens."""
    return [n / sum(tokens) for n in tokens]


# fmt: off
WRONG = {
    "check_combine": {
        "mean of means": lambda means, tokens: means.mean(0),
        "nan times 0": lambda means, tokens: (means * torch.tensor(tokens)[:, None]).sum(0) / sum(tokens),
        "every nan hidden, also a real one": lambda means, tokens: weighted(means, share(tokens)),
        "processes with any nan left out": lambda means, tokens: (
            sum(m * n for m, n in zip(means, tokens, strict=True) if m.isfinite().all())
            / sum(tokens)
        ),
        "weights turned round": lambda means, tokens: weighted(means, share(tokens)[::-1]),
        "weights across and not down": lambda means, tokens: (
            means.nan_to_num() @ torch.tensor(share(tokens), dtype=means.dtype)
            if len(tokens) == means.size(1)
            else weighted(means, share(tokens))
        ),
        "nothing": lambda means, tokens: None,
        "rows of nothing but nan left out": lambda means, tokens: (
            sum(
                m * n for m, n in zip(means, tokens, strict=True) if not m.isnan().all()
            )
            / sum(tokens)
        ),
        "a real nan hidden where every process has tokens": lambda means, tokens: (
            sum(m * n for m, n in zip(means, tokens, strict=True) if n) / sum(tokens)
            if 0 in tokens
            else weighted(means, share(tokens))
        ),
    },
    "check_best_interval": {
        "without the 2": lambda save, between: math.sqrt(save * between),
        "2 in the wrong place": lambda save, between: math.sqrt(save * between / 2),
        "no root": lambda save, between: 2 * save * between,
        "their quotient": lambda save, between: math.sqrt(2 * between / save),
        "nothing": lambda save, between: None,
    },
}
# fmt: on
