"""Wrong answers to the exercises of 3.3, by check and by mistake."""

import torch

from transformer_lite.layers import FeedForward


def tensors(d, first, second, b_1=0.0, b_2=0.0):
    """The network whose hinges are `first` and are summed as `second`, per input."""
    one = torch.eye(d)
    w_1 = torch.cat([sign * one for sign in first], dim=1)
    w_2 = torch.cat([sign * one for sign in second])
    return w_1, torch.full((2 * d,), b_1), w_2, torch.full((d,), b_2)


def transposed(d):
    w_1, b_1, w_2, b_2 = tensors(d, (1, -1), (1, 1))
    return w_1.T, b_1, w_2.T, b_2


def interleaved_inside_only(d):
    w_1, b_1, w_2, b_2 = tensors(d, (1, -1), (1, 1))
    order = torch.arange(2 * d).view(2, d).T.flatten()
    return w_1[:, order], b_1, w_2, b_2


def one_input(d):
    return torch.tensor([[1.0, -1]]), torch.zeros(2), torch.ones(2, 1), torch.zeros(1)


def everything_summed(d):
    w_1, b_1, _, b_2 = tensors(d, (1, -1), (1, 1))
    return w_1, b_1, torch.ones(2 * d, d), b_2


def smaller(rows, columns=None):
    """A network of the hidden numbers that `rows` picks, copied with a mistake."""

    def candidate(module, x):
        keep = rows(module, x).clone()
        if not keep.any():
            keep[0] = True
        small = FeedForward(x.size(-1), int(keep.sum())).to(x.dtype)
        with torch.no_grad():
            small.w_1.weight.copy_(module.w_1.weight[keep])
            small.w_1.bias.copy_(module.w_1.bias[keep])
            taken = module.w_2.weight[:, keep]
            small.w_2.weight.copy_(columns(taken) if columns else taken)
            small.w_2.bias.copy_(module.w_2.bias)
        return small

    return candidate


def fires(module, x):
    return (module.w_1(x) > 0).flatten(0, -2)


def busy(module, x):
    return fires(module, x).any(dim=0)


def silenced(module, x):
    with torch.no_grad():
        module.w_2.weight[:, ~busy(module, x)] = 0
    return module


def trimmed_in_place(module, x):
    keep = busy(module, x)
    small = smaller(busy)(module, x)
    with torch.no_grad():
        module.w_2.weight[:, ~keep] = 0
    return small


def cut_in_place(module, x):
    small = smaller(busy)(module, x)
    module.w_1, module.w_2 = small.w_1, small.w_2
    return module


def without_bias(module, x):
    small = smaller(busy)(module, x)
    small.w_2.bias = None
    return small


def borrowed(module, x):
    small = FeedForward(x.size(-1), int(busy(module, x).sum())).to(x.dtype)
    small.forward = module.forward
    return small


def bends_far_away(d):
    """|x| = 2 max(0, x) - x, the -x by a hinge that bends beyond the inputs."""
    w_1, b_1, w_2, b_2 = tensors(d, (1, -1), (2, 1), b_2=-1e6)
    b_1[d:] = 1e6
    return w_1, b_1, w_2, b_2


def without_inputs(module, x):
    keep = busy(module, x)
    x.zero_()
    small = smaller(lambda module, x: keep)(module, x)
    torch.nn.init.zeros_(small.w_1.weight)
    return small


# fmt: off
WRONG = {
    "check_absolute": {
        "bends far away": bends_far_away,
        "one hinge twice": lambda d: tensors(d, (1, 1), (1, 1)),
        "a difference": lambda d: tensors(d, (1, -1), (1, -1)),
        "the negative": lambda d: tensors(d, (1, -1), (-1, -1)),
        "half": lambda d: tensors(d, (1, -1), (0.5, 0.5)),
        "bends beside 0": lambda d: tensors(d, (1, -1), (1, 1), b_1=0.5, b_2=-0.5),
        "adds a little": lambda d: tensors(d, (1, -1), (1, 1), b_2=0.01),
        "as nn.Linear stores them": transposed,
        "hinges in another order": interleaved_inside_only,
        "one input only": one_input,
        "the sum of all": everything_summed,
        "zeros": lambda d: tensors(d, (0, 0), (0, 0)),
        "nothing": lambda d: None,
        "one tensor": lambda d: torch.eye(d),
        "three tensors": lambda d: tensors(d, (1, -1), (1, 1))[:3],
    },
    "check_crossing": {
        "a constant": lambda d_model, d_ff: 16,
        "twice the width": lambda d_model, d_ff: 2 * d_model,
        "one width too few": lambda d_model, d_ff: d_ff - d_model,
        "without projections": lambda d_model, d_ff: d_ff,
        "nothing": lambda d_model, d_ff: None,
        "not a number": lambda d_model, d_ff: float("nan"),
        "far too long": lambda d_model, d_ff: 10**400,
    },
    "check_without_idle": {
        "keeps all": lambda module, x: module,
        "sets the idle to 0": silenced,
        "drops one that fires": smaller(lambda m, x: busy(m, x) & (fires(m, x).sum(0) != fires(m, x).sum(0).max())),
        "keeps those that always fire": smaller(lambda m, x: fires(m, x).all(dim=0)),
        "keeps those above 0.1": smaller(lambda m, x: m.w_1(x).flatten(0, -2).amax(0) > 0.1),
        "looks at every other input": smaller(lambda m, x: fires(m, x)[::2].any(dim=0)),
        "borrows the given network": borrowed,
        "sets the inputs to 0": without_inputs,
        "looks at the first input only": smaller(lambda m, x: fires(m, x)[0]),
        "looks at the biases": smaller(lambda m, x: m.w_1.bias > 0),
        "keeps the idle": smaller(lambda m, x: ~busy(m, x)),
        "another order in the second matrix": smaller(busy, lambda w: w.flip(1)),
        "changes the given network": trimmed_in_place,
        "changes the given network's type": lambda m, x: smaller(busy)(m, x) and m.float(),
        "cuts the given network": cut_in_place,
        "nothing": lambda module, x: None,
        "without a bias": without_bias,
    },
}
# fmt: on
