"""Wrong answers to the exercises of chapter 1, by check and by mistake."""

import math

import torch


def in_place(first, second):
    moved = second[1]
    moved += second[0] * first[1]
    return first[0] * second[0], moved


def level_ones(length, batches, seconds, recurrent, transformer):
    return [
        batch
        for batch in batches
        if seconds(recurrent, batch, length) <= seconds(transformer, batch, length)
    ]


def given():
    """The vocabulary of the models that exercise 3 times."""
    return {"words": ["PAD", "BOS", "EOS", "UNK", "der", "frosch", "wartet"]}


# fmt: off
WRONG = {
    "check_share": {
        "one gate for all": lambda z, j: (1 - z[0]) * z[0] ** (len(z) - j),
        "the word's own gate for all": lambda z, j: (1 - z[j - 1]) * z[j - 1] ** (len(z) - j),
        "taken in whole": lambda z, j: math.prod(z[j:]),
        "kept by its own gate too": lambda z, j: (1 - z[j - 1]) * math.prod(z[j - 1 :]),
        "a quotient of products": lambda z, j: (1 - z[j - 1]) * torch.tensor(z).prod() / torch.tensor(z[:j]).prod(),
        "equal gates counted once": lambda z, j: (1 - z[j - 1]) * math.prod(set(z[j:])),
        "a word": lambda z, j: "half",
        "an index too far": lambda z, j: (1 - z[j]) * math.prod(z[j:]),
        "at most ten later gates": lambda z, j: (1 - z[j - 1]) * math.prod(z[j : j + 10]),
    },
    "check_merge": {
        "nothing": lambda first, second: second,
        "constants": lambda first, second: (0.25, 0.4),
        "tensors made positive": lambda first, second: (
            first[0] * second[0],
            abs(second[0] * first[1] + second[1])
            if torch.is_tensor(first[0])
            else second[0] * first[1] + second[1],
        ),
        "keeps added": lambda first, second: (first[0] + second[0], second[0] * first[1] + second[1]),
        "the first keep forgotten": lambda first, second: (second[0], second[0] * first[1] + second[1]),
        "as if both kept alike": lambda first, second: (second[0] ** 2, second[0] * first[1] + second[1]),
        "the pair turned round": lambda first, second: (second[0] * first[1] + second[1], first[0] * second[0]),
        "one number": lambda first, second: first[0] * second[0],
        "in place": in_place,
    },
    "check_level": {
        "the first one": lambda n, batches, t, r, other: batches[0],
        "the largest": lambda n, batches, t, r, other: max(level_ones(n, batches, t, r, other), default=None),
        "in the order given": lambda n, batches, t, r, other: next(iter(level_ones(n, batches, t, r, other)), None),
        "shorter only": lambda n, batches, t, r, other: min((b for b in batches if t(r, b, n) < t(other, b, n)), default=None),
        "the other way round": lambda n, batches, t, r, other: min(level_ones(n, batches, t, other, r), default=None),
        "batch and length exchanged": lambda n, batches, t, r, other: min((b for b in batches if t(r, n, b) <= t(other, n, b)), default=None),
        "always 256 tokens": lambda n, batches, t, r, other: min(level_ones(256, batches, t, r, other), default=None),
        "all of them": lambda n, batches, t, r, other: level_ones(n, batches, t, r, other),
        "zero for none": lambda n, batches, t, r, other: min(level_ones(n, batches, t, r, other), default=0),
        "one sentence for the other": lambda n, batches, t, r, other: min((b for b in batches if t(r, b, n) <= t(other, 1, n * b)), default=None),
    },
}
# fmt: on
