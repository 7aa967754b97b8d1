"""Wrong answers to the exercises of chapter 4, by check and by mistake."""

import torch
from torch.nn import functional as F


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
        "rounded": lambda *setting: round(half()(*setting)),
    },
    "check_states": {
        "none": lambda x, u: None,
        "one after the other": loop,
        "one after the other, in sums": loop_of_sums,
        "one after the other, in NumPy": in_numpy,
        "two loops": in_chunks,
        "two words": doubled(rounds=1),
        "four words": doubled(rounds=2),
        "U is not squared": doubled(squared=False),
        "from the right": doubled(forwards=False),
        "changes its argument": doubled(in_place=True),
        "no U": lambda x, u: x.cumsum(1),
        "the vectors": lambda x, u: x,
    },
}
# fmt: on
