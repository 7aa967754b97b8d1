"""Wrong answers to the exercises of 3.2.2, by check and by mistake."""

import copy

import torch
from torch.func import functional_call


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


def in_place(module, query, memory, removed):
    module.w_o.weight.data.unflatten(1, (module.num_heads, -1))[:, removed] = 0
    return module(query, memory)


def another_parameter(module, query, memory, removed):
    """Right, but leaves a copy in the place of the module's parameter."""
    output = without(columns_zeroed(lambda h, r: r))(module, query, memory, removed)
    module.w_o.weight = torch.nn.Parameter(module.w_o.weight.detach().clone())
    return output


def hooked(copied):
    """Zeroes heads by a hook that stays on the module."""

    def candidate(module, query, memory, removed):
        def zeros(_, given):
            heads = given[0].unflatten(-1, (module.num_heads, -1)).clone()
            heads[..., removed, :] = 0
            return (heads.flatten(-2),)

        module = copied(module)
        module.w_o.register_forward_pre_hook(zeros)
        return module(query, memory)

    return candidate


# fmt: off
WRONG = {
    "check_without": {
        "rows of W^O instead of columns": without(rows_zeroed),
        "the next head": without(columns_zeroed(lambda h, r: [(i + 1) % h for i in r])),
        "the first of them only": without(columns_zeroed(lambda h, r: r[:1])),
        "spoils the module": in_place,
        "the outer heads only": without(columns_zeroed(lambda h, r: [i for i in r if i in (0, h - 1)])),
        "inner heads mirrored": without(columns_zeroed(lambda h, r: [i if i in (0, h - 1) else h - 1 - i for i in r])),
        "another parameter": another_parameter,
        "three or more taken for all": without(columns_zeroed(lambda h, r: r if len(r) < 3 else list(range(h)))),
        "another width": lambda *given: without(columns_zeroed(lambda h, r: r))(*given)[..., :-1],
        "leaves a hook": hooked(lambda module: module),
        "leaves a hook by way of a shallow copy": hooked(copy.copy),
        "a list": lambda *given: without(columns_zeroed(lambda h, r: r))(*given).tolist(),
        "freezes W^O": lambda module, *rest: (
            module.w_o.weight.requires_grad_(False),
            without(columns_zeroed(lambda h, r: r))(module, *rest),
        )[1],
    },
    "check_count": {
        "a tensor": lambda d, h, g, k, v: torch.tensor([d * h * k, d * h * v]),
        "as many groups as heads": lambda d, h, g, k, v: 2 * d * h * (k + v),
        "groups for the queries, too": lambda d, h, g, k, v: 2 * d * g * (k + v),
        "a float": lambda d, h, g, k, v: (h + g) * (k + v) * d / 1,
        "no W^O": lambda d, h, g, k, v: d * (h * k + g * (k + v)),
        "a square W^O": lambda d, h, g, k, v: d * (h * k + g * (k + v) + d),
        "groups as heads of a set": lambda d, h, g, k, v: d * (h * k + h // g * (k + v) + h * v),
        "W^O of one head": lambda d, h, g, k, v: d * (h * k + g * (k + v) + v),
    },
    "check_winners": {
        "a tensor": lambda keys: torch.tensor([0, len(keys) - 1]),
        "counted from 1": lambda keys: sorted({keys.index(min(keys)) + 1, keys.index(max(keys)) + 1}),
        "the largest alone": lambda keys: [keys.index(max(keys))],
        "every key": lambda keys: list(range(len(keys))),
        "the first and the last": lambda keys: sorted({0, len(keys) - 1}),
        "the largest of each sign": lambda keys: sorted(
            {
                max(same, key=lambda i: abs(keys[i]))
                for same in (
                    [i for i, key in enumerate(keys) if key > 0],
                    [i for i, key in enumerate(keys) if key < 0],
                )
                if same
            }
        ),
        "True and False": lambda keys: [
            bool(i) if i < 2 else i
            for i in sorted({keys.index(min(keys)), keys.index(max(keys))})
        ],
        "one key twice": lambda keys: sorted([keys.index(min(keys)), keys.index(max(keys))]),
        "the smallest key first": lambda keys: list(dict.fromkeys([keys.index(min(keys)), keys.index(max(keys))])),
    },
}
# fmt: on
