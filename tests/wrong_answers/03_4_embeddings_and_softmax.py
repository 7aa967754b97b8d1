"""Wrong answers to the exercises of 3.4, by check and by mistake."""

import math

import torch
from torch import nn
from torch.nn import functional as F


def errors(hidden, matrix, labels):
    """What the output's logits get: probabilities, minus 1 at each label."""
    return (hidden @ matrix.T).softmax(-1) - F.one_hot(labels, len(matrix))


def loss_of(hidden, matrix, labels):
    return F.cross_entropy(hidden @ matrix.T, labels)


def by_autograd(hidden, matrix, labels):
    matrix = matrix.clone().requires_grad_()
    return torch.autograd.grad(loss_of(hidden, matrix, labels), matrix)[0]


grad = torch.autograd.grad


def by_early_import(hidden, matrix, labels):
    """By a name that the check does not reach."""
    matrix = matrix.clone().requires_grad_()
    return grad(loss_of(hidden, matrix, labels), matrix)[0]


def by_backward(hidden, matrix, labels):
    matrix = matrix.clone().requires_grad_()
    loss_of(hidden, matrix, labels).backward()
    return matrix.grad


def filled(fill):
    """One parameter, filled somehow."""

    def tie(lookup, linear):
        linear.weight = lookup.weight
        fill(lookup.weight)
        return True

    return tie


def of(rows):
    """One parameter of these rows, which have the right size."""
    return filled(lambda w: w.data.copy_(rows(w) * w.size(1) ** -0.5))


def right_size(weight):
    nn.init.normal_(weight, std=weight.size(1) ** -0.5)


def clone(lookup, linear):
    right_size(lookup.weight)
    linear.weight = nn.Parameter(lookup.weight.detach().clone())
    return True


def frozen(lookup, linear):
    filled(right_size)(lookup, linear)
    lookup.weight.requires_grad_(False)
    return True


def same_data(lookup, linear):
    right_size(lookup.weight)
    linear.weight.data = lookup.weight.data
    return True


def opposite_rows(weight):
    half = torch.randn((len(weight) + 1) // 2, weight.size(1))
    return torch.cat([half, -half])[: len(weight)]


# fmt: off
WRONG = {
    "check_share": {
        "lengths, not squares": lambda f, s: 0.5**0.5 / (0.5**0.5 + f * s),
        "a position of mean square 1": lambda f, s: 1 / (1 + (f * s) ** 2),
        "the factor not squared": lambda f, s: 0.5 / (0.5 + f * s**2),
        "a constant": lambda f, s: 0.34,
        "a text": lambda f, s: "0.34",
    },
    "check_gradient": {
        "the sum, not the mean": lambda h, m, y: errors(h, m, y).T @ h,
        "divided by the vocabulary": lambda h, m, y: errors(h, m, y).T @ h / len(m),
        "the sign": lambda h, m, y: -errors(h, m, y).T @ h / len(h),
        "the right tokens alone": lambda h, m, y: -F.one_hot(y, len(m)).to(h.dtype).T @ h / len(h),
        "without the labels": lambda h, m, y: (h @ m.T).softmax(-1).T @ h / len(h),
        "transposed": lambda h, m, y: h.T @ errors(h, m, y) / len(h),
        "PyTorch's gradient": by_autograd,
        "PyTorch's gradient, imported before": by_early_import,
        "PyTorch's backward": by_backward,
        "PyTorch's functional gradient": lambda h, m, y: torch.func.grad(lambda matrix: loss_of(h, matrix, y))(m),
        "forward mode": lambda h, m, y: torch.func.jacfwd(lambda matrix: loss_of(h, matrix, y))(m),
        "shapes that do not fit": lambda h, m, y: h @ m,
        "nothing": lambda h, m, y: None,
    },
    "check_tie": {
        "only equal": clone,
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
    },
}
# fmt: on
