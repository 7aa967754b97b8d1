"""Wrong answers to the exercises of chapter 2, by check and by mistake."""

import math

import torch


def look(attention, query, keys, values):
    """The context for each query."""
    return attention(query, keys, values, torch.ones(keys.shape[:2]).bool())[0]


def mixed(memory, other, place):
    """A copy of a sentence in which one word comes from another."""
    return torch.cat([memory[:, :place], other[:, [place]], memory[:, place + 1 :]], 1)


def in_place(attention, query, memory, other, place):
    """Right contexts, but the caller's sentence is changed."""
    keys, old = attention.w_k(memory), memory.clone()
    memory[:, place] = other[:, place]
    by_value = look(attention, query, keys, memory)
    return by_value, look(attention, query, attention.w_k(memory), old)


def aliased(attention, query, memory, other, place):
    """The copy was forgotten, so the second exchange has both parts."""
    keys = attention.w_k(memory)
    memory[:, place] = other[:, place]
    by_value = look(attention, query, keys, memory)
    return by_value, look(attention, query, attention.w_k(memory), memory)


def by_zero(attention, query, memory, other, place):
    """The word is taken away instead of exchanged."""
    other = torch.zeros_like(other)
    new = mixed(memory, other, place)
    return (
        look(attention, query, attention.w_k(memory), new),
        look(attention, query, attention.w_k(new), memory),
    )


# fmt: off
WRONG = {
    "check_sharpness": {
        "nothing": lambda p, gap, n: None,
        "two keys": lambda p, gap, n: math.log(p / (1 - p)) / gap,
        "n rivals": lambda p, gap, n: math.log(n * p / (1 - p)) / gap,
        "no gap": lambda p, gap, n: math.log((n - 1) * p / (1 - p)),
        "a gap of 1/4": lambda p, gap, n: 4 * math.log((n - 1) * p / (1 - p)),
        "rivals outside of the logarithm": lambda p, gap, n: (n - 1) * math.log(p / (1 - p)) / gap,
        "never below 0": lambda p, gap, n: max(0.0, math.log((n - 1) * p / (1 - p)) / gap),
    },
    "check_exchange": {
        "nothing": lambda a, q, m, o, place: None,
        "without the batch": lambda a, q, m, o, place: (
            look(a, q, a.w_k(m), mixed(m, o, place))[0],
            look(a, q, a.w_k(mixed(m, o, place)), m)[0],
        ),
        "both parts both times": lambda a, q, m, o, place: (
            (look(a, q, a.w_k(mixed(m, o, place)), mixed(m, o, place)),) * 2
        ),
        "key first": lambda a, q, m, o, place: (
            look(a, q, a.w_k(mixed(m, o, place)), m),
            look(a, q, a.w_k(m), mixed(m, o, place)),
        ),
        "all words": lambda a, q, m, o, place: (look(a, q, a.w_k(m), o), look(a, q, a.w_k(o), m)),
        "keys without their matrix": lambda a, q, m, o, place: (
            look(a, q, m, mixed(m, o, place)),
            look(a, q, mixed(m, o, place), m),
        ),
        "one key without its matrix": lambda a, q, m, o, place: (
            look(a, q, a.w_k(m), mixed(m, o, place)),
            look(a, q, mixed(a.w_k(m), o, place), m),
        ),
        "the first word": lambda a, q, m, o, place: (
            look(a, q, a.w_k(m), mixed(m, o, 0)),
            look(a, q, a.w_k(mixed(m, o, 0)), m),
        ),
        "the first query for all": lambda a, q, m, o, place: (
            look(a, q[:, :1].expand_as(q), a.w_k(m), mixed(m, o, place)),
            look(a, q[:, :1].expand_as(q), a.w_k(mixed(m, o, place)), m),
        ),
        "in place": in_place,
        "no copy": aliased,
        "zeros in place of the word": by_zero,
    },
}
# fmt: on
