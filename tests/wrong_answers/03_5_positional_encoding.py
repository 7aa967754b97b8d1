"""Wrong answers to the exercises of 3.5, by check and by mistake."""

import math

import torch

from transformer_lite.embeddings import sinusoidal_encoding


def nearest(rows, table):
    """The row of the table that is nearest to the first of these rows."""
    return (table - rows[0]).norm(dim=1).argmin().item()


def read_start(sums, table):
    """The exercise's right answer."""
    return nearest(sums[1:] - sums[:-1], table[1:] - table[:-1])


def turned(x, *, layout="halves", sign=1, power=None, first_position=0):
    """RoPE with something changed."""
    length, d_k = x.shape
    power = torch.arange(0, d_k, 2) / d_k if power is None else power(d_k)
    angle = (torch.arange(length) + first_position)[:, None] / 10_000**power
    halves = x.chunk(2, dim=-1) if layout == "halves" else (x[:, 0::2], x[:, 1::2])
    product = torch.complex(*halves) * torch.exp(1j * sign * angle)
    join = torch.cat if layout == "halves" else torch.stack
    return join([product.real, product.imag], dim=-1).reshape(x.shape)


def quarter_turns(d_model, pairs, sign=1):
    """A matrix that turns these pairs by a quarter of a circle."""
    matrix = torch.zeros(d_model, d_model)
    for pair in pairs:
        matrix[2 * pair + 1, 2 * pair] = sign
        matrix[2 * pair, 2 * pair + 1] = -sign
    return matrix


def at_five_places(d_model):
    """The right matrix, but only for the encodings of five places."""
    table = sinusoidal_encoding(8001, d_model)[[0, 1, 700, 3001, 8000]].double()
    slowest = quarter_turns(d_model, [d_model // 2 - 1]).double()
    return torch.linalg.pinv(table) @ table @ slowest


def by_loops(length, d_model):
    """The table by the paper's formula, entry by entry."""
    table = torch.zeros(length, d_model)
    for position in range(length):
        for i in range(d_model // 2):
            angle = position / 10_000 ** (2 * i / d_model)
            table[position, 2 * i] = math.sin(angle)
            table[position, 2 * i + 1] = math.cos(angle)
    return table


def waves(length, d_model):
    """The exercise's right answer."""
    power = torch.arange(0, d_model, 2) / d_model
    angle = torch.arange(length)[:, None] / 10_000**power
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)


def given():
    """What the check of "Spot the bug" takes from the story."""
    return {"by_loops": by_loops}


# fmt: off
WRONG = {
    "check_table": {
        "the frequencies reversed": lambda n, d: waves(n, d).flip(1),
        "the story's, by another name": lambda n, d: (lambda alias: alias(n, d))(by_loops),
        "the story's, with nothing around it": by_loops,
        "the package's, by another name": lambda n, d: (lambda alias: alias(n, d))(sinusoidal_encoding),
        "cosines first": lambda n, d: waves(n, d).unflatten(1, (-1, 2)).flip(2).flatten(1),
        "one half sines": lambda n, d: torch.cat([waves(n, d)[:, 0::2], waves(n, d)[:, 1::2]], dim=1),
        "positions from 1": lambda n, d: waves(n + 1, d)[1:],
    },
    "check_read": {
        "the word stays": nearest,
        "minus the mean of the sums": lambda s, t: nearest(s - s.mean(0), t),
        "minus the mean of the table": lambda s, t: nearest(s - t.mean(0), t),
        "the largest dot product": lambda s, t: (t @ s[0]).argmax().item(),
        "the difference the other way": lambda s, t: nearest(s[:-1] - s[1:], t[1:] - t[:-1]),
        "the last position": lambda s, t: read_start(s, t) + len(s) - 1,
        "the second position": lambda s, t: read_start(s, t) + 1,
        "the difference as a position": lambda s, t: nearest(s[1:] - s[:-1], t),
        "always 0": lambda s, t: 0,
        "always the sinusoids": lambda s, t: read_start(s, sinusoidal_encoding(*t.shape)),
        "a tensor": lambda s, t: torch.tensor(read_start(s, t)),
        "all positions": lambda s, t: list(range(read_start(s, t), read_start(s, t) + len(s))),
        "a number that is not whole": lambda s, t: float(read_start(s, t)),
    },
    "check_rope": {
        "the paper's layout": lambda x: turned(x, layout="interleaved"),
        "turned the other way": lambda x: turned(x, sign=-1),
        "one speed": lambda x: turned(x, power=lambda d: torch.zeros(d // 2)),
        "positions from 1": lambda x: turned(x, first_position=1),
        "one position for all": lambda x: torch.cat([turned(row[None]) for row in x]),
        "added": lambda x: x + turned(torch.ones_like(x)),
        "the frequency of width 64": lambda x: turned(x, power=lambda d: torch.arange(0, d, 2) / 64),
        "complex numbers": lambda x: turned(x) + 0j,
        "one row": lambda x: turned(x)[-1],
        "changes x": lambda x: x.copy_(turned(x)),
    },
    "check_side": {
        "zeros": lambda d: torch.zeros(d, d),
        "the identity": torch.eye,
        "the other side": lambda d: quarter_turns(d, [d // 2 - 1], -1),
        "the fastest hand": lambda d: quarter_turns(d, [0]),
        "all hands": lambda d: quarter_turns(d, range(d // 2)),
        "a hand in the middle": lambda d: quarter_turns(d, [d // 4]),
        "the slowest hand of width 16": lambda d: quarter_turns(d, [7]),
        "the slowest hand as it is": lambda d: torch.diag((torch.arange(d) >= d - 2).float()),
        "only the sine of the key": lambda d: quarter_turns(d, [d // 2 - 1]).tril(),
        "another width": lambda d: quarter_turns(16, [7]),
        "right at five places": at_five_places,
        "at random": lambda d: torch.randn(d, d, generator=torch.Generator().manual_seed(0)),
    },
}
# fmt: on

RIGHT = {"check_table": {"powers instead of the exponential": waves}}
