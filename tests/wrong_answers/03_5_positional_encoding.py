"""Wrong answers to the exercises of 3.5, by check and by mistake."""

import torch


def read_both(sums, embeddings, table, centre=True, rest=True):
    """The exercise's answer with something left out."""
    mean = embeddings.mean(dim=0) if centre else 0
    pos = torch.cdist(sums - mean, table).argmin(dim=1)
    word = torch.cdist(sums - (table[pos] if rest else 0), embeddings).argmin(dim=1)
    return word, pos


def replayed(sums, embeddings, table):
    """Draws what a check with known seeds would draw."""
    torch.manual_seed(0 if len(embeddings) == 300 else 1)
    torch.randn(embeddings.shape), torch.randn(embeddings.size(1))
    shape = (len(sums),)
    return torch.randint(len(embeddings), shape), torch.randint(len(table), shape)


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


# fmt: off
WRONG = {
    "check_read": {
        "does not centre": lambda *given: read_both(*given, centre=False),
        "the positions first": lambda *given: read_both(*given)[::-1],
        "the largest dot product with the embeddings": lambda s, e, t: ((s @ e.T).argmin(1), read_both(s, e, t)[1]),
        "the largest dot product with the table": lambda s, e, t: (read_both(s, e, t)[0], (s @ t.T).argmax(1)),
        "replays the seeds": replayed,
        "one tensor": lambda *given: torch.stack(read_both(*given)),
        "lists": lambda *given: tuple(part.tolist() for part in read_both(*given)),
        "the words' vectors": lambda s, e, t: (e[read_both(s, e, t)[0]], read_both(s, e, t)[1]),
        "one position for all": lambda s, e, t: (read_both(s, e, t)[0], 0 * read_both(s, e, t)[1]),
        "numbers that are not whole": lambda *given: tuple(part.float() for part in read_both(*given)),
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
        "at random": lambda d: torch.randn(d, d, generator=torch.Generator().manual_seed(0)),
    },
}
# fmt: on
