"""Wrong answers to the exercises of chapter 1, by check and by mistake."""

import math

import torch


def in_place(first, second):
    moved = second[1]
    moved += second[0] * first[1]
    return first[0] * second[0], moved


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
    "check_slower": {
        "the other way round": lambda batch, t, r, other: t(other, batch, 64) / t(r, batch, 64),
        "a difference": lambda batch, t, r, other: t(r, batch, 64) - t(other, batch, 64),
        "batch and length exchanged": lambda batch, t, r, other: t(r, 64, batch) / t(other, 64, batch),
        "always one sentence": lambda batch, t, r, other: t(r, 1, 64) / t(other, 1, 64),
        "as many tokens in all": lambda batch, t, r, other: t(r, batch, 64 // batch) / t(other, batch, 64 // batch),
        "the time alone": lambda batch, t, r, other: t(r, batch, 64),
        "the other's batch and length exchanged": lambda batch, t, r, other: t(r, batch, 64) / t(other, 64, batch),
        "one long sentence for the other": lambda batch, t, r, other: t(r, batch, 64) / t(other, 1, 64 * batch),
        "recurrence not measured": lambda batch, t, r, other: 1 + 64 / t(other, batch, 64),
    },
}
# fmt: on
