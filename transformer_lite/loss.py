"""The label-smoothed cross-entropy, as a sum and a count.

Paper: §5.4
Chapter: 05_4_regularization
Tests: tests/test_loss.py
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor


class LossSums(NamedTuple):
    """Sums over a batch's real target tokens, and how many these are.

    Whoever trains divides, by the count over all batches of a step and over all
    processes. A mean per batch would weigh a token by the company it keeps.
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
    """The loss of every label that is not padding, summed (Section 5.4).

    The target distribution gives 1 − ε to the right token and ε / (V − 1) to each
    of the V − 1 others.

    Args:
        logits: A score for every token of the vocabulary.
        labels: The right tokens.
        smoothing: ε, 0.1 in the paper.
        pad_id: Labels with this id do not count.
    """
    labels = labels.flatten()
    is_real = labels != pad_id
    # Sums of this many terms want at least fp32, whatever the model computes in.
    at_least_fp32 = torch.promote_types(logits.dtype, torch.float32)
    logits = logits.flatten(0, -2).to(at_least_fp32)
    loss, nll = _SmoothedCrossEntropy.apply(logits, labels, is_real, smoothing)
    return LossSums(loss, nll, is_real.sum())


class _SmoothedCrossEntropy(torch.autograd.Function):
    """The loss, with its gradient made on the way.

    The gradient of a cross-entropy with respect to the logits is the model's
    distribution minus the target distribution. Both are at hand in the forward
    pass, so the gradient takes the place of the log-probabilities there: autograd,
    left alone, would allocate the largest tensor of the model four more times.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, labels: Tensor, is_real: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        # Deviation D5: ε is spread over the wrong tokens alone, as in the authors'
        # code; PyTorch's own smoothing gives the right token a share of it too.
        each_other = smoothing / (logits.size(-1) - 1)
        extra = 1 - smoothing - each_other  # of the right token, over each other
        log_probs = logits.log_softmax(dim=-1)
        right = labels[:, None]
        nll = -log_probs.gather(1, right)[:, 0]
        loss = extra * nll - each_other * log_probs.sum(dim=-1)
        gradient = log_probs.exp_().sub_(each_other)
        gradient.scatter_add_(
            1, right, torch.full_like(right, -extra, dtype=loss.dtype)
        )
        ctx.save_for_backward(gradient.mul_(is_real[:, None]))
        nll_sum = (nll * is_real).sum()
        ctx.mark_non_differentiable(nll_sum)
        return (loss * is_real).sum(), nll_sum

    @staticmethod
    def backward(
        ctx: Any, loss_gradient: Tensor, _: Tensor
    ) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * loss_gradient, None, None, None
