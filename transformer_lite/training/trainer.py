"""Training: steps, validations and checkpoints, resumed where it stopped.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/package/training/test_trainer.py
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
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from transformer_lite.batching import Batch, BatchStream, StepBatches
from transformer_lite.config import TrainConfig
from transformer_lite.layers import DecoderLayer, EncoderLayer
from transformer_lite.precision import choose_precision, matrix_products
from transformer_lite.runs.folder import Metrics, RunFolder
from transformer_lite.runs.weights import save_weights, weights_of
from transformer_lite.training.checkpoint import TrainingState
from transformer_lite.training.distributed import ONE_CPU, Processes
from transformer_lite.training.step import (
    Objective,
    evaluation_mode,
    train_step,
    validate,
)

OnValidation = Callable[[], dict[str, Any]]
"""Called after each validation; its record gets the values that are returned."""

SMALLEST_SCALE = 2.0**-10
"""Smallest scale of fp16's gradients; if they overflow even so, no scale helps."""
REMEDY = (
    "begin another run with a smaller train.rate_scale or more train.warmup_steps, the "
    "checkpoints stay as they are"
)
"""What to do when the loss is no longer a finite number."""


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Collect the signals that ask the run to end, SIGINT (Ctrl-C) and SIGTERM.

    The first is announced. A second one, at least a second later, ends the process at
    once, even where it hangs. (torchrun passes Ctrl-C on, so that it comes twice within
    a moment.) After an error in a run of several processes SIGTERM is ignored.
    """
    received: list[int] = []
    # Python runs handlers between two lines of code, so never while a collective hangs.
    # But it writes a signal's number at once to a file that a thread can read.
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def watch() -> None:
        first = None
        while number := reader.recv(1):  # empty once the writer is closed
            if number[0] not in handlers:
                continue
            if first is None:
                first = time.monotonic()
                tqdm.write(
                    "stopping after this step with a checkpoint; Ctrl-C again ends the "
                    "run at once",
                    file=sys.stderr,
                )
            elif time.monotonic() > first + 1:
                print(
                    "ended at once, without a checkpoint", file=sys.stderr, flush=True
                )
                os._exit(130)  # what shells report of a program that Ctrl-C ended

    handlers = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    before = signal.set_wakeup_fd(writer.fileno())
    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield received
    except RuntimeError:
        if dist.is_initialized():
            # If another process is lost, torchrun ends this one; let it report first.
            handlers[signal.SIGTERM] = signal.SIG_IGN
        raise
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
        on_validation: Called after each validation; returns values to record.
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
        self.folder, self.metrics = RunFolder(run), Metrics(run)
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
                self._forget_later_steps()
        steps = self.stream.steps(self.state.position)
        if self._is_on_gpu:
            steps = (step.pinned() for step in steps)
        self.model.train()
        with (
            stop_signals() as received,
            matrix_products(self.precision),
            self.metrics,
            self._compiled_layers(),
            tqdm(
                total=self.config.max_steps,
                initial=self.state.step,
                unit="step",
                disable=self.processes.rank != 0,
                smoothing=0.05,
            ) as self._bar,
        ):
            objective = self._objective()
            while not self._is_done:
                self._step(objective, steps)
                if self._is_due(self.config.validate_every):
                    self._validate()
                if self._checkpoint_is_due():
                    self._save()
                if not self._is_done and self.processes.any(bool(received)):
                    # torchrun ends all processes as soon as one has left.
                    with self.processes.all_or_none():
                        self._save(stopped=True)
                    return False
        with self.processes.all_or_none():
            if self.processes.rank == 0:
                self.state.average(self.folder)
        return True

    @property
    def _is_done(self) -> bool:
        return self.state.step >= self.config.max_steps

    @property
    def _is_on_gpu(self) -> bool:
        return self.processes.device.type == "cuda"

    def _forget_later_steps(self) -> None:
        """Remove what belongs to steps that are about to be taken again."""
        self.metrics.forget_after(self.state.step)
        if self.state.step:
            tqdm.write(f"resuming after step {self.state.step:,}", file=sys.stderr)
        if not self._is_done:
            # This average belongs to an earlier end, and `translate` would prefer it.
            self.folder.average.unlink(missing_ok=True)

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
                layer._compiled_call_impl = None  # the caller's model is as before

    def _step(self, objective: nn.Module, steps: Iterator[StepBatches]) -> None:
        """Take the next step and record it, or count it as skipped in fp16.

        Raises:
            FloatingPointError: The loss or the gradient is not finite, and a smaller
                scale of fp16's gradients is no remedy.
        """
        state = self.state
        begun = time.perf_counter()
        batches, position = next(steps)
        waited = time.perf_counter() - begun
        rate = state.schedule.get_last_lr()[0]
        seed = (self.config.seed, state.step)
        report = train_step(
            objective, batches, state.optimizer, seed, self.processes, state.scaler
        )
        seconds = time.perf_counter() - begun
        state.step += 1
        state.position = position
        if report.is_finite:
            state.schedule.step()
        elif state.scaler.is_enabled() and state.scaler.get_scale() >= SMALLEST_SCALE:
            # Gradients too large for fp16 are normal: the scaler halves its scale.
            state.skipped += 1
        else:
            raise FloatingPointError(
                f"step {state.step}: the loss is {report.loss} and the gradient's norm "
                f"{report.gradient_norm} at learning rate {rate:.2e}, after batch "
                f"{position.batch} of epoch {position.epoch + 1}; {REMEDY}"
            )
        speed = report.tokens / seconds
        self._bar.set_postfix_str(
            f"{speed:,.0f} tokens/s, train_loss {report.loss:.3f}, rate {rate:.1e}",
            refresh=False,
        )
        self._bar.update()
        if self.processes.rank == 0:
            values = {
                "train_loss": report.loss,
                "train_perplexity": report.perplexity,
                "rate": rate,
                "gradient_norm": report.gradient_norm,
                "tokens": report.tokens,
                "tokens_per_second": round(speed),
                "padding": sum(batch.padding for batch in batches) / len(batches),
                "loader_wait": waited / seconds,
                "skipped_steps": state.skipped,
            }
            if self._is_on_gpu:
                most = torch.cuda.max_memory_allocated(self.processes.device)
                values["memory_gib"] = most / 2**30
            self.metrics.add(state.step, **values)

    def _validate(self) -> None:
        step, smoothing = self.state.step, self.config.label_smoothing
        report = validate(
            self.model, self.validation, smoothing, self.precision, self.processes
        )
        if not math.isfinite(report.loss):
            raise FloatingPointError(
                f"step {step}: the validation loss is {report.loss}; {REMEDY}"
            )
        if self.processes.rank != 0:
            return
        with evaluation_mode(self.model):
            extra = self.on_validation()
        losses = {"valid_loss": report.loss, "valid_perplexity": report.perplexity}
        self.metrics.add(step, **losses, **extra)
        tqdm.write(
            f"step {step:,}: validation loss {report.loss:.3f} (label-smoothed), "
            f"perplexity {report.perplexity:.2f}",
            file=sys.stderr,
        )
        if report.loss < self.state.best_loss:
            self.state.best_loss = report.loss
            save_weights(self.folder.best, weights_of(self.model))

    def _is_due(self, every: int) -> bool:
        return self._is_done or self.state.step % every == 0

    def _checkpoint_is_due(self) -> bool:
        minutes = self.config.checkpoint_minutes
        if minutes is None or self._is_done:
            return self._is_due(self.config.checkpoint_every)
        return time.monotonic() - self._last_save >= 60 * minutes

    def _save(self, stopped: bool = False) -> None:
        self._last_save = time.monotonic()
        if self.processes.rank == 0:
            self.state.save(self.folder, stopped)
