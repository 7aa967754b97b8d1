"""Wrong answers to the exercises on the attention visualizations, by check."""


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


def erased(weights, value, w_o, head):
    """Right for the first head; then W^O is all zeros, and so is every other part."""
    part = weights @ value @ w_o[:, : value.size(-1)].T
    w_o.zero_()
    return part


# fmt: off
WRONG = {
    "check_patch": {
        "nothing": lambda heads, head, other: None,
        "unpatched": lambda heads, head, other: heads.clone(),
        "the head alone": lambda heads, head, other: heads[other, head],
        "in place": in_place,
        "patched sentences read again": one_by_one,
    },
    "check_part": {
        "nothing": lambda w, v, o, h: None,
        "the first head, and W^O erased": erased,
        "another shape": lambda w, v, o, h: w @ v,
        "the first head, always, in double precision": lambda w, v, o, h: (w @ v @ o[:, : v.size(-1)].T).double(),
        "the first head, always": lambda w, v, o, h: w @ v @ o[:, : v.size(-1)].T,
        "the heads in reverse": lambda w, v, o, h: (
            w
            @ v
            @ o[:, o.size(1) - (h + 1) * v.size(-1) : o.size(1) - h * v.size(-1)].T
        ),
        "every second column": lambda w, v, o, h: w @ v @ o[:, h :: o.size(1) // v.size(-1)].T,
    },
}
# fmt: on
