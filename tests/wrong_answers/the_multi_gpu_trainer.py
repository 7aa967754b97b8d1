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


WRONG = {
    "check_combine": {
        "mean of means": lambda means, tokens: means.mean(0),
        "mean of the means that are numbers": lambda means, tokens: means.nanmean(0),
        "sum of means": lambda means, tokens: means.nan_to_num().sum(0),
        "nan times 0": lambda means, tokens: (
            (means * torch.tensor(tokens)[:, None]).sum(0) / sum(tokens)
        ),
        "every nan hidden, also a real one": lambda means, tokens: weighted(
            means, share(tokens)
        ),
        "processes with any nan left out": lambda means, tokens: (
            sum(m * n for m, n in zip(means, tokens, strict=True) if m.isfinite().all())
            / sum(tokens)
        ),
        "1 / 0 for a process without a token": lambda means, tokens: sum(
            mean / (1 / n) for mean, n in zip(means, tokens, strict=True)
        ),
        "sum of sums, not divided": lambda means, tokens: weighted(means, tokens),
        "divided by the processes": lambda means, tokens: weighted(
            means, [n / len(tokens) for n in tokens]
        ),
        "weights turned round": lambda means, tokens: weighted(
            means, share(tokens)[::-1]
        ),
        "weights sorted": lambda means, tokens: weighted(means, sorted(share(tokens))),
        "roots as weights": lambda means, tokens: weighted(
            means, share([math.sqrt(n) for n in tokens])
        ),
        "the largest process alone": lambda means, tokens: means[
            max(range(len(tokens)), key=tokens.__getitem__)
        ],
        "weights across and not down": lambda means, tokens: (
            means.nan_to_num() @ torch.tensor(share(tokens), dtype=means.dtype)
            if len(tokens) == means.size(1)
            else weighted(means, share(tokens))
        ),
        "one token too many": lambda means, tokens: (
            weighted(means, tokens) / (sum(tokens) + 1)
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
        "one number": lambda means, tokens: 2.0,
        "a list": lambda means, tokens: means[0].tolist(),
    },
    "check_best_interval": {
        "without the 2": lambda save, between: math.sqrt(save * between),
        "2 in the wrong place": lambda save, between: math.sqrt(save * between / 2),
        "no root": lambda save, between: 2 * save * between,
        "their quotient": lambda save, between: math.sqrt(2 * between / save),
        "after saving": lambda save, between: math.sqrt(2 * save * between) - save,
        "saving counted as a failure": lambda save, between: math.sqrt(
            2 * save * (between + save)
        ),
        "ten minutes": lambda save, between: 600,
        "half the time between failures": lambda save, between: between / 2,
        "twice the time to save": lambda save, between: 2 * save,
        "zero": lambda save, between: 0,
        "nothing": lambda save, between: None,
        "two numbers": lambda save, between: torch.tensor([save, between]),
    },
}
