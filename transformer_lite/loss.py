"""The label-smoothed cross-entropy, as a sum and a count: written out, and fused.

Written out it takes all logits of a batch, target tokens × vocabulary: by far the
largest tensor in training. The fused one keeps only the loss and gradient of one slice
of the logits at a time. Tests hold values and gradients equal.

Paper: §3.4, 5.4
Chapter: 05_4_regularization
Tests: tests/package/test_loss.py, tests/package/test_fused_loss.py
"""

import math
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


class LossSums(NamedTuple):
    """Sums over a batch's real target tokens, and their number.

    The training step divides by the count over all its batches and processes. With a
    mean per batch, a token in a small batch would weigh more than one in a large batch.
    """

    loss: Float[Tensor, ""]
    """Label-smoothed cross-entropy in nats: what training minimizes."""
    nll: Float[Tensor, ""]
    """Negative log-likelihood in nats; exp(nll / tokens) is the perplexity."""
    tokens: Int[Tensor, ""]


def label_smoothed_loss(
    logits: Float[Tensor, "*batch vocab"],
    labels: Int[Tensor, "*batch"],
    smoothing: float,
    pad_id: int,
) -> LossSums:
    """Add up the loss of every label that is not padding (Section 5.4).

    The target distribution gives 1 − ε to the right token and ε / (V − 1) to each
    of the V − 1 others. Training computes the same in less memory, by
    `fused_label_smoothed_loss`.

    Args:
        logits: A score for every token of the vocabulary.
        labels: The right tokens.
        smoothing: ε, 0.1 in the paper.
        pad_id: Labels with this id do not count.
    """
    # Sums of many terms need at least fp32, whatever the model computes in.
    at_least_fp32 = torch.promote_types(logits.dtype, torch.float32)
    log_probs = logits.to(at_least_fp32).log_softmax(dim=-1)
    is_real = labels != pad_id
    nll = -log_probs.gather(-1, labels[..., None])[..., 0] * is_real
    # Deviation D5: ε is spread over the wrong tokens alone, as in the authors' code;
    # PyTorch's own smoothing gives the right token a share of it too.
    right, wrong = 1 - smoothing, smoothing / (logits.size(-1) - 1)
    # The sum over all tokens includes the right one, hence the difference.
    loss = (right - wrong) * nll - wrong * log_probs.sum(dim=-1) * is_real
    return LossSums(loss.sum(), nll.sum().detach(), is_real.sum())


def perplexity(nll: float) -> float:
    """Return exp(nll), of nats a token, or the largest float (Section 6.2)."""
    return math.exp(min(nll, 700.0))


SLICE_ELEMENTS = {"cpu": 2**22, "cuda": 2**28}
"""Logits computed at once: few enough for a CPU's caches, enough to keep a GPU busy."""


def fused_label_smoothed_loss(
    hidden: Float[Tensor, "*batch d_model"],
    weight: Float[Tensor, "vocab d_model"],
    labels: Int[Tensor, "*batch"],
    smoothing: float,
    real: Int[Tensor, " tokens"],
    scale: Float[Tensor, ""] | None = None,
) -> LossSums:
    """Add up the loss of `hidden @ weight.T` for the labels at the places `real`.

    Args:
        real: Indices into the flattened labels of those that are not padding; only
            these are scored. Computing them here would make the host wait for the GPU.
        scale: The factor that the caller multiplies the loss by. It does not change the
            result, but gradients are multiplied by it before they are rounded to fp16.
    """
    labels = labels.flatten()[real]
    hidden = hidden.flatten(0, -2).index_select(0, real)
    device, half = hidden.device.type, None
    if torch.is_autocast_enabled(device):
        half = torch.get_autocast_dtype(device)
    products = half or weight.dtype
    scale = scale if products == torch.float16 else None
    loss, nll = _LinearCrossEntropy.apply(
        hidden, weight, labels, smoothing, products, scale
    )
    return LossSums(loss, nll, labels.new_full((), len(real)))


class _LinearCrossEntropy(torch.autograd.Function):
    """The summed loss of a linear layer's logits, with its gradient.

    The gradient of a cross-entropy with respect to the logits is the model's
    probabilities minus the target's. The forward pass has both, so the backward pass
    only multiplies. In fp16 the scale has to come before rounding: of 37,000 tokens
    each wrong one has the target 2.7e-6, where fp16 has hardly a digit left.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        labels: Tensor,
        smoothing: float,
        products: torch.dtype,
        scale: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        # Deviation D5: ε is spread over the wrong tokens alone.
        right, wrong = 1 - smoothing, smoothing / (len(weight) - 1)
        # Sums of many terms need at least fp32, whatever the products are in.
        at_least_fp32 = torch.promote_types(products, torch.float32)
        ctx.scale = scale
        hidden, weight = hidden.to(products), weight.to(products)
        # Not views of one tensor, which FSDP warns of.
        loss_sum = hidden.new_zeros((), dtype=at_least_fp32)
        nll_sum = torch.zeros_like(loss_sum)
        hidden_gradient = torch.empty_like(hidden)
        weight_gradient = torch.zeros_like(weight, dtype=at_least_fp32)
        elements = SLICE_ELEMENTS.get(hidden.device.type, SLICE_ELEMENTS["cpu"])
        size = max(1, elements // len(weight))
        for part, part_labels, part_gradient in zip(
            hidden.split(size),
            labels[:, None].split(size),
            hidden_gradient.split(size),
            strict=True,
        ):
            # The softmax converts to fp32 itself, which spares a pass over the logits.
            logits = F.linear(part, weight)
            log_probs = logits.log_softmax(dim=-1, dtype=at_least_fp32)
            nll = -log_probs.gather(1, part_labels).sum()
            nll_sum += nll
            loss_sum += (right - wrong) * nll - wrong * log_probs.sum()
            gradient = log_probs.exp_().sub_(wrong)
            difference = gradient.new_full(part_labels.shape, wrong - right)
            gradient.scatter_add_(1, part_labels, difference)
            if scale is not None:
                gradient *= scale
            gradient = gradient.to(products)
            torch.mm(gradient, weight, out=part_gradient)
            weight_gradient += gradient.T @ part
        ctx.save_for_backward(hidden_gradient, weight_gradient)
        ctx.mark_non_differentiable(nll_sum)
        return loss_sum, nll_sum

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, loss_gradient: Tensor, _: Tensor
    ) -> tuple[Tensor | None, ...]:
        hidden_gradient, weight_gradient = ctx.saved_tensors
        if ctx.scale is not None:
            loss_gradient = loss_gradient / ctx.scale
        gradients = hidden_gradient * loss_gradient, weight_gradient * loss_gradient
        return *gradients, *[None] * 4
