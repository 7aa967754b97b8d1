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


def before_w_o(change):
    """Changes the heads' outputs before W^O, in (batch, q_len, heads, d_v)."""

    def candidate(module, query, memory, removed):
        def pre(_, given):
            heads = given[0].unflatten(-1, (module.num_heads, -1)).clone()
            change(heads, removed)
            return (heads.flatten(-2),)

        with module.w_o.register_forward_pre_hook(pre):
            return module(query, memory)

    return candidate


def mean(heads, removed):
    heads[..., removed, :] = heads[..., removed, :].mean(1, keepdim=True)


def keep_only(heads, removed):
    heads[..., [i for i in range(heads.size(-2)) if i not in removed], :] = 0


def as_wide_as_keys(module, query, memory, removed):
    copied = copy.deepcopy(module)
    width = module.w_q.out_features // module.num_heads
    for i in removed:
        copied.w_o.weight.data[:, i * width : (i + 1) * width] = 0
    return copied(query, memory)


def as_wide_as_shares(module, query, memory, removed):
    copied = copy.deepcopy(module)
    width = module.w_o.out_features // module.num_heads
    for i in removed:
        copied.w_o.weight.data[:, i * width : (i + 1) * width] = 0
    return copied(query, memory)


def spoiling(spoil):
    """Right, but changes what it was given afterwards."""

    def candidate(module, query, memory, removed):
        output = without(columns_zeroed(lambda h, r: r))(module, query, memory, removed)
        spoil(module, query, memory)
        return output

    return candidate


def another_w_q(module, query, memory):
    module.w_q.weight = torch.nn.Parameter(module.w_q.weight.detach().clone())


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
        "the mean instead of zeros": before_w_o(mean),
        "only the removed heads": before_w_o(keep_only),
        "heads as wide in W^O as keys": as_wide_as_keys,
        "heads as wide in W^O as a share of d_model": as_wide_as_shares,
        "erases the query": spoiling(lambda module, query, memory: query.zero_()),
        "changes the memory": spoiling(lambda module, query, memory: memory.add_(1)),
        "leaves the module in eval mode": spoiling(lambda module, query, memory: module.eval()),
        "freezes the module": spoiling(lambda module, query, memory: module.requires_grad_(False)),
        "another parameter for the queries": spoiling(another_w_q),
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
        "d_k for d_v": lambda d, h, g, k, v: 2 * d * (h + g) * k,
        "no W^O": lambda d, h, g, k, v: d * (h * k + g * (k + v)),
        "as many sets as heads in a group": lambda d, h, g, k, v: d * (h * k + h // g * (k + v) + h * v),
        "one head's W^O": lambda d, h, g, k, v: d * (h * k + g * (k + v) + v),
        "with biases": lambda d, h, g, k, v: d * (h * k + g * (k + v) + h * v) + h * k + g * (k + v) + d,
        "the right float": lambda d, h, g, k, v: float(d * (h * k + g * (k + v) + h * v)),
        "a square W^O": lambda d, h, g, k, v: d * (h * k + g * (k + v) + d),
    },
    "check_winners": {
        "a tensor": lambda keys: torch.tensor([0, len(keys) - 1]),
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
        "the largest key only": lambda keys: [keys.index(max(keys))],
        "the smallest key only": lambda keys: [keys.index(min(keys))],
        "counted from 1": lambda keys: sorted({keys.index(min(keys)) + 1, keys.index(max(keys)) + 1}),
        "a query of 0, too": lambda keys: sorted({0, keys.index(min(keys)), keys.index(max(keys))}),
        "text": lambda keys: ["0", "1"],
        "the keys themselves": lambda keys: sorted({min(keys), max(keys)}),
        "True and False": lambda keys: [
            bool(i) if i < 2 else i
            for i in sorted({keys.index(min(keys)), keys.index(max(keys))})
        ],
        "one key twice": lambda keys: sorted([keys.index(min(keys)), keys.index(max(keys))]),
        "the smallest key first": lambda keys: list(dict.fromkeys([keys.index(min(keys)), keys.index(max(keys))])),
    },
}
# fmt: on
