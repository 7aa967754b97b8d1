"""Wrong answers to the exercises on the attention visualizations, by check."""

import torch


def entropy(weights):
    return -torch.special.xlogy(weights, weights).sum(-1)


def rows_of(weights, value, w_o, head):
    """The head's rows of W^O as if PyTorch stored it the other way round."""
    width = value.size(-1)
    return weights @ value @ w_o.T[:, head * width : (head + 1) * width].T


def share_of_commonest(numbers):
    return max(map(numbers.count, numbers)) / len(numbers)


def share_of_mean(queries, targets):
    distances = [q - t for q, t in zip(queries, targets, strict=True)]
    return distances.count(round(sum(distances) / len(distances))) / len(distances)


def only_before(queries, targets):
    """Looks for antecedents in front of the pronoun alone."""
    distances = [q - t for q, t in zip(queries, targets, strict=True)]
    kept = [distance for distance in distances if distance > 0]
    return max(map(kept.count, kept), default=0) / len(distances)


WRONG = {
    "check_words": {
        "the entropy itself": entropy,
        "in bits": lambda w: (entropy(w) / torch.tensor(2.0).log()).exp(),
        "no rule for 0": lambda w: (-(w * w.log()).sum(-1)).exp(),
        "one over the largest": lambda w: 1 / w.amax(-1),
        "one over the squares": lambda w: 1 / w.pow(2).sum(-1),
        "words that have any weight": lambda w: (w > 0).sum(-1).double(),
        "one number for all rows": lambda w: entropy(w).mean().exp(),
        "another axis": lambda w: (-torch.special.xlogy(w, w).sum(0)).exp(),
    },
    "check_offset": {
        "without the sign": lambda q, t: share_of_commonest(
            [abs(a - b) for a, b in zip(q, t, strict=True)]
        ),
        "the commonest place": lambda q, t: share_of_commonest(t),
        "the mean distance": share_of_mean,
        "forwards never": only_before,
        "how many, not which share": lambda q, t: (
            share_of_commonest([a - b for a, b in zip(q, t, strict=True)]) * len(q)
        ),
        "one over the number of distances": lambda q, t: (
            1 / len({a - b for a, b in zip(q, t, strict=True)})
        ),
        "a constant": lambda q, t: 2 / 3,
    },
    "check_part": {
        "the rows of a matrix stored otherwise": lambda w, v, o, h: (
            rows_of(w, v, o, h) if o.size(0) >= (h + 1) * v.size(-1) else None
        ),
        "the first head, always": lambda w, v, o, h: w @ v @ o[:, : v.size(-1)].T,
        "the heads in reverse": lambda w, v, o, h: (
            w
            @ v
            @ o[:, o.size(1) - (h + 1) * v.size(-1) : o.size(1) - h * v.size(-1)].T
        ),
        "every second column": lambda w, v, o, h: (
            w @ v @ o[:, h :: o.size(1) // v.size(-1)].T
        ),
        "the values without the weights": lambda w, v, o, h: (
            v @ o[:, h * v.size(-1) : (h + 1) * v.size(-1)].T
        ),
    },
}
