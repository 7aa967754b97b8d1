"""Wrong answers to the exercises of chapter 4, by check and by mistake."""

import torch


def band(n, r=5):
    """The window without a hub."""
    place = torch.arange(n)
    return (place[:, None] - place[None, :]).abs() <= r // 2


def with_hub(mask, row=0, column=0):
    """The mask, with one row and one column opened, or neither."""
    if row is not None:
        mask[row] = True
    if column is not None:
        mask[:, column] = True
    return mask


# fmt: off
WRONG = {
    "check_crossing": {
        "right for d = 32 alone": lambda m, d: max(0, 16 * (m - 4)),
        "right for a GRU, doubled for the rest": lambda m, d: 0 if m <= 4 else d if m == 6 else 2 * d,
        "without the projections": lambda m, d: m * d // 2,
        "projections counted once each way": lambda m, d: max(0, (m - 2) * d // 2),
        "a negative length": lambda m, d: (m - 4) * d / 2,
        "a table of the three known layers": lambda m, d: {6: 1, 8: 2, 12: 4}.get(m, 0) * d,
        "right for even m alone": lambda m, d: (m - 4) * d // 2 if m > 4 and m % 2 == 0 else 0,
        "never, as a truth value": lambda m, d: (m - 4) * d // 2 if m > 4 else False,
        "rounded up to whole multiples of d": lambda m, d: max(0, (m - 3) // 2 * d),
    },
    "check_hub": {
        "no hub": band,
        "the hub reads, nobody reads it": lambda n: with_hub(band(n), column=None),
        "all read the hub, it reads its window": lambda n: with_hub(band(n), row=None),
        "the hub at the end": lambda n: with_hub(band(n), row=-1, column=-1),
        "a hub without a window": lambda n: with_hub(torch.eye(n, dtype=torch.bool)),
        "a window of 3": lambda n: with_hub(band(n, 3)),
        "five to each side": lambda n: with_hub(band(n, 11)),
        "everything": lambda n: torch.ones(n, n, dtype=torch.bool),
        "nothing": lambda n: torch.zeros(n, n, dtype=torch.bool),
        "True = may not": lambda n: ~with_hub(band(n)),
        "connected at random": lambda n: torch.rand(n, n, generator=torch.Generator().manual_seed(0)) < 7 / n,
        "right for nine words": lambda n: with_hub(band(9)) if n == 9 else band(n),
        "numbers instead of truth values": lambda n: with_hub(band(n)).float(),
        "nobody attends to itself": lambda n: with_hub(band(n)) & ~torch.eye(n, dtype=torch.bool),
        "a hub at each end": lambda n: with_hub(with_hub(band(n)), row=-1, column=-1),
    },
}
# fmt: on
