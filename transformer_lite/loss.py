"""The label-smoothed cross-entropy, as a sum and a count.

Paper: §5.4
Chapter: 05_4_regularization
Tests: tests/test_loss.py
"""

import math
from typing import NamedTuple

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
    of the V − 1 others. Training computes the same in less memory, by
    `fused_loss.fused_label_smoothed_loss`.

    Args:
        logits: A score for every token of the vocabulary.
        labels: The right tokens.
        smoothing: ε, 0.1 in the paper.
        pad_id: Labels with this id do not count.
    """
    # Sums of this many terms want at least fp32, whatever the model computes in.
    at_least_fp32 = torch.promote_types(logits.dtype, torch.float32)
    log_probs = logits.to(at_least_fp32).log_softmax(dim=-1)
    is_real = labels != pad_id
    nll = -log_probs.gather(-1, labels[..., None])[..., 0] * is_real
    # Deviation D5: ε is spread over the wrong tokens alone, as in the authors' code;
    # PyTorch's own smoothing gives the right token a share of it too.
    each_other = smoothing / (logits.size(-1) - 1)
    extra = 1 - smoothing - each_other  # of the right token, over each other
    loss = extra * nll - each_other * log_probs.sum(dim=-1) * is_real
    return LossSums(loss.sum(), nll.sum().detach(), is_real.sum())


def perplexity(nll: float) -> float:
    """exp(nll), as far as a float can hold it (Section 6.2).

    Args:
        nll: Negative log-likelihood per token, in nats.
    """
    return math.exp(min(nll, 700.0))
