"""The pre-softmax linear transformation and the loss in one, a slice at a time.

The logits of a batch, target tokens × vocabulary, are by far the largest tensor of
a model. Here they never exist as a whole: a slice of tokens is scored, its loss and
gradient are taken, and the slice is forgotten. Tests hold the results equal to
those of `loss.label_smoothed_loss`.

Paper: §3.4, 5.4
Chapter: 05_4_regularization
Tests: tests/test_fused_loss.py
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from transformer_lite.loss import LossSums

SLICE_ELEMENTS = {"cpu": 2**22, "cuda": 2**28}
"""Logits made at once: on CPUs what caches hold, on GPUs what keeps them busy."""


def fused_label_smoothed_loss(
    hidden: Float[Tensor, "*batch d_model"],
    weight: Float[Tensor, "vocab d_model"],
    labels: Int[Tensor, "*batch"],
    smoothing: float,
    pad_id: int,
) -> LossSums:
    """The loss of `hidden @ weight.T`, for labels that are not padding, summed.

    Args:
        hidden: The decoder's output vectors.
        weight: The matrix that scores the vocabulary.
        labels: The right tokens.
        smoothing: ε, 0.1 in the paper.
        pad_id: Labels with this id do not count, and their vectors are not scored.
    """
    labels = labels.flatten()
    real = (labels != pad_id).nonzero()[:, 0]
    hidden = hidden.flatten(0, -2).index_select(0, real)
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        half = torch.get_autocast_dtype(device)
        hidden, weight = hidden.to(half), weight.to(half)
    loss, nll = _LinearCrossEntropy.apply(hidden, weight, labels[real], smoothing)
    return LossSums(loss, nll, labels.new_tensor(len(real)))


class _LinearCrossEntropy(torch.autograd.Function):
    """The summed loss of a linear layer's logits, with its gradient made on the way.

    The gradient of a cross-entropy with respect to the logits is the model's
    distribution minus the target distribution. Both are at hand in the forward pass,
    so the backward pass has nothing left to do but to scale.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        # Deviation D5: ε is spread over the wrong tokens alone; see `loss`.
        each_other = smoothing / (len(weight) - 1)
        extra = 1 - smoothing - each_other  # of the right token, over each other
        # Sums of this many terms want at least fp32, whatever the products are in.
        at_least_fp32 = torch.promote_types(hidden.dtype, torch.float32)
        loss_sum, nll_sum = hidden.new_zeros(2, dtype=at_least_fp32)
        hidden_gradient = torch.empty_like(hidden)
        weight_gradient = torch.zeros_like(weight, dtype=at_least_fp32)
        elements = SLICE_ELEMENTS.get(hidden.device.type, SLICE_ELEMENTS["cpu"])
        size = max(1, elements // len(weight))
        for part, right, part_gradient in zip(
            hidden.split(size),
            labels[:, None].split(size),
            hidden_gradient.split(size),
            strict=True,
        ):
            logits = F.linear(part, weight).to(at_least_fp32)
            log_probs = logits.log_softmax(dim=-1)
            nll = -log_probs.gather(1, right).sum()
            nll_sum += nll
            loss_sum += extra * nll - each_other * log_probs.sum()
            gradient = log_probs.exp_().sub_(each_other)
            gradient.scatter_add_(1, right, gradient.new_full(right.shape, -extra))
            gradient = gradient.to(weight.dtype)
            torch.mm(gradient, weight, out=part_gradient)
            weight_gradient += gradient.T @ part
        ctx.save_for_backward(hidden_gradient, weight_gradient.to(weight.dtype))
        ctx.mark_non_differentiable(nll_sum)
        return loss_sum, nll_sum

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, loss_gradient: Tensor, _: Tensor
    ) -> tuple[Tensor, Tensor, None, None]:
        hidden_gradient, weight_gradient = ctx.saved_tensors
        return (
            hidden_gradient * loss_gradient.to(hidden_gradient.dtype),
            weight_gradient * loss_gradient.to(weight_gradient.dtype),
            None,
            None,
        )
