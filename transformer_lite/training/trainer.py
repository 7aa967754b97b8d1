"""Training: steps, validations and checkpoints, resumed where it stopped.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/training/test_trainer.py
"""

import math
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from transformer_lite.batching import Batch, BatchStream, StepBatches, prefetch
from transformer_lite.config import TrainConfig
from transformer_lite.layers import DecoderLayer, EncoderLayer
from transformer_lite.loss import perplexity
from transformer_lite.training import checkpoint
from transformer_lite.training.checkpoint import TrainingState
from transformer_lite.training.distributed import ONE_CPU, Processes
from transformer_lite.training.folder import RunFolder
from transformer_lite.training.hardware import choose_precision, matrix_products
from transformer_lite.training.metrics import Metrics
from transformer_lite.training.step import (
    Objective,
    StepReport,
    evaluation_mode,
    train_step,
    use_causal_kernels,
    validate,
)


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Collect the signals that ask the run to end, which otherwise would end it."""
    received: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield received
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


OnValidation = Callable[[], dict[str, Any]]
"""Called after each validation; what it returns is recorded with it."""

STEPS_TO_JUDGE_BY = 20
"""After so many steps the run says how long it will take."""
SMALLEST_SCALE = 2.0**-10
"""Where the scale of fp16's gradients is below this, the weights are spoiled."""
MUCH_WORSE = 0.1
"""An average whose loss, in nats, is higher than the best by more is spoken of."""
BATCHES_AHEAD = 4
"""So many steps' batches are made before they are needed."""


class TakenStep(NamedTuple):
    """A step whose report has not been read yet."""

    number: int
    report: StepReport
    batches: Sequence[Batch]
    rate: float
    waited: float
    """Seconds spent waiting for the batches."""


class Trainer:
    """A run: steps, validations and checkpoints, resumed where it stopped.

    Args:
        model: The `Transformer` to train, or what has its interface, on the device of
            `processes`.
        stream: The training batches.
        validation: The validation batches.
        config: How to train.
        run: The run's folder; metrics and checkpoints/ are written there.
        processes: This process among all.
        on_validation: Called after each validation; what it returns is recorded.
    """

    def __init__(
        self,
        model: nn.Module,
        stream: BatchStream,
        validation: Sequence[Batch],
        config: TrainConfig,
        run: Path,
        processes: Processes = ONE_CPU,
        on_validation: OnValidation = dict,
    ) -> None:
        self.model, self.stream, self.validation = model, stream, validation
        self.config, self.processes = config, processes
        self.on_validation = on_validation
        self.metrics = Metrics(run)
        self.folder = RunFolder(run)
        self.precision = choose_precision(config.precision, processes.device)
        scaler = torch.amp.GradScaler(
            processes.device.type, enabled=self.precision == "fp16"
        )
        self.state = TrainingState(model, config, scaler)
        self._bar = tqdm(disable=True)
        self._last_save = time.monotonic()
        self._unread: deque[TakenStep] = deque()
        self._read_at = time.perf_counter()
        # A GPU has its next step before a report is read, so as not to idle: asked to
        # stop in step 7, it reads so when it has step 8, and stops after that.
        self._may_be_unread = 1 if processes.device.type == "cuda" else 0
        self._stop_after = math.inf

    def train(self) -> bool:
        """Take the remaining steps; return False if a signal ended the run early.

        The run resumes from the newest checkpoint in its folder, if there is one.

        Raises:
            ValueError: A checkpoint is damaged, or belongs to another model.
            FloatingPointError: The loss is no longer a finite number.
        """
        self.state.resume(self.folder, self.processes)
        if self.processes.rank == 0:
            self.metrics.forget_after(self.state.step)
            if self.state.step:
                tqdm.write(f"resuming after step {self.state.step:,}", file=sys.stderr)
            if self.state.step < self.config.max_steps:
                # An average of an earlier end would be taken for this run's.
                self.folder.average.unlink(missing_ok=True)
        objective = self._objective()
        steps = prefetch(self._batches(), BATCHES_AHEAD)
        self.model.train()
        self._last_save = time.monotonic()
        with (
            stop_signals() as stop,
            matrix_products(self.precision),
            self.metrics,
            self._progress_bar() as self._bar,
        ):
            first, begun = self.state.step, time.perf_counter()
            while self.state.step < self.config.max_steps:
                if self.state.step == first + STEPS_TO_JUDGE_BY:
                    self._expect(time.perf_counter() - begun)
                # All processes stop after the same step.
                if self.state.step >= self._stop_after:
                    # torchrun ends all as soon as one has left.
                    with self.processes.all_or_none():
                        self._save(stopped=True)
                    return False
                self._step(objective, *next(steps), stop)
                if self._is_due(self.config.validate_every):
                    self._validate()
                if self._checkpoint_is_due():
                    self._save()
            self._read_reports()
        with self.processes.all_or_none():
            if self.processes.rank == 0:
                self.state.average(self.folder)
                self._judge_average()
        return True

    def _judge_average(self) -> None:
        """Say so where the average is much worse than the best: a short run's is."""
        checkpoint.load_weights(self.model, self.folder.average)
        loss = validate(
            self.model, self.validation, self.config.label_smoothing, self.precision
        ).loss
        last = self.folder.weights_after(self.state.step)
        checkpoint.load_weights(self.model, last)
        if loss > self.state.best_loss + MUCH_WORSE:
            tqdm.write(
                "note: the average of the last checkpoints has the validation loss "
                f"{loss:.3f}, the best checkpoint {self.state.best_loss:.3f}; "
                f"translate and evaluate with --weights {self.folder.best}",
                file=sys.stderr,
            )

    def _expect(self, seconds: float) -> None:
        """Say how long the rest will take; validations come on top."""
        left = self.config.max_steps - self.state.step
        if self.processes.rank == 0:
            expected = timedelta(seconds=round(left * seconds / STEPS_TO_JUDGE_BY))
            tqdm.write(f"expected   {expected} for {left:,} steps", file=sys.stderr)

    def _batches(self) -> Iterator[StepBatches]:
        steps = self.stream.steps(self.state.position)
        on_gpu = self.processes.device.type == "cuda"
        return (step.pinned() for step in steps) if on_gpu else steps

    def _step(
        self,
        objective: nn.Module,
        step: StepBatches,
        waited: float,
        stop: Sequence[int],
    ) -> None:
        if not self._unread:
            self._read_at = time.perf_counter() - waited
        rate = self.state.schedule.get_last_lr()[0]
        report = train_step(
            objective,
            step.batches,
            self.state.optimizer,
            (self.config.seed, self.state.step),
            self.processes,
            self.state.scaler,
            step.tokens,
            stop,
        )
        self.state.schedule.step()
        self.state.step += 1
        self.state.position = step.position
        taken = TakenStep(self.state.step, report, step.batches, rate, waited)
        self._unread.append(taken)
        self._read_reports(but=self._may_be_unread)
        self._bar.update()

    def _read_reports(self, but: int = 0) -> None:
        """Record all steps that are not recorded yet, but for so many of the newest."""
        while len(self._unread) > but:
            self._record(self._unread.popleft())

    def _record(self, taken: TakenStep) -> None:
        report = taken.report
        if report.asked_to_stop:
            # The same step for all, even if one reads early, to save by its own clock.
            last = taken.number + self._may_be_unread
            self._stop_after = min(self._stop_after, last)
        if not report.is_finite:
            self._skip(taken)
        now = time.perf_counter()
        seconds, self._read_at = now - self._read_at, now
        speed = report.tokens / seconds
        if self.processes.rank == 0:
            batches = taken.batches
            self.metrics.add(
                taken.number,
                train_loss=report.loss,
                train_perplexity=perplexity(report.nll),
                rate=taken.rate,
                gradient_norm=report.gradient_norm,
                tokens=report.tokens,
                tokens_per_second=round(speed),
                padding=sum(batch.padding for batch in batches) / len(batches),
                loader_wait=taken.waited / seconds,
                memory_gib=_memory_in_use(self.processes.device),
                skipped_steps=self.state.skipped,
            )
        self._bar.set_postfix_str(
            f"{speed:,.0f} tokens/s, train_loss {report.loss:.3f}, "
            f"rate {taken.rate:.1e}",
            refresh=False,
        )

    def _skip(self, taken: TakenStep) -> None:
        """Count a step that was not taken, or end the run where that is no accident.

        Too large a gradient is part of fp16: the scaler then halves its scale.
        """
        if (
            self.state.scaler.is_enabled()
            and self.state.scaler.get_scale() >= SMALLEST_SCALE
        ):
            self.state.skipped += 1
            return
        pairs = ", ".join(str(n + 1) for batch in taken.batches for n in batch.pairs)
        raise FloatingPointError(
            f"step {taken.number}: the loss is {taken.report.loss} and the gradient's "
            f"norm {taken.report.gradient_norm} at learning rate {taken.rate:.2e}, on "
            f"the training pairs {pairs}; begin another run with a smaller "
            "train.rate_scale or more train.warmup_steps, the checkpoints stay as they "
            "are"
        )

    def _validate(self) -> None:
        self._read_reports()
        report = validate(
            self.model,
            self.validation,
            self.config.label_smoothing,
            self.precision,
            self.processes,
        )
        if not math.isfinite(report.loss):
            raise FloatingPointError(
                f"step {self.state.step}: the validation loss is {report.loss}; begin "
                "another run with a smaller train.rate_scale or more train.warmup_steps"
            )
        if self.processes.rank != 0:
            return
        with evaluation_mode(self.model):
            extra = self.on_validation()
        self.metrics.add(
            self.state.step,
            valid_loss=report.loss,
            valid_perplexity=report.perplexity,
            **extra,
        )
        tqdm.write(
            f"step {self.state.step:,}: validation loss {report.loss:.3f} "
            f"(label-smoothed), perplexity {report.perplexity:.2f}",
            file=sys.stderr,
        )
        if report.loss < self.state.best_loss:
            self.state.best_loss = report.loss
            weights = checkpoint.weights_of(self.model)
            checkpoint.save_weights(self.folder.best, weights)

    def _save(self, stopped: bool = False) -> None:
        self._read_reports()
        self.metrics.write()
        self._last_save = time.monotonic()
        if self.processes.rank == 0:
            self.state.save(self.folder, stopped)

    def _objective(self) -> nn.Module:
        """The model with its loss, for all processes and compiled if that is asked."""
        if self.processes.device.type == "cuda":
            use_causal_kernels(self.model)
        if self.config.compile:
            # Layer by layer: all layers of a kind share one compilation, and while the
            # first layers still compute, the last ones' gradients are sent already.
            for part in self.model.modules():
                if isinstance(part, (EncoderLayer, DecoderLayer)):
                    part.compile(dynamic=True)
        objective = Objective(self.model, self.config.label_smoothing, self.precision)
        if self.processes.world_size == 1:
            return objective
        # The gradients live in the buckets that are sent: nothing is copied there.
        return DistributedDataParallel(objective, gradient_as_bucket_view=True)

    def _is_due(self, every: int) -> bool:
        return self.state.step % every == 0 or self.state.step == self.config.max_steps

    def _checkpoint_is_due(self) -> bool:
        minutes = self.config.checkpoint_minutes
        if minutes is None or self.state.step == self.config.max_steps:
            return self._is_due(self.config.checkpoint_every)
        return time.monotonic() - self._last_save >= 60 * minutes

    def _progress_bar(self) -> tqdm:
        return tqdm(
            total=self.config.max_steps,
            initial=self.state.step,
            unit="step",
            disable=self.processes.rank != 0,
            smoothing=0.05,
        )


def _memory_in_use(device: torch.device) -> float:
    """Memory in GiB: the most that a GPU has held, or what the process holds now."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    return psutil.Process().memory_info().rss / 2**30
