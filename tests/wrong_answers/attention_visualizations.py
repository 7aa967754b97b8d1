"""Wrong answers to the exercises on the attention visualizations, by check."""

import torch


def patched(heads, head, other):
    new = heads.clone()
    new[:, head] = heads[other, head]
    return new


def in_place(heads, head, other):
    heads[:, head] = heads[other, head]
    return heads


def one_by_one(heads, head, other):
    """Reads sentences that it has already patched."""
    new = heads.clone()
    for i, source in enumerate(other.tolist()):
        new[i, head] = new[source, head]
    return new


def into_the_other(heads, head, other):
    new = heads.clone()
    new[other, head] = heads[:, head]
    return new


def rows_of(weights, value, w_o, head):
    """The head's rows of W^O as if PyTorch stored it the other way round."""
    width = value.size(-1)
    return weights @ value @ w_o.T[:, head * width : (head + 1) * width].T


def erased(weights, value, w_o, head):
    """Right for the first head; then W^O is all zeros, and so is every other part."""
    part = weights @ value @ w_o[:, : value.size(-1)].T
    w_o.zero_()
    return part


WRONG = {
    "check_patch": {
        "nothing": lambda heads, head, other: None,
        "a list": lambda *given: patched(*given).tolist(),
        "unpatched": lambda heads, head, other: heads.clone(),
        "every head": lambda heads, head, other: heads[other],
        "the next head": lambda heads, head, other: patched(heads, head - 1, other),
        "the head alone": lambda heads, head, other: heads[other, head],
        "in place": in_place,
        "patched sentences read again": one_by_one,
        "in the other direction": into_the_other,
        "zeros": lambda heads, head, other: heads.index_fill(1, torch.tensor(head), 0),
    },
    "check_part": {
        "the rows of a matrix stored otherwise": lambda w, v, o, h: (
            rows_of(w, v, o, h) if o.size(0) >= (h + 1) * v.size(-1) else None
        ),
        "nothing": lambda w, v, o, h: None,
        "a list": lambda w, v, o, h: (w @ v).tolist(),
        "a number": lambda w, v, o, h: 0.0,
        "the first head, and W^O erased": erased,
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
