"""One step of the optimizer on all batches of all processes, and one validation.

Paper: §5.1–5.4, 6.2
Chapter: the_multi_gpu_trainer, 06_2_model_variations
Tests: tests/training/test_step.py, tests/training/test_trainer.py
"""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn, optim
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from transformer_lite.attention import fused_attention
from transformer_lite.batching import Batch
from transformer_lite.layers import DecoderLayer
from transformer_lite.loss import (
    LossSums,
    fused_label_smoothed_loss,
    label_smoothed_loss,
    perplexity,
)
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
        precision: Arithmetic of the matrix products.
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
        """The sums over the batch's real target tokens.

        Args:
            src_ids: Source tokens.
            tgt_input: What the decoder reads.
            labels: What it should say.
            real: Where labels are no padding.
            scale: What the caller multiplies the loss by.
        """
        with autocast(self.precision, src_ids.device):
            hidden = self.model.hidden(src_ids, tgt_input)
            weight = self.model.decoder.embedding.weight
            return fused_label_smoothed_loss(
                hidden, weight, labels, self.smoothing, real, scale
            )


def causal_attention(
    query: Float[Tensor, "*batch q_len d_k"],
    key: Float[Tensor, "*batch k_len d_k"],
    value: Float[Tensor, "*batch k_len d_v"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"],
) -> Float[Tensor, "*batch q_len d_v"]:
    """`fused_attention` where the mask is known to be the causal one: in training.

    GPUs' fastest kernels take no mask, but make the causal one by themselves. Whoever
    asks for no gradient, a search for one, may have another mask, and gets that.
    """
    if not query.requires_grad:
        return fused_attention(query, key, value, mask)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def use_causal_kernels(model: nn.Module) -> None:
    """Train the decoder's self-attention by `causal_attention`; results are equal."""
    for part in model.modules():
        if isinstance(part, DecoderLayer):
            attention = part.self_attention
            if attention.attention is fused_attention:
                attention.attention = causal_attention


class StepReport:
    """What a step measured, over all processes.

    A GPU may still be at work on the step. The numbers are on their way to the host,
    which waits for them only when one is read.

    Args:
        measured: Loss, negative log-likelihood, norm of the gradient, and how many
            processes were asked to stop.
        tokens: Target tokens.
    """

    def __init__(self, measured: Float[Tensor, "4"], tokens: int) -> None:
        self.tokens = tokens
        """Target tokens."""
        self._measured = measured.to("cpu", non_blocking=True)
        self._arrived = torch.cuda.Event() if measured.is_cuda else None
        if self._arrived:
            self._arrived.record()

    @cached_property
    def _values(self) -> list[float]:
        if self._arrived:
            self._arrived.synchronize()
        return self._measured.tolist()

    @property
    def loss(self) -> float:
        """Label-smoothed cross-entropy per target token, in nats."""
        return self._values[0]

    @property
    def nll(self) -> float:
        """Negative log-likelihood per target token, in nats."""
        return self._values[1]

    @property
    def gradient_norm(self) -> float:
        """Euclidean length of the gradient of the mean loss."""
        return self._values[2]

    @property
    def asked_to_stop(self) -> bool:
        """Whether any process was, before the end of the step."""
        return self._values[3] > 0

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
    scaler: torch.amp.GradScaler | None = None,
    tokens: int | None = None,
    stop: Collection = (),
) -> StepReport:
    """Take one step, unless the loss or its gradient is not finite.

    Every target token weighs the same, in whichever batch and on whichever process
    it stands: the sum of all losses is divided by the number of all tokens.

    A GPU is told what to do and never asked for a result; even whether the step is to
    be taken it decides by itself. Only what is read of the report is waited for.

    Args:
        objective: An `Objective`, or one wrapped for several processes.
        batches: This process's part of the step.
        optimizer: A fused one, which can be told on the device to do nothing. It takes
            the step; the gradients are cleared afterwards.
        seed: Numbers that together seed dropout, such as (seed, step): other ones for
            each step. Without them dropout draws on from where it is.
        processes: This process among all.
        scaler: Keeps the gradients of fp16 within its range; other precisions need
            none.
        tokens: Target tokens of all processes' batches; by default they are counted.
        stop: What has asked this process to stop, if anything. It is looked at last,
            and all processes learn of it together with the loss.

    Raises:
        ValueError: The optimizer is not a fused one.
    """
    # The attribute by which PyTorch's GradScaler, too, recognizes such an optimizer.
    if not getattr(optimizer, "_step_supports_amp_scaling", False):
        name = type(optimizer).__name__
        raise ValueError(f"optimizer is an unfused {name}; make it with fused=True")
    device = processes.device
    scaler = scaler or torch.amp.GradScaler(device.type, enabled=False)
    if tokens is None:
        own = sum(batch.tokens for batch in batches)
        tokens = int(processes.sum(torch.tensor(own, device=device)))
    # DistributedDataParallel takes the mean of the processes' gradients; world_size
    # turns it into the sum that is wanted here. With 17 target tokens on one process
    # and 3 on the other each scales its own sum by 2 / 20, and the mean of the two is
    # the sum over all tokens divided by 20.
    scale = scaler.scale(
        torch.full((), processes.world_size / tokens, dtype=torch.double, device=device)
    )
    sums = _add_gradients(objective, batches, seed, processes, scale)
    scaler.unscale_(optimizer)
    norm = nn.utils.get_total_norm(
        [p.grad for p in objective.parameters() if p.grad is not None]
    )
    asked = torch.full((1,), float(bool(stop)), device=device)
    loss, nll, asked = processes.sum(torch.cat([sums, asked])).unbind()
    measured = torch.stack([loss / tokens, nll / tokens, norm.float(), asked])
    # What a fused optimizer finds here keeps it from acting; an enabled scaler has its
    # own finding, and puts that in the place of this one.
    optimizer.found_inf = (~measured.isfinite().all()).float()
    scaler.step(optimizer)
    vars(optimizer).pop("found_inf", None)
    if scaler.is_enabled():
        scaler.update()
    optimizer.zero_grad()
    return StepReport(measured, tokens)


def _add_gradients(
    objective: nn.Module,
    batches: Sequence[Batch],
    seed: Sequence[int] | None,
    processes: Processes,
    scale: Float[Tensor, ""],
) -> Float[Tensor, "2"]:
    """Leave the gradients of the scaled loss; return the sums of loss and nll."""
    sums = torch.zeros(2, device=processes.device)
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
    model: nn.Module,
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
