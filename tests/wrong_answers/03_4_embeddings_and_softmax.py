"""Wrong answers to the exercises of 3.4, by check and by mistake."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def errors(hidden, matrix, labels):
    """What the output's logits get: probabilities, minus 1 at each label."""
    return (hidden @ matrix.T).softmax(-1) - F.one_hot(labels, len(matrix))


def right(hidden, matrix, labels):
    return errors(hidden, matrix, labels).T @ hidden / len(hidden)


def told(gradient, place="output", direction="away"):
    """An answer of these three values."""
    return lambda *given: (gradient(*given), place, direction)


def best(likeness, token):
    """The token of the largest value, other than this one."""
    likeness[token] = -math.inf
    return likeness.argmax().item()


def zeroed(weight, token):
    """The token's own cosine becomes 0, which can be the largest."""
    likeness = F.cosine_similarity(weight, weight[token], dim=1)
    likeness[token] = 0
    return likeness.argmax().item()


def loss_of(hidden, matrix, labels):
    return F.cross_entropy(hidden @ matrix.T, labels)


def by_autograd(hidden, matrix, labels):
    matrix = matrix.clone().requires_grad_()
    gradient = torch.autograd.grad(loss_of(hidden, matrix, labels), matrix)[0]
    return gradient, "output", "away"


derivative = torch.autograd.grad


def by_another_name(hidden, matrix, labels):
    with torch.inference_mode(False), torch.enable_grad():
        matrix = matrix.clone().requires_grad_()
        gradient = derivative(loss_of(hidden, matrix, labels), matrix)[0]
    return gradient, "output", "away"


def in_forward_mode(hidden, matrix, labels):
    jacobian = torch.func.jacfwd
    with torch.inference_mode(False):
        gradient = jacobian(lambda matrix: loss_of(hidden, matrix, labels))(matrix)
    return gradient, "output", "away"


def by_jacobian(hidden, matrix, labels):
    with torch.inference_mode(False), torch.enable_grad():
        gradient = torch.autograd.functional.jacobian(
            lambda matrix: loss_of(hidden.clone(), matrix, labels.clone()),
            matrix.clone(),
        )
    return gradient, "output", "away"


def by_backward(hidden, matrix, labels):
    matrix = matrix.clone().requires_grad_()
    loss_of(hidden, matrix, labels).backward()
    return matrix.grad, "output", "away"


def as_long(weight):
    """What makes a row as long as a positional encoding."""
    return math.sqrt(weight.size(1) / 2)


def filled(fill, factor=as_long):
    """One parameter, filled somehow."""

    def tie(lookup, linear):
        linear.weight = lookup.weight
        fill(lookup.weight)
        return factor(lookup.weight)

    return tie


def of(rows):
    """One parameter of these rows, which have the right size."""
    return filled(lambda w: w.data.copy_(rows(w) * w.size(1) ** -0.5))


def right_size(weight):
    nn.init.normal_(weight, std=weight.size(1) ** -0.5)


def seeded(weight):
    torch.manual_seed(0)
    right_size(weight)


def by_own_generator(weight):
    std = weight.size(1) ** -0.5
    nn.init.normal_(weight, std=std, generator=torch.Generator())


def clone(lookup, linear):
    right_size(lookup.weight)
    linear.weight = nn.Parameter(lookup.weight.detach().clone())
    return as_long(lookup.weight)


def frozen(lookup, linear):
    filled(right_size)(lookup, linear)
    lookup.weight.requires_grad_(False)
    return as_long(lookup.weight)


def same_data(lookup, linear):
    right_size(lookup.weight)
    linear.weight.data = lookup.weight.data
    return as_long(lookup.weight)


def opposite_rows(weight):
    half = torch.randn((len(weight) + 1) // 2, weight.size(1))
    return torch.cat([half, -half])[: len(weight)]


# fmt: off
WRONG = {
    "check_stand_in": {
        "the token itself": lambda w, t: F.cosine_similarity(w, w[t], dim=1).argmax().item(),
        "the largest dot product": lambda w, t: best(w @ w[t], t),
        "the nearest row": lambda w, t: best(-(w - w[t]).norm(dim=1), t),
        "the largest size of a cosine": lambda w, t: best(F.cosine_similarity(w, w[t], dim=1).abs(), t),
        "the second of a sorted list": lambda w, t: F.cosine_similarity(w, w[t], dim=1).topk(2).indices[1].item(),
        "without the mean row": lambda w, t: best(F.cosine_similarity(w - w.mean(0), (w - w.mean(0))[t], dim=1), t),
        "a cosine of 0 with itself": zeroed,
        "the next token": lambda w, t: (t + 1) % len(w),
        "nothing": lambda w, t: None,
    },
    "check_gradient": {
        "the sum, not the mean": told(lambda h, m, y: errors(h, m, y).T @ h),
        "divided by the vocabulary": told(lambda h, m, y: errors(h, m, y).T @ h / len(m)),
        "the sign": told(lambda h, m, y: -right(h, m, y)),
        "the right tokens alone": told(lambda h, m, y: -F.one_hot(y, len(m)).to(h.dtype).T @ h / len(h)),
        "without the labels": told(lambda h, m, y: (h @ m.T).softmax(-1).T @ h / len(h)),
        "transposed": told(lambda h, m, y: right(h, m, y).T),
        "PyTorch's gradient": by_autograd,
        "PyTorch's gradient, by another name": by_another_name,
        "PyTorch's backward": by_backward,
        "PyTorch's Jacobian": by_jacobian,
        "PyTorch's functional gradient": lambda h, m, y: (torch.func.grad(lambda matrix: loss_of(h, matrix, y))(m), "output", "away"),
        "forward mode, by another name": in_forward_mode,
        "shapes that do not fit": told(lambda h, m, y: h @ m),
        "another place": told(right, "source"),
        "another direction": told(right, direction="towards"),
        "the gradient alone": right,
        "the given words": told(right, "place", "direction"),
        "nothing": lambda h, m, y: None,
    },
    "check_tie": {
        "only equal": clone,
        "a seed": filled(seeded),
        "a seed of its own": filled(by_own_generator),
        "for one width": filled(lambda w: nn.init.normal_(w, std=1 / 8)),
        "a constant": of(torch.ones_like),
        "one row for all": of(lambda w: torch.randn_like(w[:1])),
        "frozen": frozen,
        "nothing": lambda a, b: math.nan,
        "one row, either sign": of(lambda w: torch.randn(len(w), 1).sign() * torch.randn(1, w.size(1))),
        "every column the same": of(lambda w: torch.randn(len(w), 1).expand_as(w)),
        "a hundred rows, repeated": of(lambda w: torch.randn(100, w.size(1)).repeat(11, 1)[: len(w)]),
        "one memory, two parameters": same_data,
        "signs": of(lambda w: torch.randn_like(w).sign()),
        "each row and its opposite": of(opposite_rows),
        "the paper's factor": filled(right_size, lambda w: math.sqrt(w.size(1))),
        "no factor": filled(right_size, lambda w: 1.0),
        "squared lengths": filled(right_size, lambda w: w.size(1) / 2),
        "half the entries": filled(right_size, lambda w: math.sqrt(w.size(1)) / 2),
        "True": filled(right_size, lambda w: True),
    },
}
# fmt: on
