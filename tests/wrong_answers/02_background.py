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


def contexts(*pairs):
    """Two contexts, each of the sentences whose words give the keys and the values."""

    def candidate(attention, query, memory, other, place):
        sentences = {"old": memory, "new": mixed(memory, other, place), "other": other}
        sentences["first"] = mixed(memory, other, 0)
        sentences["zero"] = mixed(memory, torch.zeros_like(other), place)
        return tuple(
            look(attention, query, attention.w_k(sentences[keys]), sentences[values])
            for keys, values in pairs
        )

    return candidate


right = contexts(("old", "new"), ("new", "old"))


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
        "without the batch": lambda *given: tuple(context[0] for context in right(*given)),
        "both parts both times": contexts(("new", "new"), ("new", "new")),
        "key first": contexts(("new", "old"), ("old", "new")),
        "all words": contexts(("old", "other"), ("other", "old")),
        "keys without their matrix": lambda a, q, m, o, place: (
            look(a, q, m, mixed(m, o, place)),
            look(a, q, mixed(m, o, place), m),
        ),
        "one key without its matrix": lambda a, q, m, o, place: (
            look(a, q, a.w_k(m), mixed(m, o, place)),
            look(a, q, mixed(a.w_k(m), o, place), m),
        ),
        "the first word": contexts(("old", "first"), ("first", "old")),
        "the first query for all": lambda a, q, *others: right(a, q[:, :1].expand_as(q), *others),
        "in place": in_place,
        "no copy": aliased,
        "zeros in place of the word": contexts(("old", "zero"), ("zero", "old")),
    },
    "check_without_tanh": {
        "nothing": lambda q, m, w_q, w_k, v: None,
        "with the query": lambda q, m, w_q, w_k, v: (((q @ w_q.T)[:, None] + m @ w_k.T) @ v).softmax(-1),
        "the query times 0": lambda q, m, w_q, w_k, v: (0 * (q @ w_q.T)[:, None] @ v + m @ w_k.T @ v).softmax(-1),
        "with the tanh": lambda q, m, w_q, w_k, v: (((q @ w_q.T)[:, None] + m @ w_k.T).tanh() @ v).softmax(-1),
        "the tanh of keys alone": lambda q, m, w_q, w_k, v: ((m @ w_k.T).tanh() @ v).softmax(-1).expand(len(q), -1),
        "no softmax": lambda q, m, w_q, w_k, v: (m @ w_k.T @ v).expand(len(q), -1),
        "one row": lambda q, m, w_q, w_k, v: (m @ w_k.T @ v).softmax(-1),
        "the other side": lambda q, m, w_q, w_k, v: (m @ w_k @ v).softmax(-1).expand(len(q), -1),
        "no matrix": lambda q, m, w_q, w_k, v: (m @ v).softmax(-1).expand(len(q), -1),
        "even weights": lambda q, m, w_q, w_k, v: torch.ones(len(q), len(m)) / len(m),
        "the mean of all keys": lambda q, m, w_q, w_k, v: (m.mean(0) @ w_k.T @ v).expand(len(q), len(m)).softmax(-1),
    },
}
# fmt: on
