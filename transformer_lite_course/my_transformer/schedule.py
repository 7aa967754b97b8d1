"""The learning rate, and one step of training (Section 5.3).

Chapter: https://transformer-lite.github.io/transformer-lite/notebooks/05_3_optimizer.html
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


def noam_rate(step: int, d_model: int, warmup: int) -> float:
    """Return the learning rate of a step, counted from 1 (Equation 3)."""
    raise NotImplementedError


def take_step(
    loss_of: Callable[[Any], tuple[Tensor, Tensor]],
    batches: Sequence[Any],
    optimizer: Optimizer,
    schedule: LRScheduler,
) -> float:
    """Take one step on all batches together; return the mean loss of their tokens.

    The gradient is that of the mean over all tokens of all batches. Clear the gradients
    afterwards.

    Args:
        loss_of: Returns the sum of a batch's losses and the number of its tokens.
        batches: They do not fit into memory together, so they come one by one.
        optimizer: Takes the step.
        schedule: Sets the next learning rate.
    """
    raise NotImplementedError
