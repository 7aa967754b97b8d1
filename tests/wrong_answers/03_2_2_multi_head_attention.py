"""Wrong answers to the exercises of 3.2.2, by check and by mistake."""

import math

import torch
from torch.func import functional_call
from torch.nn import functional as F


def heads(divisor=None, axis=-1, merge=None, weights=None):
    """Heads by einsum with one mistake."""

    def candidate(query, key, value):
        width = math.sqrt(query.size(-1)) if divisor is None else divisor(query, value)
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / width
        shares = (weights or (lambda s: s.softmax(axis)))(scores)
        mixtures = torch.einsum("bhqk,bkhd->bqhd", shares, value)
        return merge(mixtures) if merge else mixtures.flatten(2)

    return candidate


def by_view(query, key, value):
    """Gives every head the numbers that lie one behind the other, as view does."""
    parts = [x.reshape(len(x), x.size(2), x.size(1), -1) for x in (query, key, value)]
    mixtures = F.scaled_dot_product_attention(*parts)
    return mixtures.reshape(len(query), query.size(1), -1)


def without(spoil):
    """A module's output with another W^O."""

    def candidate(module, query, memory, removed):
        weight = module.w_o.weight.detach().clone()
        changed = {"w_o.weight": spoil(weight, module.num_heads, removed)}
        return functional_call(module, changed, (query, memory))

    return candidate


def rows_zeroed(weight, h, removed):
    width = len(weight) // h
    for i in removed:
        weight[width * i : width * (i + 1)] = 0
    return weight


def columns_zeroed(which):
    """Zeroes the columns of other heads than it should."""

    def spoil(weight, h, removed):
        by_head = weight.unflatten(1, (h, -1))
        by_head[:, which(h, removed)] = 0
        return weight

    return spoil


def interleaved(weight, h, removed):
    weight.unflatten(1, (-1, h))[:, :, removed] = 0
    return weight


def scaled_up(weight, h, removed):
    weight.unflatten(1, (h, -1))[:, removed] = 0
    return weight * h / max(1, h - len(removed))


def in_place(module, query, memory, removed):
    module.w_o.weight.data.unflatten(1, (module.num_heads, -1))[:, removed] = 0
    return module(query, memory)


def another_parameter(module, query, memory, removed):
    """Right, but leaves a copy in the place of the module's parameter."""
    output = without(columns_zeroed(lambda h, r: r))(module, query, memory, removed)
    module.w_o.weight = torch.nn.Parameter(module.w_o.weight.detach().clone())
    return output


WRONG = {
    "check_einsum": {
        "transposes": lambda q, k, v: (
            F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))
            .transpose(1, 2)
            .flatten(2)
        ),
        "no root": heads(divisor=lambda q, v: q.size(-1)),
        "half of d_k": heads(divisor=lambda q, v: q.size(-1) / 2),
        "the root of the batch": heads(divisor=lambda q, v: math.sqrt(len(q))),
        "the root of d_v": heads(divisor=lambda q, v: math.sqrt(v.size(-1))),
        "softmax over the queries": heads(axis=-2),
        "softmax over the heads": heads(axis=1),
        "equal weights": heads(weights=lambda s: torch.ones_like(s) / s.size(-1)),
        "heads interleaved": heads(merge=lambda m: m.transpose(-2, -1).flatten(2)),
        "heads averaged": heads(merge=lambda m: m.mean(2)),
        "view and reshape": by_view,
        "exponentials that overflow": heads(
            weights=lambda s: s.exp() / s.exp().sum(-1, keepdim=True)
        ),
        "scores clamped": heads(weights=lambda s: s.clamp(-5, 5).softmax(-1)),
    },
    "check_without": {
        "rows of W^O instead of columns": without(rows_zeroed),
        "the next head": without(columns_zeroed(lambda h, r: [(i + 1) % h for i in r])),
        "the others": without(
            columns_zeroed(lambda h, r: [i for i in range(h) if i not in r])
        ),
        "the first of them only": without(columns_zeroed(lambda h, r: r[:1])),
        "nothing": without(lambda weight, h, removed: weight),
        "everything": without(columns_zeroed(lambda h, r: list(range(h)))),
        "interleaved columns": without(interleaved),
        "the rest scaled up": without(scaled_up),
        "spoils the module": in_place,
        "the outer heads only": without(
            columns_zeroed(lambda h, r: [i for i in r if i in (0, h - 1)])
        ),
        "inner heads mirrored": without(
            columns_zeroed(
                lambda h, r: [i if i in (0, h - 1) else h - 1 - i for i in r]
            )
        ),
        "another parameter": another_parameter,
        "three or more taken for all": without(
            columns_zeroed(lambda h, r: r if len(r) < 3 else list(range(h)))
        ),
        "freezes W^O": lambda module, *rest: (
            module.w_o.weight.requires_grad_(False),
            without(columns_zeroed(lambda h, r: r))(module, *rest),
        )[1],
    },
    "check_count": {
        "as many groups as heads": lambda d, h, g, k, v: 2 * d * h * (k + v),
        "groups for the queries, too": lambda d, h, g, k, v: 2 * d * g * (k + v),
        "no W^O": lambda d, h, g, k, v: d * (h * k + g * (k + v)),
        "a square W^O": lambda d, h, g, k, v: d * (h * k + g * (k + v) + d),
        "keys and values of one width": lambda d, h, g, k, v: 2 * d * k * (h + g),
        "d_k = d_model / h": lambda d, h, g, k, v: 4 * d * d,
        "biases": lambda d, h, g, k, v: (
            (d + 1) * (h * k + g * (k + v)) + d * (h * v + 1)
        ),
        "groups taken for their size": lambda d, h, g, k, v: (
            d * (h * k + h // g * (k + v) + h * v)
        ),
    },
}
