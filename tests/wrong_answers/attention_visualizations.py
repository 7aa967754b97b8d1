"""Wrong answers to the exercises on the attention visualizations, by check."""

import torch


def entropy(weights):
    return -torch.special.xlogy(weights, weights).sum(-1)


def rows_of(weights, value, w_o, head):
    """The head's rows of W^O as if PyTorch stored it the other way round."""
    width = value.size(-1)
    return weights @ value @ w_o.T[:, head * width : (head + 1) * width].T


WRONG = {
    "check_words": {
        "the entropy itself": entropy,
        "in bits": lambda w: (entropy(w) / torch.tensor(2.0).log()).exp(),
        "no rule for 0": lambda w: (-(w * w.log()).sum(-1)).exp(),
        "one over the largest": lambda w: 1 / w.amax(-1),
        "one over the squares": lambda w: 1 / w.pow(2).sum(-1),
        "words that have any weight": lambda w: (w > 0).sum(-1).double(),
        "nothing": lambda w: None,
        "a list": lambda w: entropy(w).exp().tolist(),
        "rows kept as a column": lambda w: entropy(w).exp().unsqueeze(-1),
        "one number for all rows": lambda w: entropy(w).mean().exp(),
        "another axis": lambda w: (-torch.special.xlogy(w, w).sum(0)).exp(),
    },
    "check_part": {
        "the rows of a matrix stored otherwise": lambda w, v, o, h: (
            rows_of(w, v, o, h) if o.size(0) >= (h + 1) * v.size(-1) else None
        ),
        "nothing": lambda w, v, o, h: None,
        "a list": lambda w, v, o, h: (w @ v).tolist(),
        "a number": lambda w, v, o, h: 0.0,
        "another shape": lambda w, v, o, h: w @ v,
        "the first head, always, in double precision": lambda w, v, o, h: (
            w @ v @ o[:, : v.size(-1)].T
        ).double(),
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
