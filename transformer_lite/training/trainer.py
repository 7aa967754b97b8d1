"""Training: steps, validations and checkpoints, resumed where it stopped.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/package/training/test_trainer.py
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from transformer_lite.batching import Batch, BatchStream, StepBatches
from transformer_lite.config import TrainConfig
from transformer_lite.layers import DecoderLayer, EncoderLayer
from transformer_lite.model import Transformer
from transformer_lite.precision import choose_precision, peak_tflops, tf32_if_chosen
from transformer_lite.runs.console import Progress, stop_signals_to, tell
from transformer_lite.runs.folder import RunFolder
from transformer_lite.runs.metrics import Metrics
from transformer_lite.runs.weights import save_weights, weights_of
from transformer_lite.training.checkpoint import TrainingState
from transformer_lite.training.distributed import ONE_CPU, Processes
from transformer_lite.training.step import (
    LossReport,
    Objective,
    StepReport,
    evaluation_mode,
    flops_per_token,
    train_step,
    validate,
)

OnValidation = Callable[[], dict[str, Any]]
"""Called after each validation; its record gets the values that are returned.

An error in it is shown, and ends no run.
"""

SMALLEST_SCALE = 2.0**-10
"""Smallest scale of fp16's gradients; if they overflow even so, no scale helps."""
REMEDY = (
    "begin another run with a smaller train.rate_scale or more train.warmup_steps, the "
    "checkpoints stay as they are"
)
"""What to do when the loss is no longer a finite number."""


class StopRequest:
    """Whether a signal has asked the run to end.

    Only the first is announced: torchrun passes Ctrl-C on, so that it comes twice.
    """

    is_made = False

    def receive(self, _number: int, _frame: object) -> None:
        """Take note of a signal."""
        if not self.is_made:
            self.is_made = True
            tell(
                "stopping after this step with a checkpoint; Ctrl-\\ ends the run at "
                "once"
            )


class StepMeasures(NamedTuple):
    """What a step measured, over all processes and on this one."""

    report: StepReport
    rate: float
    """The learning rate."""
    padding: float
    """The share of padding in a batch."""
    seconds: float
    """How long the step took, with its batches."""
    seconds_loading: float
    """How long it waited for its batches."""


class Trainer:
    """A run: steps, validations and checkpoints, resumed where it stopped.

    Args:
        model: The `Transformer` to train, or a model with its interface, on the device
            of `processes`.
        run: The run's folder; metrics and checkpoints/ are written there.
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
        self._bar = Progress(disable=True)
        self._last_save = time.monotonic()

    def train(self) -> bool:
        """Take the remaining steps; return False if a signal ended the run early.

        The run resumes from the newest checkpoint in its folder, if there is one.

        Raises:
            ValueError: A checkpoint is damaged, or belongs to another model; or another
                process failed.
            FloatingPointError: The loss is no longer a finite number.
        """
        processes = self.processes
        self.state.resume(self.folder, processes)
        with processes.all_or_none():
            if processes.rank == 0:
                self._make_ready()
        steps = self.stream.steps(self.state.position)
        self.model.train()
        stop = StopRequest()
        with (
            stop_signals_to(stop.receive),
            tf32_if_chosen(self.precision),
            self.metrics,
            self._compiled_layers(),
            Progress(
                total=self.config.max_steps,
                initial=self.state.step,
                unit="step",
                disable=processes.rank != 0,
                smoothing=0.05,
            ) as self._bar,
        ):
            objective = self._objective()
            while not self._is_done:
                step = self._take(objective, steps)
                self._judge(step)
                is_due = self._is_due(self.config.validate_every)
                valid = self._validate() if is_due else None
                with processes.all_or_none():
                    if processes.rank == 0:
                        self._record(step)
                        if valid:
                            self._record_validation(valid)
                        if self._checkpoint_is_due():
                            self._last_save = time.monotonic()
                            self.state.save(self.folder)
                if not self._is_done and processes.any_rank(stop.is_made):
                    # torchrun ends all processes as soon as one has left.
                    with processes.all_or_none():
                        if processes.rank == 0:
                            self.state.save(self.folder, extra=True)
                    return False
            with processes.all_or_none():
                if processes.rank == 0:
                    self.state.average(self.folder)
        return True

    @property
    def _is_done(self) -> bool:
        return self.state.step >= self.config.max_steps

    def _make_ready(self) -> None:
        """Make the folder as it was after the state's step."""
        self.folder.checkpoints.mkdir(parents=True, exist_ok=True)
        self.metrics.forget_after(self.state.step)
        if self.state.step:
            tell(f"resuming after step {self.state.step:,}")
        if not self._is_done:
            # This average belongs to an earlier end, and `translate` would prefer it.
            self.folder.average.unlink(missing_ok=True)

    def _objective(self) -> nn.Module:
        objective = Objective(self.model, self.config.label_smoothing, self.precision)
        if self.processes.world_size == 1:
            return objective
        # The gradients live in the buckets that are sent: nothing is copied there.
        parallel = DistributedDataParallel(objective, gradient_as_bucket_view=True)
        # Tables of constants, equal everywhere. As an argument it is deprecated in
        # PyTorch 2.13, and what replaces it is missing in 2.6.
        parallel.broadcast_buffers = False
        return parallel

    @contextmanager
    def _compiled_layers(self) -> Iterator[None]:
        """Compile the layers inside the block, if the recipe asks for it.

        Layer by layer, all layers of a kind share one compilation, and the last layers'
        gradients are sent while the first layers still compute.
        """
        parts = self.model.modules() if self.config.compile else ()
        layers = [p for p in parts if isinstance(p, (EncoderLayer, DecoderLayer))]
        for layer in layers:
            layer.forward = torch.compile(layer.forward, dynamic=True)
        try:
            yield
        finally:
            for layer in layers:
                del layer.forward  # the class's own is there again

    def _take(self, objective: nn.Module, steps: Iterator[StepBatches]) -> StepMeasures:
        state, begun = self.state, time.perf_counter()
        batches, position = next(steps)
        loaded = time.perf_counter()
        rate = state.schedule.get_last_lr()[0]
        report = train_step(
            objective,
            batches,
            state.optimizer,
            (self.config.seed, state.step),
            self.processes,
            state.scaler,
            self.config.clip_norm,
        )
        ended = time.perf_counter()
        state.step, state.position = state.step + 1, position
        padding = sum(batch.padding for batch in batches) / len(batches)
        return StepMeasures(report, rate, padding, ended - begun, loaded - begun)

    def _judge(self, step: StepMeasures) -> None:
        """Advance the schedule, count the step as skipped in fp16, or end the run."""
        state, report = self.state, step.report
        if report.is_taken:
            state.schedule.step()
        elif state.scaler.is_enabled() and state.scaler.get_scale() >= SMALLEST_SCALE:
            # Gradients too large for fp16 are normal: the scaler halves its scale.
            state.skipped += 1
        else:
            raise FloatingPointError(
                f"step {state.step}: the loss is {report.loss} and the gradient's norm "
                f"{report.gradient_norm} at learning rate {step.rate:.2e}, after batch "
                f"{state.position.batches} of epoch {state.position.epoch + 1}; "
                f"{REMEDY}"
            )

    def _record(self, step: StepMeasures) -> None:
        """Write a step into the metrics, and show it in the progress bar."""
        report = step.report
        speed = round(report.tokens / step.seconds)
        self._bar.set_postfix_str(
            f"{speed:,} tokens/s, train_loss {report.loss:.3f}, rate {step.rate:.1e}",
            refresh=False,
        )
        self._bar.update()
        values = {
            "train_loss": report.loss,
            "train_perplexity": report.perplexity,
            "gradient_norm": report.gradient_norm,
            "tokens": report.tokens,
            "skipped_steps": self.state.skipped,
            "rate": step.rate,
            "tokens_per_second": speed,
            "padding": step.padding,
            "loader_wait": step.seconds_loading / step.seconds,
        }
        device = self.processes.device
        if self._flops_per_token:
            tflops = speed * self._flops_per_token / self.processes.world_size / 1e12
            values["model_tflops"] = tflops
            if peak := peak_tflops(self.precision, device):
                values["model_flops_utilization"] = tflops / peak
        if device.type == "cuda":
            values["memory_gib"] = torch.cuda.max_memory_allocated(device) / 2**30
        self.metrics.add(self.state.step, **values)

    @cached_property
    def _flops_per_token(self) -> float | None:
        """Operations of a step for a target token, in pairs of mean lengths."""
        if not isinstance(self.model, Transformer):
            return None
        src_length, length = map(round, self.stream.mean_lengths())
        return flops_per_token(self.model.config, length, src_length)

    def _validate(self) -> LossReport:
        """Return the loss on the validation batches, which all processes share."""
        smoothing = self.config.label_smoothing
        report = validate(
            self.model, self.validation, smoothing, self.precision, self.processes
        )
        if not math.isfinite(report.loss):
            raise FloatingPointError(
                f"step {self.state.step}: the validation loss is {report.loss}; "
                f"{REMEDY}"
            )
        return report

    def _record_validation(self, report: LossReport) -> None:
        """Write a validation into the metrics, show it, and save the best weights."""
        step = self.state.step
        losses = {"valid_loss": report.loss, "valid_perplexity": report.perplexity}
        self.metrics.add(step, **losses, **self._samples())
        tell(
            f"step {step:,}: validation loss {report.loss:.3f} (label-smoothed), "
            f"perplexity {report.perplexity:.2f}"
        )
        if report.loss < self.state.best_loss:
            self.state.best_loss = report.loss
            # Before the checkpoint, which knows their loss: a run that is killed in
            # between takes the steps since the last checkpoint again.
            save_weights(self.folder.best, weights_of(self.model))
            if not self.folder.all_checkpoints():
                self.state.save(self.folder, extra=True)  # or they would stand alone

    def _samples(self) -> dict[str, Any]:
        """Return what the callback has to record, nothing after an error."""
        try:
            with evaluation_mode(self.model):
                return self.on_validation()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}".splitlines()[0]
            tell(f"no samples at this validation ({problem})")
            return {}

    def _is_due(self, every: int) -> bool:
        return self._is_done or self.state.step % every == 0

    def _checkpoint_is_due(self) -> bool:
        minutes = self.config.checkpoint_minutes
        if minutes is None or self._is_done:
            return self._is_due(self.config.checkpoint_every)
        return time.monotonic() - self._last_save >= 60 * minutes
