"""Wrong answers to the exercises of 3.1, by check and by mistake."""

import torch


def pre_norm_layer_with(**changed):
    """The decoder layer in pre-norm, but for one part."""
    parts = {
        "look": lambda x, y, attend: x + attend(y, y),
        "read": lambda x, norm, memory, attend: x + attend(norm(x), memory),
        "think": lambda x, norm, network: x + network(norm(x)),
    } | changed

    def candidate(x, memory, self_attention, cross_attention, feed_forward, norms):
        x = parts["look"](x, norms[0](x), self_attention)
        x = parts["read"](x, norms[1], memory, cross_attention)
        return parts["think"](x, norms[2], feed_forward)

    return candidate


def post_norm(x, memory, look, read, think, norms):
    x = norms[0](x + look(x, x))
    x = norms[1](x + read(x, memory))
    return norms[2](x + think(x))


def one_norm(x, memory, look, read, think, norms):
    y = norms[0](x)
    x = x + look(y, y)
    x = x + read(norms[0](x), memory)
    return x + think(norms[0](x))


def in_place(x, memory, look, read, think, norms):
    """The right values, but no gradient: the norm needs the old x."""
    y = norms[0](x)
    x += look(y, y)
    x += read(norms[1](x), memory)
    x += think(norms[2](x))
    return x


def rows(*makers):
    return lambda x: torch.stack([make(x) for make in makers])


def one(x):
    return torch.ones_like(x)


def first(x):
    return torch.eye(len(x), dtype=x.dtype)[0]


# fmt: off
WRONG = {
    "check_share": {
        "the start": lambda share, layers: share,
        "a half per layer": lambda share, layers: share / 2**layers,
        "lengths instead of squares": lambda share, layers: share / (share + 2**layers * (1 - share)),
        "2 instead of 4": lambda share, layers: share / (share**2 + 2**layers * (1 - share**2)) ** 0.5,
        "one layer too many": lambda share, layers: share / (share**2 + 4 ** (layers + 1) * (1 - share**2)) ** 0.5,
        "always one layer": lambda share, layers: share / (share**2 + 4 * (1 - share**2)) ** 0.5,
        "the common part added up": lambda share, layers: (
            share / (share**2 + (1 + layers) ** 2 * (1 - share**2)) ** 0.5
        ),
        "the square": lambda share, layers: share**2 / (share**2 + 4**layers * (1 - share**2)),
        "the common part": lambda share, layers: 1 - share**2 / (share**2 + 4**layers * (1 - share**2)),
        "nothing": lambda share, layers: 0,
        "the differences double, too": lambda share, layers: 2**layers * share / (4**layers) ** 0.5,
        "not yet written": lambda share, layers: None,
        "not a number": lambda share, layers: float("nan"),
        "an error": lambda share, layers: share / 0,
    },
    "check_pre_norm": {
        "post-norm": post_norm,
        "one norm for all": one_norm,
        "the input detached": lambda x, memory, *others: pre_norm_layer_with()(x.detach(), memory, *others),
        "the memory detached": lambda x, memory, *others: pre_norm_layer_with()(x, memory.detach(), *others),
        "everything detached": lambda *given: pre_norm_layer_with()(*given).detach(),
        "a norm detached": pre_norm_layer_with(think=lambda x, norm, network: x + network(norm(x).detach())),
        "the sum detached": pre_norm_layer_with(
            read=lambda x, norm, memory, attend: x.detach() + attend(norm(x), memory)
        ),
        "sum around attention forgotten": pre_norm_layer_with(look=lambda x, y, attend: attend(y, y)),
        "in place": in_place,
        "not yet written": lambda *given: None,
        "one word": lambda *given: pre_norm_layer_with()(*given)[:, :1],
        "a fourth norm": lambda x, memory, look, read, think, norms: norms[3](x),
        "the memory normalized": pre_norm_layer_with(
            read=lambda x, norm, memory, attend: x + attend(norm(x), norm(memory))
        ),
        "keys not normalized": pre_norm_layer_with(look=lambda x, y, attend: x + attend(y, x)),
    },
    "check_invisible": {
        "one direction twice": rows(one, one),
        "only the mean": rows(one, first),
        "random": lambda x: torch.randn(2, len(x), dtype=x.dtype),
        "two components": lambda x: torch.eye(len(x), dtype=x.dtype)[:2],
        "nearly the same": rows(one, lambda x: 1 + 1e-9 * x),
        "one direction alone": lambda x: torch.ones_like(x)[None],
        "complex": lambda x: torch.stack([one(x), 1j * x]),
        "not a number": rows(one, lambda x: x * float("nan")),
        "an error": lambda x: torch.cat([one(x)[None], x]),
    },
}
# fmt: on
