"""Wrong answers to the exercises of 3.2.2, by check and by mistake."""

import copy

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from transformer_lite.attention import MultiHeadAttention, scaled_dot_product_attention


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


def split(projected, h):
    return projected.unflatten(-1, (h, -1)).transpose(-3, -2)


def merge(heads):
    return heads.transpose(-3, -2).flatten(-2)


def multi_head(query, memory, matrices, h):
    w_q, w_k, w_v, w_o = matrices
    q, k, v = split(query @ w_q, h), split(memory @ w_k, h), split(memory @ w_v, h)
    return merge(scaled_dot_product_attention(q, k, v)[0]) @ w_o


def multi_head_by_loop(query, memory, heads, w_o):
    outputs = []
    for w_q, w_k, w_v in heads:
        q, k, v = query @ w_q, memory @ w_k, memory @ w_v
        outputs.append(scaled_dot_product_attention(q, k, v)[0])
    return torch.cat(outputs, dim=-1) @ w_o


def given():
    """What the check of "Spot the bug" takes from the story."""
    finished = split, merge, multi_head, multi_head_by_loop
    return {function.__name__: function for function in finished}


def all_heads(join=merge, cut=split):
    """The story's way, with one part changed."""

    def candidate(words, w_q, w_k, w_v, w_o, h):
        q, k, v = (cut(words @ matrix, h) for matrix in (w_q, w_k, w_v))
        return join(scaled_dot_product_attention(q, k, v)[0]) @ w_o

    return candidate


def own_split(projected, h):
    return projected.view(*projected.shape[:2], h, -1).transpose(1, 2)


def own_merge(heads):
    return heads.transpose(1, 2).flatten(2)


def loop(words, w_q, w_k, w_v, w_o, h):
    """The story's loop, by another name."""
    alias = multi_head_by_loop
    parts = (matrix.chunk(h, dim=1) for matrix in (w_q, w_k, w_v))
    return alias(words, words, zip(*parts, strict=True), w_o)


def packages(call):
    """The package's module, called somehow."""

    def candidate(words, w_q, w_k, w_v, w_o, h):
        d_model = words.size(-1)
        module = MultiHeadAttention(d_model, h).double()
        linear = module.w_q, module.w_k, module.w_v, module.w_o
        for layer, matrix in zip(linear, (w_q, w_k, w_v, w_o), strict=True):
            layer.weight.data = matrix.T
        return call(module)(words, words)

    return candidate


def pytorchs(call):
    """PyTorch's module, called somehow."""

    def candidate(words, w_q, w_k, w_v, w_o, h):
        module = nn.MultiheadAttention(words.size(-1), h, False, batch_first=True)
        module.double().in_proj_weight.data = torch.cat([w_q, w_k, w_v], dim=1).T
        module.out_proj.weight.data = w_o.T
        return call(module)(words, words, words)[0]

    return candidate


def pytorchs_function(words, w_q, w_k, w_v, w_o, h):
    alias, first = F.multi_head_attention_forward, words.transpose(0, 1)
    joined, d_model = torch.cat([w_q, w_k, w_v], dim=1).T, words.size(-1)
    fixed = (None, None, None, False, 0.0)
    found = alias(first, first, first, d_model, h, joined, *fixed, w_o.T, None)
    return found[0].transpose(0, 1)


# fmt: off
WRONG = {
    "check_heads": {
        "one head": lambda *given: all_heads(own_merge, own_split)(*given[:-1], 1),
        "heads joined as they lie": all_heads(lambda heads: heads.flatten(2).reshape(len(heads), heads.size(2), -1), own_split),
        "the lines cut": all_heads(own_merge, lambda one, h: one.reshape(len(one), h, one.size(1), -1)),
        "a word's heads attend to one another": all_heads(lambda heads: heads.flatten(2), lambda one, h: one.unflatten(-1, (h, -1))),
        "without W^O": lambda *given: all_heads(own_merge, own_split)(*given[:4], torch.eye(given[0].size(-1)).double(), given[-1]),
        "the story's split, by another name": all_heads(own_merge),
        "the story's merge, by another name": all_heads(cut=own_split),
        "the story's function, by another name": lambda words, *rest: (lambda alias: alias(words, words, rest[:-1], rest[-1]))(multi_head),
        "the story's loop, by another name": loop,
        "the package's module": packages(lambda module: module),
        "the package's forward": packages(lambda module: module.forward),
        "PyTorch's module": pytorchs(lambda module: module),
        "PyTorch's forward": pytorchs(lambda module: module.forward),
        "PyTorch's function, by another name": pytorchs_function,
    },
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

RIGHT = {"check_heads": {"view and flatten": all_heads(own_merge, own_split)}}
