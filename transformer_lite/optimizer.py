"""The optimizer, and the learning rate that first rises and then falls.

Paper: §5.3
Chapter: 05_3_optimizer
Tests: tests/package/test_optimizer.py
"""

from collections.abc import Callable, Iterable

from torch import nn, optim


def noam_rate(step: int, d_model: int, warmup: int) -> float:
    """Return the learning rate of a step, counted from 1 (Equation 3).

    It rises linearly for `warmup` steps and then falls with the root of the step:
    d_model^-0.5 · min(step^-0.5, step · warmup^-1.5).

    >>> round(noam_rate(4_000, d_model=512, warmup=4_000), 6)
    0.000699
    """
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def adam(parameters: Iterable[nn.Parameter], rate: float) -> optim.Adam:
    """Make Adam with the paper's β and ε (Section 5.3).

    Args:
        parameters: The parameters to optimize.
        rate: The learning rate. `noam_schedule` multiplies it by Equation 3, so give 1
            for the paper's rate.
    """
    return optim.Adam(parameters, lr=rate, betas=(0.9, 0.98), eps=1e-9, fused=True)


def noam_schedule(
    optimizer: optim.Optimizer,
    d_model: int,
    warmup: int,
    max_steps: int = 0,
    cooldown: int = 0,
    done: int = 0,
) -> optim.lr_scheduler.LambdaLR:
    """Make a scheduler that multiplies the optimizer's rate by `noam_rate`.

    Call its `step()` after each step of the optimizer.

    Args:
        warmup: Steps over which the rate rises.
        max_steps: Steps of the whole run; only a cooldown needs them.
        cooldown: Steps at the end over which the rate falls linearly to 0.
        done: Steps that the optimizer has taken already.
    """

    def factor(done: int) -> float:
        left = max(0, max_steps - done) / cooldown if cooldown else 1.0
        return noam_rate(done + 1, d_model, warmup) * min(1.0, left)

    return optim.lr_scheduler.LambdaLR(optimizer, factor, last_epoch=done - 1)


def peak_step(
    factor: Callable[[int], float], warmup: int, max_steps: int, cooldown: int
) -> int:
    """Return how many steps come before that with the highest rate.

    It lies at the warm-up's end or the cooldown's begin, or where these overlap at the
    top of a parabola, the product of a rising and a falling line.

    Args:
        factor: The rate after a number of steps, up to a constant.
        warmup: As for `noam_schedule`, and so are the others.
    """
    last, top = max_steps - 1, (max_steps - 1) // 2
    candidates = {warmup - 1, max_steps - cooldown, top}
    return max(sorted(min(done, last) for done in candidates), key=factor)
