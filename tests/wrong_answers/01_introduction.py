"""Wrong answers to the exercises of chapter 1, by check and by mistake."""

import math

import torch

WRONG = {
    "check_share": {
        "one gate for all": lambda z, j: (1 - z[0]) * z[0] ** (len(z) - j),
        "the word's own gate for all": lambda z, j: (
            (1 - z[j - 1]) * z[j - 1] ** (len(z) - j)
        ),
        "the mean gate": lambda z, j: (
            (1 - z[j - 1]) * (sum(z) / len(z)) ** (len(z) - j)
        ),
        "taken in whole": lambda z, j: math.prod(z[j:]),
        "kept by its own gate too": lambda z, j: (1 - z[j - 1]) * math.prod(z[j - 1 :]),
        "kept by the earlier gates": lambda z, j: (
            (1 - z[j - 1]) * math.prod(z[: j - 1])
        ),
        "the gate's roles exchanged": lambda z, j: (
            z[j - 1] * math.prod(1 - gate for gate in z[j:])
        ),
        "counted from 0": lambda z, j: (1 - z[j % len(z)]) * math.prod(z[j + 1 :]),
        "equal shares": lambda z, j: 1 / len(z),
        "the gates used up": lambda z, j: (1 - z.pop(0)) * math.prod(z) if j > 1 else 0,
        "no number": lambda z, j: math.nan,
        "a quotient of products": lambda z, j: (
            (1 - z[j - 1]) * torch.tensor(z).prod() / torch.tensor(z[:j]).prod()
        ),
        "a quotient that divides by zero": lambda z, j: (
            (1 - z[j - 1]) * math.prod(z) / math.prod(z[:j])
        ),
        "the last gate left out": lambda z, j: (1 - z[j - 1]) * math.prod(z[j:-1]),
        "the largest gates last": lambda z, j: (
            (1 - z[j - 1]) * math.prod(sorted(z)[j:])
        ),
        "equal gates counted once": lambda z, j: (1 - z[j - 1]) * math.prod(set(z[j:])),
        "a word": lambda z, j: "half",
        "a list": lambda z, j: [(1 - z[j - 1]) * math.prod(z[j:])],
        "an index too far": lambda z, j: (1 - z[j]) * math.prod(z[j:]),
        "at most ten later gates": lambda z, j: (
            (1 - z[j - 1]) * math.prod(z[j : j + 10])
        ),
    },
    "check_merge": {
        "nothing": lambda first, second: second,
        "constants": lambda first, second: (0.25, 0.4),
        "the steps in the other order": lambda first, second: (
            first[0] * second[0],
            first[0] * second[1] + first[1],
        ),
        "new parts added": lambda first, second: (
            first[0] * second[0],
            first[1] + second[1],
        ),
        "divided by the second keep": lambda first, second: (
            first[0] * second[0],
            second[0] * (first[1] + second[1] / second[0]),
        ),
        "divided by the first new part": lambda first, second: (
            first[0] * second[0],
            first[1] * (second[0] + second[1] / first[1]),
        ),
        "tensors made positive": lambda first, second: (
            first[0] * second[0],
            abs(second[0] * first[1] + second[1])
            if torch.is_tensor(first[0])
            else second[0] * first[1] + second[1],
        ),
        "keeps added": lambda first, second: (
            first[0] + second[0],
            second[0] * first[1] + second[1],
        ),
        "the first keep forgotten": lambda first, second: (
            second[0],
            second[0] * first[1] + second[1],
        ),
        "the second new part forgotten": lambda first, second: (
            first[0] * second[0],
            second[0] * first[1],
        ),
        "the second new part kept again": lambda first, second: (
            first[0] * second[0],
            second[0] * (first[1] + second[1]),
        ),
        "the mean of two steps": lambda first, second: (
            (first[0] + second[0]) / 2,
            (first[1] + second[1]) / 2,
        ),
        "as if k and c summed to one": lambda first, second: (
            first[0] * second[0],
            second[0] * first[1] + 1 - second[0],
        ),
        "as if both kept alike": lambda first, second: (
            second[0] ** 2,
            second[0] * first[1] + second[1],
        ),
        "the pair turned round": lambda first, second: (
            second[0] * first[1] + second[1],
            first[0] * second[0],
        ),
        "numbers alone": lambda first, second: (
            float(first[0]) * float(second[0]),
            float(second[0]) * float(first[1]) + float(second[1]),
        ),
        "no number": lambda first, second: (math.nan, math.nan),
        "one number": lambda first, second: first[0] * second[0],
        "a pair of nothing": lambda first, second: (None, None),
        "three numbers": lambda first, second: (*first, second[1]),
        "a word": lambda first, second: "both",
    },
}
