"""Wrong answers to the exercises of chapter 1, by check and by mistake."""

import math

import torch

from transformer_lite.tokenizer import EOS, PAD


def reverse_rows(rows, counts):
    """Each row with its first words reversed, as many as `counts` says."""
    reversed_rows = [
        [*row[:count][::-1], *row[count:]]
        for row, count in zip(rows.tolist(), counts, strict=True)
    ]
    return torch.tensor(reversed_rows)


def num_words(rows):
    """Words of each row, without EOS."""
    return ((rows != PAD).sum(1) - 1).tolist()


def sort_words(rows):
    """Each row with its words in falling order, which agrees with rising rows."""
    return torch.tensor(
        [
            [*sorted(row[:count], reverse=True), *row[count:]]
            for row, count in zip(rows.tolist(), num_words(rows), strict=True)
        ]
    )


def swap_ends(rows):
    """Each row with its first and its last word exchanged."""
    rows = rows.clone()
    for row, count in zip(rows, num_words(rows), strict=True):
        if count:
            row[0], row[count - 1] = row[count - 1].clone(), row[0].clone()
    return rows


def words_to_the_end(rows):
    """All reversed, with EOS brought back to the last place of each row."""
    return torch.cat([rows.flip(1)[:, 1:], torch.full((len(rows), 1), EOS)], dim=1)


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
        "no number": lambda z, j: math.nan,
        "a quotient of products": lambda z, j: (
            (1 - z[j - 1]) * torch.tensor(z).prod() / torch.tensor(z[:j]).prod()
        ),
        "the last gate left out": lambda z, j: (1 - z[j - 1]) * math.prod(z[j:-1]),
        "the largest gates last": lambda z, j: (
            (1 - z[j - 1]) * math.prod(sorted(z)[j:])
        ),
        "equal gates counted once": lambda z, j: (1 - z[j - 1]) * math.prod(set(z[j:])),
        "at most ten later gates": lambda z, j: (
            (1 - z[j - 1]) * math.prod(z[j : j + 10])
        ),
    },
    "check_backwards": {
        "nothing": lambda rows: rows,
        "padding first": lambda rows: rows.flip(1),
        "rows instead of words": lambda rows: rows.flip(0),
        "EOS first": lambda rows: reverse_rows(rows, (rows != PAD).sum(1).tolist()),
        "all rows as long as the first": lambda rows: reverse_rows(
            rows, [num_words(rows)[0]] * len(rows)
        ),
        "all rows as long as the longest": lambda rows: reverse_rows(
            rows, [max(num_words(rows))] * len(rows)
        ),
        "the last word left out": lambda rows: reverse_rows(
            rows, [max(0, count - 1) for count in num_words(rows)]
        ),
        "falling order": sort_words,
        "the two ends exchanged": swap_ends,
        "EOS last": words_to_the_end,
        "UNK is no word": lambda rows: reverse_rows(rows, (rows > 3).sum(1).tolist()),
        "at most eleven words": lambda rows: reverse_rows(
            rows, [min(11, count) for count in num_words(rows)]
        ),
        "not integers": lambda rows: reverse_rows(rows, num_words(rows)).float(),
    },
}
