"""Wrong answers on why eight GPUs are not eight times faster, by check and mistake.

Two other processes run each answer but the first, as they run a notebook's functions.
"""

import math
import sys

import cloudpickle
import torch
from torch import distributed as dist

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def enough_with(change):
    """The right answer after a change to its seconds for a token, or to its result.

    `paid` is what a GPU may wait for each of its tokens, `hidden` what the token hides;
    `ring` is the link's time for a weight.
    """

    def enough_for(times, gpus, flops, speed, layers, matrix):
        paid = (gpus / times - 1) * 6 * (layers + matrix) / flops
        hidden, ring = 4 * layers / flops, 2 * (gpus - 1) / gpus * 4 / speed
        late = ring * matrix / paid
        partly = ring * (layers + matrix) / (paid + hidden)
        names = dict(locals(), either=max(late, partly))
        return change(**{k: v for k, v in names.items() if k != "change"})

    return enough_for


def searched_badly(times, gpus, flops, speed, layers, matrix):
    """Steps that are far too wide."""
    right = enough_with(lambda either, gpus, **_: gpus * either)
    exact = right(times, gpus, flops, speed, layers, matrix)
    return 2 ** math.ceil(math.log2(exact))


def local_norm(own, longest):
    """The norm of one process's part."""
    return own * (longest / own.norm()).clamp(max=1)


def sum_of_norms(own, longest):
    """The sum of lengths."""
    length = own.norm()
    dist.all_reduce(length)
    return own * (longest / length).clamp(max=1)


def compared_with_the_square(own, longest):
    """Forgets a root in the condition."""
    squares = own.square().sum()
    dist.all_reduce(squares)
    return own * longest / squares.sqrt() if squares > longest else own


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


def sent_and_received(own, longest):
    """Sends all numbers to the other process."""
    other = torch.zeros_like(own)
    if dist.get_rank() == 0:
        dist.send(own, 1)
        dist.recv(other, 1)
    else:
        dist.recv(other, 0)
        dist.send(own, 0)
    length = (own.square().sum() + other.square().sum()).sqrt()
    return own * (longest / length).clamp(max=1)


def as_objects(own, longest):
    """Sends all numbers as a list."""
    parts = [None, None]
    dist.all_gather_object(parts, own.tolist())
    length = sum(x * x for part in parts for x in part) ** 0.5
    return own * min(longest / length, 1.0)


def each_clamped(own, longest):
    """Limits every number alone."""
    return own.clamp(-longest / 3, longest / 3)


def reduced_to_one(heads, w_o, rank):
    """Only process 0 has the sum."""
    parts = w_o.unflatten(1, (len(heads), -1))
    own = torch.einsum("hwv,mhv->wm", heads[rank::2], parts[:, rank::2])
    dist.reduce(own, 0)
    return own


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
    "check_enough": {
        "tokens of one GPU": enough_with(lambda either, **_: either),
        "nothing hides": enough_with(
            lambda gpus, ring, layers, matrix, paid, **_: (
                gpus * ring * (layers + matrix) / paid
            )
        ),
        "the matrix hides, too": enough_with(lambda gpus, partly, **_: gpus * partly),
        "all layers hide": enough_with(lambda gpus, late, **_: gpus * late),
        "no sum of the matrix": enough_with(
            lambda gpus, ring, layers, paid, hidden, **_: (
                gpus * ring * layers / (paid + hidden)
            )
        ),
        "all computing hides": enough_with(
            lambda gpus, late, ring, layers, matrix, paid, flops, **_: (
                gpus
                * max(
                    late,
                    ring * (layers + matrix) / (paid + 6 * (layers + matrix) / flops),
                )
            )
        ),
        "the output's backward pass hides, too": enough_with(
            lambda gpus, late, ring, layers, matrix, paid, flops, **_: (
                gpus
                * max(
                    late,
                    ring * (layers + matrix) / (paid + 4 * (layers + matrix) / flops),
                )
            )
        ),
        "each GPU sends all": enough_with(
            lambda gpus, either, **_: gpus**2 / (gpus - 1) * either
        ),
        "one way round": enough_with(lambda gpus, either, **_: gpus * either / 2),
        "as By hand has it": enough_with(
            lambda gpus, ring, flops, **_: gpus * ring * flops / 4
        ),
        "too coarse a search": searched_badly,
        "nothing": lambda times, gpus, flops, speed, layers, matrix: None,
    },
    "check_clip": {
        "norm of a part": local_norm,
        "sum of norms": sum_of_norms,
        "compared with the square": compared_with_the_square,
        "always scaled": always_scaled,
        "not clipped": lambda own, longest: own,
        "the whole part": whole_part,
        "the whole part, gathered": gathered,
        "the whole part, sent and received": sent_and_received,
        "the whole part, as an object": as_objects,
        "each number clamped": each_clamped,
        "summed by who has much": summed_if_long,
        "nothing": lambda own, longest: None,
    },
    "check_join": {
        "all heads that are numbers": all_finite_heads,
        "own heads alone": without_sum,
        "a mean": mean_of_heads,
        "the sum in one process": reduced_to_one,
        "first columns": first_columns,
        "all heads": all_heads,
        "nothing": lambda heads, w_o, rank: None,
    },
}
