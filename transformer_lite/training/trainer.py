"""Training: steps, validations and checkpoints, resumed where it stopped.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/training/test_trainer.py
"""

import math
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from transformer_lite.batching import Batch, BatchStream, StepBatches
from transformer_lite.config import TrainConfig
from transformer_lite.layers import DecoderLayer, EncoderLayer
from transformer_lite.loss import perplexity
from transformer_lite.precision import choose_precision, matrix_products
from transformer_lite.run_folder import RunFolder
from transformer_lite.training.checkpoint import TrainingState
from transformer_lite.training.distributed import ONE_CPU, Processes
from transformer_lite.training.metrics import Metrics
from transformer_lite.training.step import (
    Objective,
    StepReport,
    evaluation_mode,
    train_step,
    validate,
)
from transformer_lite.weights import save_weights, weights_of

OnValidation = Callable[[], dict[str, Any]]
"""Called after each validation; what it returns is recorded with it."""

SMALLEST_SCALE = 2.0**-10
"""Where the scale of fp16's gradients is below this, the weights are spoiled."""


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Collect the signals that ask the run to end, SIGINT (Ctrl-C) and SIGTERM.

    The first is announced. A second one, at least a second later, ends the process at
    once, even where it hangs. (torchrun passes Ctrl-C on, so that it comes twice within
    a moment.)
    """
    received: list[int] = []
    # Python runs handlers between two lines of code, so never while a collective hangs.
    # But it writes a signal's number at once to a file that a thread can read.
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def watch() -> None:
        first = math.inf
        while reader.recv(1):
            now = time.monotonic()
            if now > first + 1:
                print("ended at once, without a checkpoint", file=sys.stderr)
                sys.stderr.flush()
                os._exit(130)  # what shells report of a program that Ctrl-C ended
            if first == math.inf:
                first = now
                tqdm.write(
                    "stopping after this step with a checkpoint; Ctrl-C again ends "
                    "the run at once",
                    file=sys.stderr,
                )

    handlers = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    before = signal.set_wakeup_fd(writer.fileno())
    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield received
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        writer.close()  # which ends the thread
        watcher.join()
        reader.close()


class Trainer:
    """A run: steps, validations and checkpoints, resumed where it stopped.

    Args:
        model: The `Transformer` to train, or a model with its interface, on the device
            of `processes`.
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
        self.folder = RunFolder(run)
        self.metrics = Metrics(run)
        self.precision = choose_precision(config.precision, processes.device)
        scaler = torch.amp.GradScaler(
            processes.device.type, enabled=self.precision == "fp16"
        )
        self.state = TrainingState(model, config, scaler)
        self._bar = tqdm(disable=True)
        self._last_save = time.monotonic()

    def train(self) -> bool:
        """Take the remaining steps; return False if a signal ended the run early.

        The run resumes from the newest checkpoint in its folder, if there is one.

        Raises:
            ValueError: A checkpoint is damaged, or belongs to another model.
            FloatingPointError: The loss is no longer a finite number.
        """
        self.state.resume(self.folder, self.processes)
        with self.processes.all_or_none():
            if self.processes.rank == 0:
                self._take_up()
        steps = self._steps()
        self.model.train()
        self._last_save = time.monotonic()
        with (
            stop_signals() as stop,
            matrix_products(self.precision),
            self.metrics,
            self._compiled_layers(),
            self._progress_bar() as self._bar,
        ):
            objective = self._objective()
            while self.state.step < self.config.max_steps:
                report = self._step(objective, steps, stop)
                if self._is_due(self.config.validate_every):
                    self._validate()
                if self._checkpoint_is_due():
                    self._save()
                if report.asked_to_stop and self.state.step < self.config.max_steps:
                    # torchrun ends all processes as soon as one has left.
                    with self.processes.all_or_none():
                        self._save(stopped=True)
                    return False
        with self.processes.all_or_none():
            if self.processes.rank == 0:
                self.state.average(self.folder)
        return True

    def _take_up(self) -> None:
        """Remove what belongs to steps that are about to be taken again."""
        self.metrics.forget_after(self.state.step)
        if self.state.step:
            tqdm.write(f"resuming after step {self.state.step:,}", file=sys.stderr)
        if self.state.step < self.config.max_steps:
            # An average of an earlier end would be taken for this run's.
            self.folder.average.unlink(missing_ok=True)

    def _steps(self) -> Iterator[StepBatches]:
        steps = self.stream.steps(self.state.position)
        on_gpu = self.processes.device.type == "cuda"
        return (step.pinned() for step in steps) if on_gpu else steps

    def _objective(self) -> nn.Module:
        """Join the model with its loss, for all processes."""
        objective = Objective(self.model, self.config.label_smoothing, self.precision)
        if self.processes.world_size == 1:
            return objective
        # The gradients live in the buckets that are sent: nothing is copied there.
        return DistributedDataParallel(objective, gradient_as_bucket_view=True)

    @contextmanager
    def _compiled_layers(self) -> Iterator[None]:
        """Compile the layers inside the block, if the recipe asks for it.

        Layer by layer, all layers of a kind share one compilation, and the last layers'
        gradients are sent while the first layers still compute.
        """
        layers = [
            part
            for part in self.model.modules()
            if self.config.compile and isinstance(part, (EncoderLayer, DecoderLayer))
        ]
        for layer in layers:
            layer.compile(dynamic=True)
        try:
            yield
        finally:
            for layer in layers:
                layer._compiled_call_impl = None  # the caller's model stays as it was

    def _step(
        self, objective: nn.Module, steps: Iterator[StepBatches], stop: Sequence[int]
    ) -> StepReport:
        begun = time.perf_counter()
        step = next(steps)
        waited = time.perf_counter() - begun
        rate = self.state.schedule.get_last_lr()[0]
        report = train_step(
            objective,
            step.batches,
            self.state.optimizer,
            (self.config.seed, self.state.step),
            self.processes,
            self.state.scaler,
            stop,
        )
        seconds = time.perf_counter() - begun
        self.state.step += 1
        self.state.position = step.position
        if report.is_finite:
            self.state.schedule.step()
        else:
            self._skip(report, step.batches, rate)
        speed = report.tokens / seconds
        if self.processes.rank == 0:
            self.metrics.add(
                self.state.step,
                train_loss=report.loss,
                train_perplexity=perplexity(report.nll),
                rate=rate,
                gradient_norm=report.gradient_norm,
                tokens=report.tokens,
                tokens_per_second=round(speed),
                padding=sum(batch.padding for batch in step.batches)
                / len(step.batches),
                loader_wait=waited / seconds,
                skipped_steps=self.state.skipped,
                **self._gpu_memory(),
            )
        self._bar.set_postfix_str(
            f"{speed:,.0f} tokens/s, train_loss {report.loss:.3f}, rate {rate:.1e}",
            refresh=False,
        )
        self._bar.update()
        return report

    def _skip(self, report: StepReport, batches: Sequence[Batch], rate: float) -> None:
        """Count a step that was not taken, or end the run if fp16 is not the reason.

        Gradients too large for fp16 are normal: the scaler then halves its scale.
        """
        scaler = self.state.scaler
        if scaler.is_enabled() and scaler.get_scale() >= SMALLEST_SCALE:
            self.state.skipped += 1
            return
        pairs = ", ".join(str(n + 1) for batch in batches for n in batch.pairs)
        raise FloatingPointError(
            f"step {self.state.step}: the loss is {report.loss} and the gradient's "
            f"norm {report.gradient_norm} at learning rate {rate:.2e}, on the training "
            f"pairs {pairs}; begin another run with a smaller train.rate_scale or more "
            "train.warmup_steps, the checkpoints stay as they are"
        )

    def _validate(self) -> None:
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
            save_weights(self.folder.best, weights_of(self.model))

    def _save(self, stopped: bool = False) -> None:
        self._last_save = time.monotonic()
        if self.processes.rank == 0:
            self.state.save(self.folder, stopped)

    def _is_due(self, every: int) -> bool:
        return self.state.step % every == 0 or self.state.step == self.config.max_steps

    def _checkpoint_is_due(self) -> bool:
        minutes = self.config.checkpoint_minutes
        if minutes is None or self.state.step == self.config.max_steps:
            return self._is_due(self.config.checkpoint_every)
        return time.monotonic() - self._last_save >= 60 * minutes

    def _gpu_memory(self) -> dict[str, float]:
        """Return the most memory that the GPU has held, in GiB."""
        if self.processes.device.type != "cuda":
            return {}
        held = torch.cuda.max_memory_allocated(self.processes.device)
        return {"memory_gib": held / 2**30}

    def _progress_bar(self) -> tqdm:
        return tqdm(
            total=self.config.max_steps,
            initial=self.state.step,
            unit="step",
            disable=self.processes.rank != 0,
            smoothing=0.05,
        )
