"""One step of the optimizer on all batches of all processes, and one validation.

Paper: §5.1–5.4, 6.2, Table 2
Chapter: 05_1_training_data_and_batching, the_multi_gpu_trainer, 06_2_model_variations
Tests: tests/package/training/test_step.py, tests/package/training/test_trainer.py
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn, optim
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig
from transformer_lite.loss import (
    LossSums,
    fused_label_smoothed_loss,
    label_smoothed_loss,
    perplexity,
)
from transformer_lite.model import Transformer
from transformer_lite.precision import Precision, autocast
from transformer_lite.tokenizer import PAD
from transformer_lite.training.distributed import ONE_CPU, Processes


class Objective(nn.Module):
    """A model together with the loss that trains it (Section 5.4).

    They are one module because the loss computes the output layer too, and
    DistributedDataParallel only follows what happens inside the module it wraps.

    Args:
        model: The `Transformer` to train, or any model with its `hidden` and its
            `decoder.embedding`.
        smoothing: ε of the label smoothing.
    """

    def __init__(
        self, model: nn.Module, smoothing: float, precision: Precision = "fp32"
    ) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.precision = precision

    def forward(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        tgt_input: Int[Tensor, "batch steps"],
        labels: Int[Tensor, "batch steps"],
        real: Int[Tensor, " tokens"],
        scale: Float[Tensor, ""] | None = None,
    ) -> LossSums:
        """Return the sums over the batch's real target tokens.

        Args:
            labels: The token that should follow each one that the decoder reads.
            real: Where labels are no padding.
            scale: Factor that the caller multiplies the loss by.
        """
        with autocast(self.precision, src_ids.device):
            hidden = self.model.hidden(src_ids, tgt_input)
            return self.loss(hidden, labels, real, scale)

    def loss(
        self,
        hidden: Float[Tensor, "batch steps d_model"],
        labels: Int[Tensor, "batch steps"],
        real: Int[Tensor, " tokens"],
        scale: Float[Tensor, ""] | None = None,
    ) -> LossSums:
        """Return the sums of `forward` for the decoder's output."""
        weight = self.model.decoder.embedding.weight
        return fused_label_smoothed_loss(
            hidden, weight, labels, self.smoothing, real, scale
        )


@dataclass(frozen=True)
class LossReport:
    """The mean loss of a step or of a validation, over all processes."""

    loss: float
    """Label-smoothed cross-entropy per target token, in nats."""
    nll: float
    """Negative log-likelihood per target token, in nats."""
    tokens: int
    """Target tokens."""

    @property
    def perplexity(self) -> float:
        """exp(nll)."""
        return perplexity(self.nll)


@dataclass(frozen=True)
class StepReport(LossReport):
    """What a step measured, over all processes."""

    gradient_norm: float
    """Euclidean length of the gradient of the mean loss, before it is clipped."""

    @property
    def is_taken(self) -> bool:
        """Whether it was taken: one that is not finite would spoil every weight."""
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


def train_step(
    objective: nn.Module,
    batches: Sequence[Batch],
    optimizer: optim.Optimizer,
    seed: Sequence[int] | None = None,
    processes: Processes = ONE_CPU,
    scaler: torch.amp.GradScaler | None = None,
    clip_norm: float | None = None,
) -> StepReport:
    """Take one step, unless the loss or its gradient is not finite.

    Every target token weighs the same, in whichever batch and on whichever process
    it stands: the sum of all losses is divided by the number of all tokens.

    Args:
        objective: An `Objective`, or one wrapped for several processes.
        batches: This process's part of the step.
        optimizer: It takes the step; the gradients are cleared afterwards.
        seed: Numbers that together seed dropout, such as (seed, step), different for
            each step. Without them dropout goes on from PyTorch's current state.
        processes: This process among all.
        scaler: Keeps the gradients of fp16 within its range. Without one, as for
            every other precision, gradients are not scaled.
        clip_norm: Longest gradient to step by; a longer one keeps its direction.
    """
    device = processes.device
    scaler = scaler or torch.amp.GradScaler(device.type, enabled=False)
    share = torch.tensor(sum(batch.tokens for batch in batches), device=device)
    tokens = int(processes.all_reduce(share))
    # DistributedDataParallel takes the mean of the processes' gradients; world_size
    # turns it into the sum that is wanted here. With 17 target tokens on one process
    # and 3 on the other each scales its own sum by 2 / 20, and the mean of the two is
    # the sum over all tokens divided by 20.
    scale = torch.tensor(processes.world_size / tokens, dtype=torch.double)
    scale = scaler.scale(scale.to(device))
    sums = add_gradients(objective, batches, scale, seed, processes)
    scaler.unscale_(optimizer)
    parameters = [p for p in objective.parameters() if p.grad is not None]
    norm = nn.utils.get_total_norm(p.grad for p in parameters)
    if clip_norm is not None:
        nn.utils.clip_grads_with_norm_(parameters, clip_norm, norm)
    loss, nll = processes.all_reduce(sums).tolist()
    report = StepReport(loss / tokens, nll / tokens, tokens, float(norm))
    if report.is_taken:
        scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return report


def add_gradients(
    objective: nn.Module,
    batches: Sequence[Batch],
    scale: Float[Tensor, ""],
    seed: Sequence[int] | None = None,
    processes: Processes = ONE_CPU,
) -> Float[Tensor, "2"]:
    """Add the gradients of the scaled loss to the parameters'.

    Args:
        objective: An `Objective`, or one wrapped for several processes.
        batches: This process's part of the step.
        scale: Factor of the losses' sum.
        seed: As for `train_step`.
        processes: This process among all.

    Returns:
        The sums of loss and nll over this process's batches.
    """
    sums = torch.zeros(2, dtype=torch.float64, device=processes.device)
    for number, batch in enumerate(batch.to(processes.device) for batch in batches):
        # The batch's place in the step, not its process, decides what is dropped: any
        # number of processes takes the same step, and no random state needs saving.
        if seed is not None:
            _seed_dropout((*seed, number * processes.world_size + processes.rank))
        with _synchronized(objective, number == len(batches) - 1):
            part = objective(
                batch.src_ids, batch.tgt_input, batch.labels, batch.real, scale
            )
            (part.loss * scale).backward()
        sums += torch.stack([part.loss.detach(), part.nll])
    return sums


def _seed_dropout(seed: Sequence[int]) -> None:
    (number,) = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    torch.manual_seed(int(number) >> 1)


def _synchronized(objective: nn.Module, now: bool) -> AbstractContextManager:
    """Let processes sum their gradients at the last batch of a step only."""
    if now or not isinstance(objective, DistributedDataParallel):
        return nullcontext()
    return objective.no_sync()


SCORED_AT_ONCE = 1024
"""Positions whose logits validation holds at a time: 150 MB with 37,000 tokens."""


@torch.inference_mode()
def validate(
    model: nn.Module,
    batches: Sequence[Batch],
    smoothing: float,
    precision: Precision = "fp32",
    processes: Processes = ONE_CPU,
) -> LossReport:
    """Return the loss on batches that are not trained on, without dropout.

    Args:
        batches: All batches, the same on every process; each computes its share.
        smoothing: ε of the label smoothing.
    """
    weight = model.decoder.embedding.weight
    sums = torch.zeros(3, dtype=torch.float64, device=weight.device)
    share = batches[processes.rank :: processes.world_size]
    with evaluation_mode(model), autocast(precision, weight.device):
        for batch in (batch.to(weight.device) for batch in share):
            hidden = model.hidden(batch.src_ids, batch.tgt_input).flatten(0, 1)
            for part, labels in zip(
                hidden.split(SCORED_AT_ONCE),
                batch.labels.flatten().split(SCORED_AT_ONCE),
                strict=True,
            ):
                logits = F.linear(part, weight)
                sums += torch.stack(label_smoothed_loss(logits, labels, smoothing, PAD))
    loss, nll, tokens = processes.all_reduce(sums).tolist()
    return LossReport(loss / tokens, nll / tokens, int(tokens))


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Switch dropout off inside the block; afterwards it is as before."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def flops_per_token(
    config: ModelConfig, length: int, src_length: int | None = None
) -> float:
    """Count the floating-point operations of a step per target token (Table 2).

    PyTorch counts those of the forward pass on a pair of sentences; the backward pass
    takes twice as many.

    Args:
        config: The model.
        length: Tokens of the target.
        src_length: Tokens of the source; by default as many.
    """
    with torch.device("meta"):
        # The counter knows the products of the explicit attention on every device.
        model = Transformer(replace(config, attention="explicit"))
        tgt_ids = torch.empty(1, length, dtype=torch.long)
        src_ids = torch.empty(1, src_length or length, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(src_ids, tgt_ids)
    return 3 * counter.get_total_flops() / length
