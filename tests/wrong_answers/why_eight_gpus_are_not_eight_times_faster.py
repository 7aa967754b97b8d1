"""Wrong answers on why eight GPUs are not eight times faster, by check and mistake.

Two other processes run each answer; `torch`, `dist` and `math` are found there.
"""
# ruff: noqa: F821


def first_alone(parameter):
    """The first process waits for the other, which does not come."""
    if dist.get_rank() == 0:
        dist.all_reduce(parameter.grad)
        parameter.grad /= 2


def other_order(parameter):
    """Each process waits for a message of the other."""
    dist.recv(parameter.grad, src=1 - dist.get_rank())


def local_norm(own, longest):
    """The norm of one process's part."""
    return own * (longest / own.norm()).clamp(max=1)


def sum_of_norms(own, longest):
    """The sum of lengths."""
    length = own.norm()
    dist.all_reduce(length)
    return own * (longest / length).clamp(max=1)


def always_scaled(own, longest):
    """Short gradients are made longer."""
    squares = own.square().sum()
    dist.all_reduce(squares)
    return own * longest / squares.sqrt()


def whole_part(own, longest):
    """Sends all numbers."""
    whole = torch.zeros(2, len(own), dtype=own.dtype)
    whole[dist.get_rank()] = own
    dist.all_reduce(whole)
    return own * (longest / whole.norm()).clamp(max=1)


def gathered(own, longest):
    """Sends all numbers, another way."""
    parts = [torch.zeros_like(own), torch.zeros_like(own)]
    dist.all_gather(parts, own)
    return own * (longest / torch.cat(parts).norm()).clamp(max=1)


def summed_if_long(own, longest):
    """Only a process with a long part calls."""
    squares = own.square().sum()
    if squares.sqrt() > longest:
        dist.all_reduce(squares)
    return own * (longest / squares.sqrt()).clamp(max=1)


def without_sum(heads, w_o, rank):
    """The own heads alone."""
    parts = w_o.unflatten(1, (len(heads), -1))
    return torch.einsum("hwv,mhv->wm", heads[rank::2], parts[:, rank::2])


def mean_of_heads(heads, w_o, rank):
    """The mean of the processes."""
    parts = w_o.unflatten(1, (len(heads), -1))
    own = torch.einsum("hwv,mhv->wm", heads[rank::2], parts[:, rank::2])
    dist.all_reduce(own)
    return own / 2


def first_columns(heads, w_o, rank):
    """The first columns of w_o, whichever heads they are."""
    own = heads[rank::2].transpose(0, 1).flatten(1)
    joined = own @ w_o[:, : own.size(1)].T
    dist.all_reduce(joined)
    return joined


def all_finite_heads(heads, w_o, rank):
    """Takes whatever is a number for its own."""
    own = heads.nan_to_num().transpose(0, 1).flatten(1) @ w_o.T
    dist.all_reduce(own)
    return own


def all_heads(heads, w_o, rank):
    """No sharing."""
    return heads.transpose(0, 1).flatten(1) @ w_o.T


WRONG = {
    "check_average": {
        "the parameter": lambda parameter: dist.all_reduce(parameter),
        "the sum": lambda parameter: dist.all_reduce(parameter.grad),
        "nothing": lambda parameter: None,
        "halves, not summed": lambda parameter: parameter.grad.div_(2),
        "one process alone": first_alone,
        "both wait": other_order,
    },
    "check_clip": {
        "norm of a part": local_norm,
        "sum of norms": sum_of_norms,
        "always scaled": always_scaled,
        "not clipped": lambda own, longest: own,
        "the whole part": whole_part,
        "the whole part, gathered": gathered,
        "summed by who has much": summed_if_long,
        "nothing": lambda own, longest: None,
    },
    "check_join": {
        "all heads that are numbers": all_finite_heads,
        "own heads alone": without_sum,
        "a mean": mean_of_heads,
        "first columns": first_columns,
        "all heads": all_heads,
        "nothing": lambda heads, w_o, rank: None,
    },
}
