"""Wrong answers to the exercises of 3.2.2, by check and by mistake."""

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
        "another width": lambda *given: without(columns_zeroed(lambda h, r: r))(*given)[
            ..., :-1
        ],
        "a list": lambda *given: without(columns_zeroed(lambda h, r: r))(
            *given
        ).tolist(),
        "an array": lambda *given: (
            without(columns_zeroed(lambda h, r: r))(*given).detach().numpy()
        ),
        "freezes W^O": lambda module, *rest: (
            module.w_o.weight.requires_grad_(False),
            without(columns_zeroed(lambda h, r: r))(module, *rest),
        )[1],
    },
    "check_count": {
        "shapes, not their sum": lambda d, h, g, k, v: (
            [d * h * k, d * g * k, d * g * v, d * h * v]
        ),
        "a tensor": lambda d, h, g, k, v: torch.tensor([d * h * k, d * h * v]),
        "a text": lambda d, h, g, k, v: "d_model * h * (d_k + d_v)",
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
    "check_winners": {
        "a tensor": lambda keys: torch.tensor([0, len(keys) - 1]),
        "a list of tensors": lambda keys: [torch.tensor([0, 1])],
        "an array": lambda keys: torch.tensor(keys).sort().indices.numpy(),
        "every key": lambda keys: list(range(len(keys))),
        "the largest alone": lambda keys: [keys.index(max(keys))],
        "the smallest alone": lambda keys: [keys.index(min(keys))],
        "the largest by size": lambda keys: [
            max(range(len(keys)), key=lambda i: abs(keys[i]))
        ],
        "the first and the last": lambda keys: sorted({0, len(keys) - 1}),
        "the positive ones": lambda keys: [i for i, key in enumerate(keys) if key > 0],
        "the two largest": lambda keys: sorted(
            sorted(range(len(keys)), key=lambda i: keys[i])[-2:]
        ),
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
        "keys, not places": lambda keys: sorted({min(keys), max(keys)}),
        "one key twice": lambda keys: sorted(
            [keys.index(min(keys)), keys.index(max(keys))]
        ),
        "the smallest key first": lambda keys: list(
            dict.fromkeys([keys.index(min(keys)), keys.index(max(keys))])
        ),
        "every key but the middle one": lambda keys: [
            i for i in range(len(keys)) if keys[i] != sorted(keys)[len(keys) // 2]
        ],
    },
}
