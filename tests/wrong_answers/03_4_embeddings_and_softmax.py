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


def same_parameter(lookup, linear, fill):
    """One parameter, filled somehow."""
    linear.weight = lookup.weight
    fill(lookup.weight)
    return True


def right_size(weight):
    nn.init.normal_(weight, std=weight.size(1) ** -0.5)


def clone(lookup, linear):
    right_size(lookup.weight)
    linear.weight = nn.Parameter(lookup.weight.detach().clone())
    return True


def frozen(lookup, linear):
    same_parameter(lookup, linear, right_size)
    lookup.weight.requires_grad_(False)
    return True


def one_row(weight):
    """Every token the same vector."""
    with torch.no_grad():
        weight.copy_(torch.randn_like(weight[:1]) * weight.size(1) ** -0.5)


def same_data(lookup, linear):
    right_size(lookup.weight)
    linear.weight.data = lookup.weight.data
    return True


def signs(weight):
    """All entries of one size."""
    with torch.no_grad():
        weight.copy_(torch.randn_like(weight).sign() * weight.size(1) ** -0.5)


def opposite_rows(weight):
    """The second half of the rows is minus the first."""
    half = torch.randn((len(weight) + 1) // 2, weight.size(1)) * weight.size(1) ** -0.5
    with torch.no_grad():
        weight.copy_(torch.cat([half, -half])[: len(weight)])


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
        "for one width": lambda a, b: same_parameter(a, b, lambda w: nn.init.normal_(w, std=1 / 8)),
        "a constant": lambda a, b: same_parameter(a, b, lambda w: nn.init.constant_(w, w.size(1) ** -0.5)),
        "one row for all": lambda a, b: same_parameter(a, b, one_row),
        "frozen": frozen,
        "nothing": lambda a, b: math.nan,
        "one row, either sign": lambda a, b: same_parameter(
            a,
            b,
            lambda w: w.data.copy_(
                torch.randn(len(w), 1).sign()
                * torch.randn(1, w.size(1))
                * w.size(1) ** -0.5
            ),
        ),
        "every column the same": lambda a, b: same_parameter(
            a,
            b,
            lambda w: w.data.copy_(
                torch.randn(len(w), 1).expand_as(w) * w.size(1) ** -0.5
            ),
        ),
        "a hundred rows, repeated": lambda a, b: same_parameter(
            a,
            b,
            lambda w: w.data.copy_(
                torch.randn(100, w.size(1)).repeat(11, 1)[: len(w)] * w.size(1) ** -0.5
            ),
        ),
        "one memory, two parameters": same_data,
        "signs": lambda a, b: same_parameter(a, b, signs),
        "each row and its opposite": lambda a, b: same_parameter(a, b, opposite_rows),
    },
}
# fmt: on
