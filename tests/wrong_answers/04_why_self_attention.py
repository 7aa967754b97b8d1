"""Wrong answers to the exercises of chapter 4, by check and by mistake."""

import sys

import torch
from torch.nn import functional as F

from transformer_lite.attention import scaled_dot_product_attention


def half(keys=True, rest=True, network=True, third=True, causal=True):
    """A formula that is right but for what is changed."""

    def candidate(d, d_ff, kv, gated, is_causal):
        matrices = 2 * d * d if rest else 0
        matrices += 2 * d * (kv if keys else d) if rest else 0
        matrices += ((3 if gated and third else 2) * d * d_ff) if network else 0
        return matrices / (d if is_causal and causal else 2 * d)

    return candidate


def loop(x, u):
    """The states, one after the other."""
    states = [x[:, 0]]
    for word in x[:, 1:].unbind(dim=1):
        states.append(word + states[-1] @ u)
    return torch.stack(states, dim=1)


def loop_of_sums(x, u):
    """The same without a matrix product."""
    states = [x[:, 0]]
    for word in x[:, 1:].unbind(dim=1):
        states.append(word + (states[-1][:, :, None] * u).sum(1))
    return torch.stack(states, dim=1)


def in_numpy(x, u):
    """The same where PyTorch sees nothing."""
    x, u = x.numpy(), u.numpy()
    states = [x[:, 0]]
    for place in range(1, x.shape[1]):
        states.append(x[:, place] + states[-1] @ u)
    return torch.stack([torch.from_numpy(state) for state in states], dim=1)


def beside_a_product(answer):
    """An answer that hides its chain, beside a product that nobody needs."""

    def candidate(x, u):
        torch.ones(200, 6) @ torch.ones(6, 36)
        return answer(x, u)

    return candidate


def through_lists(x, u):
    """The loop, where each state becomes a list of numbers on the way."""
    states, before = [x[:, 0]], x[:, 0].tolist()
    for word in x[:, 1:].unbind(dim=1):
        states.append(word + torch.tensor(before, dtype=x.dtype) @ u)
        before = states[-1].tolist()
    return torch.stack(states, dim=1)


def doubled(rounds=99, squared=True, forwards=True, in_place=False):
    """Doubling with one thing changed."""

    def candidate(x, u):
        known, left = 1, rounds
        while known < x.size(1) and left:
            sides = (known, -known) if forwards else (-known, known)
            more = F.pad(x, (0, 0, *sides)) @ u
            x = x.add_(more) if in_place else x + more
            u, known, left = (u @ u if squared else u), 2 * known, left - 1
        return x

    return candidate


def in_chunks(x, u, size=15):
    """Two loops, in each chunk and over the chunks."""
    n = x.size(1)
    padded = F.pad(x, (0, 0, 0, -n % size)).unflatten(1, (-1, size))
    inside = loop(padded.flatten(0, 1), u).view_as(padded)
    powers = [u]
    for _ in range(size - 1):
        powers.append(powers[-1] @ u)
    before, chunks = torch.zeros_like(x[:, 0]), []
    for chunk in inside.unbind(1):
        chunks.append(chunk + torch.stack([before @ power for power in powers], 1))
        before = chunks[-1][:, -1]
    return torch.cat(chunks, dim=1)[:, :n]


def in_a_copy(x, u):
    """Right: the same as the solution, written into a copy."""
    x, known = x.clone(), 1
    while known < x.size(1):
        x[:, known:] += x[:, :-known] @ u
        u, known = u @ u, 2 * known
    return x


def in_halves(x, u):
    """Right: the second half needs the last state of the first, times powers of U."""
    n = x.size(1)
    if n == 1:
        return x
    first, second = (in_halves(part, u) for part in x.tensor_split([n // 2], dim=1))
    powers = [u]
    while len(powers) < second.size(1):
        powers += [power @ powers[-1] for power in powers]
    more = [first[:, -1] @ power for power in powers[: second.size(1)]]
    return torch.cat([first, second + torch.stack(more, dim=1)], dim=1)


def near(x, r):
    """True where a word is in another's window."""
    place = torch.arange(x.size(1))
    return (place[:, None] - place).abs() <= r // 2


def masked(x, r):
    """All scores, most of them thrown away."""
    return scaled_dot_product_attention(x, x, x, near(x, r))[0]


def word_by_word(sides=lambda r: (r // 2, r // 2), root=None):
    """A loop over the words, with one thing changed."""

    def candidate(x, r):
        found, (left, right) = [], sides(r)
        for i in range(x.size(1)):
            window = x[:, max(0, i - left) : i + right + 1]
            scores = x[:, i : i + 1] @ window.mT / (root or x.size(-1) ** 0.5)
            found.append(scores.softmax(-1) @ window)
        return torch.cat(found, dim=1)

    return candidate


def in_blocks(x, r):
    """Neighbours in another block are not seen."""
    blocks = [scaled_dot_product_attention(b, b, b)[0] for b in x.split(r, dim=1)]
    return torch.cat(blocks, dim=1)


def in_blocks_with_neighbours(size):
    """Right: so many words at a time, with those that their windows need."""

    def candidate(x, r):
        found, half, places = [], r // 2, torch.arange(x.size(1))
        for block in places.split(size):
            around = places[max(0, block[0] - half) : block[-1] + half + 1]
            mask = (block[:, None] - around).abs() <= half
            keys = x[:, around]
            found.append(scaled_dot_product_attention(x[:, block], keys, keys, mask)[0])
        return torch.cat(found, dim=1)

    return candidate


def short_texts_only(x, r):
    """Right while the text is short, and the text itself afterwards."""
    x @ torch.ones(x.size(-1), 2 * r)
    return masked(x, r) if x.size(1) < 100 else x


def all_pairs_uncounted(x, r):
    """All scores without a matrix product, beside a product that nobody needs."""
    x @ torch.ones(x.size(-1), 2 * r)
    scores = (x[:, :, None] * x[:, None]).sum(-1) / x.size(-1) ** 0.5
    weights = scores.masked_fill(~near(x, r), -1e9).softmax(-1)
    return (weights[..., None] * x[:, None]).sum(2)


def row_by_row_uncounted(x, r):
    """The same in a loop, so that no tensor holds all scores."""
    x @ torch.ones(x.size(-1), 2 * r)
    found = []
    for i, row in enumerate(near(x, r)):
        scores = (x[:, i : i + 1] * x).sum(-1) / x.size(-1) ** 0.5
        weights = scores.masked_fill(~row, -1e9).softmax(-1)
        found.append((weights[..., None] * x).sum(1))
    return torch.stack(found, dim=1)


def by_another_name(name):
    """What the check's cell defines under this name."""

    def candidate(*given):
        alias = sys._getframe(1).f_globals[name]
        return alias(*given)

    return candidate


# fmt: off
WRONG = {
    "check_half": {
        "none": lambda d, d_ff, kv, gated, causal: None,
        "the paper's condition, n = d": lambda d, d_ff, kv, gated, causal: d,
        "the paper's layer": lambda d, d_ff, kv, gated, causal: 6 * d,
        "the factors of the figure": lambda d, d_ff, kv, gated, causal: (13 if gated else 12 if causal else 6) * d,
        "keys as wide as queries": half(keys=False),
        "no projections": half(rest=False),
        "no feed-forward network": half(network=False),
        "no third matrix": half(third=False),
        "all pairs, always": half(causal=False),
        "half of the pairs doubles the work": lambda d, d_ff, kv, gated, causal: half()(d, d_ff, kv, gated, not causal),
        "a score without its value": lambda *setting: 2 * half()(*setting),
        "the check's own count, by another name": by_another_name("counted_half"),
        "rounded": lambda *setting: round(half()(*setting)),
    },
    "check_states": {
        "none": lambda x, u: None,
        "one after the other": loop,
        "one after the other, in sums": loop_of_sums,
        "one after the other, in NumPy": in_numpy,
        "in NumPy, beside a product": beside_a_product(in_numpy),
        "in NumPy without gradients, beside a product": beside_a_product(lambda x, u: in_numpy(x.detach(), u)),
        "one after the other, through lists": through_lists,
        "without gradients": lambda x, u: doubled()(x.detach(), u),
        "two loops": in_chunks,
        "two words": doubled(rounds=1),
        "four words": doubled(rounds=2),
        "32 words": doubled(rounds=5),
        "128 words": doubled(rounds=7),
        "U is not squared": doubled(squared=False),
        "from the right": doubled(forwards=False),
        "changes its argument": doubled(in_place=True),
        "no U": lambda x, u: x.cumsum(1),
        "the vectors": lambda x, u: x,
    },
    "check_window": {
        "none": lambda x, r: None,
        "all words": lambda x, r: scaled_dot_product_attention(x, x, x)[0],
        "a mask": masked,
        "r words to each side": word_by_word(lambda r: (r, r)),
        "r words to the left": word_by_word(lambda r: (r - 1, 0)),
        "scores divided by 4": word_by_word(root=4),
        "scores as they are": word_by_word(root=1),
        "blocks": in_blocks,
        "short texts only": short_texts_only,
        "all pairs, uncounted": all_pairs_uncounted,
        "all pairs row by row, uncounted": row_by_row_uncounted,
        "the check's own, by another name": by_another_name("restricted_self_attention"),
    },
}
# fmt: on

RIGHT = {
    "check_states": {"in a copy": in_a_copy, "in halves": in_halves},
    "check_window": {
        f"in blocks of {size}": in_blocks_with_neighbours(size)
        for size in (16, 64, 128, 200, 256, 300)
    },
}
