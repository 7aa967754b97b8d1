"""One step of the optimizer on all batches of all processes, and one validation.

Paper: §5.1–5.4, 6.2
Chapter: the_multi_gpu_trainer, 06_2_model_variations
Tests: tests/training/test_step.py, tests/training/test_trainer.py
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor, nn, optim
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from transformer_lite.batching import Batch
from transformer_lite.loss import (
    LossSums,
    fused_label_smoothed_loss,
    label_smoothed_loss,
    perplexity,
)
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import PAD
from transformer_lite.training.distributed import ONE_CPU, Processes
from transformer_lite.training.hardware import Precision, autocast


class Objective(nn.Module):
    """A model together with the loss it is trained on (Section 5.4).

    They are one module because the loss computes the output layer too, and
    DistributedDataParallel only follows what happens inside the module it wraps.

    Args:
        model: The `Transformer` to train, or any model with its `hidden` and its
            `decoder.embedding`.
        smoothing: ε of the label smoothing.
    """

    def __init__(self, model: nn.Module, smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        tgt_input: Int[Tensor, "batch steps"],
        labels: Int[Tensor, "batch steps"],
    ) -> LossSums:
        """The sums over the batch's real target tokens."""
        hidden = self.model.hidden(src_ids, tgt_input)
        weight = self.model.decoder.embedding.weight
        return fused_label_smoothed_loss(hidden, weight, labels, self.smoothing, PAD)


class StepReport(NamedTuple):
    """What a step measured, over all processes."""

    loss: float
    """Label-smoothed cross-entropy per target token, in nats."""
    nll: float
    """Negative log-likelihood per target token, in nats."""
    tokens: int
    """Target tokens."""
    gradient_norm: float
    """Euclidean length of the gradient of the mean loss."""

    @property
    def is_finite(self) -> bool:
        """Whether the step was taken; on anything else it would spoil every weight."""
        return math.isfinite(self.loss) and math.isfinite(self.gradient_norm)


def train_step(
    objective: nn.Module,
    batches: Sequence[Batch],
    optimizer: optim.Optimizer,
    seed: Sequence[int] | None = None,
    processes: Processes = ONE_CPU,
    precision: Precision = "fp32",
    scaler: torch.amp.GradScaler | None = None,
) -> StepReport:
    """One step of the optimizer; not taken if the loss or its gradient is not finite.

    Every target token weighs the same, in whichever batch and on whichever process
    it stands: the sum of all losses is divided by the number of all tokens.

    Args:
        objective: An `Objective`, or one wrapped for several processes.
        batches: This process's part of the step.
        optimizer: What takes the step; the gradients are cleared afterwards.
        seed: Numbers that together seed dropout, such as (seed, step): other ones for
            each step. Without them dropout draws on from where it is.
        processes: This process among all.
        precision: Arithmetic of the matrix products.
        scaler: Keeps the gradients of fp16 within its range; other precisions need
            none.
    """
    device = processes.device
    scaler = scaler or torch.amp.GradScaler(device.type, enabled=False)
    own_tokens = sum(batch.tokens for batch in batches)
    tokens = int(processes.sum(torch.tensor(own_tokens, device=device)))
    # DistributedDataParallel takes the mean of the processes' gradients; world_size
    # turns it into the sum that is wanted here.
    scale = processes.world_size / tokens
    sums = torch.zeros(2, device=device)
    for number, batch in enumerate(batch.to(device) for batch in batches):
        # The batch's place in the step, not its process, decides what is dropped: any
        # number of processes takes the same step, and no random state needs saving.
        if seed is not None:
            _seed_dropout((*seed, number * processes.world_size + processes.rank))
        with _synchronized(objective, number == len(batches) - 1):
            with autocast(precision, device):
                part = objective(batch.src_ids, batch.tgt_input, batch.labels)
            scaler.scale(part.loss * scale).backward()
        sums += torch.stack([part.loss.detach(), part.nll])
    scaler.unscale_(optimizer)
    norm = nn.utils.get_total_norm(
        [p.grad for p in objective.parameters() if p.grad is not None]
    )
    loss, nll = (processes.sum(sums) / tokens).tolist()
    report = StepReport(loss, nll, tokens, norm.item())
    if report.is_finite:
        scaler.step(optimizer)
    if scaler.is_enabled():
        scaler.update()
    optimizer.zero_grad()
    return report


def _seed_dropout(seed: Sequence[int]) -> None:
    (number,) = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    torch.manual_seed(int(number) >> 1)


def _synchronized(objective: nn.Module, now: bool) -> AbstractContextManager:
    """Let processes add up their gradients once a step, with its last batch."""
    if now or not isinstance(objective, DistributedDataParallel):
        return nullcontext()
    return objective.no_sync()


class Report(NamedTuple):
    """What a validation measured."""

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


SCORED_AT_ONCE = 1024
"""Positions whose logits validation holds at a time: 150 MB of the paper's 37,000."""


@torch.inference_mode()
def validate(
    model: Transformer,
    batches: Sequence[Batch],
    smoothing: float,
    precision: Precision = "fp32",
    processes: Processes = ONE_CPU,
) -> Report:
    """The loss on batches that are not trained on, dropout switched off.

    Args:
        model: The model, on any device.
        batches: All batches, the same on every process; these share them out.
        smoothing: ε of the label smoothing.
        precision: Arithmetic of the matrix products.
        processes: This process among all.
    """
    weight = model.decoder.embedding.weight
    sums = torch.zeros(3, dtype=torch.float64, device=weight.device)
    own = batches[processes.rank :: processes.world_size]
    with evaluation_mode(model), autocast(precision, weight.device):
        for batch in (batch.to(weight.device) for batch in own):
            hidden = model.hidden(batch.src_ids, batch.tgt_input).flatten(0, 1)
            for part, labels in zip(
                hidden.split(SCORED_AT_ONCE),
                batch.labels.flatten().split(SCORED_AT_ONCE),
                strict=True,
            ):
                logits = F.linear(part, weight)
                sums += torch.stack(label_smoothed_loss(logits, labels, smoothing, PAD))
    loss, nll, tokens = processes.sum(sums).tolist()
    return Report(loss / tokens, nll / tokens, int(tokens))


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Switch dropout off inside the block, and back to what it was after it."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
