"""Training: a step, a run, and what a run leaves behind.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/test_trainer.py
"""

import math
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from transformer_lite import checkpoint
from transformer_lite.batching import Batch, BatchStream, Position
from transformer_lite.config import TrainConfig
from transformer_lite.distributed import Processes
from transformer_lite.interruption import stop_signals
from transformer_lite.loss import label_smoothed_loss
from transformer_lite.metrics import MetricsFile
from transformer_lite.model import Transformer
from transformer_lite.precision import autocast, choose_precision
from transformer_lite.schedule import adam, noam_schedule
from transformer_lite.tokenizer import PAD
from transformer_lite.validation import Report, evaluation_mode, validate

ONE_CPU = Processes(rank=0, world_size=1, device=torch.device("cpu"))


def train_step(
    model: nn.Module,
    batches: Sequence[Batch],
    optimizer: optim.Optimizer,
    config: TrainConfig,
    processes: Processes = ONE_CPU,
) -> Report:
    """One step of the optimizer on all batches of all processes together.

    Every target token weighs the same, in whichever batch and on whichever process
    it stands: the sum of all losses is divided by the number of all tokens.

    Args:
        model: A `Transformer`, or one wrapped for several processes.
        batches: This process's part of the step.
        optimizer: What takes the step; the gradients are cleared afterwards.
        config: Label smoothing and precision.
        processes: This process among all.
    """
    device = processes.device
    precision = choose_precision(config.precision, device)
    own_tokens = sum(int((batch.labels != PAD).sum()) for batch in batches)
    tokens = int(processes.sum(torch.tensor(own_tokens, device=device)))
    # DistributedDataParallel takes the mean of the processes' gradients; world_size
    # turns it into the sum that is wanted here.
    scale = processes.world_size / tokens
    sums = torch.zeros(2, device=device)
    for batch in (batch.to(device) for batch in batches):
        with autocast(precision, device):
            logits = model(batch.src_ids, batch.tgt_input)
        part = label_smoothed_loss(logits, batch.labels, config.label_smoothing, PAD)
        (part.loss * scale).backward()
        sums += torch.stack([part.loss.detach(), part.nll])
    loss, nll = (processes.sum(sums) / tokens).tolist()
    # A step on a loss that is not finite would spoil every weight.
    if math.isfinite(loss):
        optimizer.step()
    optimizer.zero_grad()
    return Report(loss, nll, tokens)


class Trainer:
    """A run: steps, validations and checkpoints, gone on with where it stopped.

    Args:
        model: The model to train, on the device of `processes`.
        stream: The training batches.
        validation: The validation batches.
        config: How to train.
        run: The run's folder; metrics.jsonl and checkpoints/ are written there.
        processes: This process among all.
        on_validation: Called after each validation; what it returns is recorded.
    """

    def __init__(
        self,
        model: Transformer,
        stream: BatchStream,
        validation: Sequence[Batch],
        config: TrainConfig,
        run: Path,
        processes: Processes = ONE_CPU,
        on_validation: Callable[[], dict[str, Any]] = dict,
    ) -> None:
        self.model, self.stream, self.validation = model, stream, validation
        self.config, self.processes = config, processes
        self.on_validation = on_validation
        self.metrics = MetricsFile(run / "metrics.jsonl")
        self.checkpoints = run / "checkpoints"
        self.optimizer = adam(model.parameters())
        self.schedule = noam_schedule(
            self.optimizer, model.config.d_model, config.warmup_steps, config.rate_scale
        )
        self.step = 0
        """Steps taken."""
        self.best_loss = math.inf
        """Lowest validation loss so far."""

    def train(self) -> bool:
        """Take the steps that are left; False if a signal ended the run early.

        Goes on from the newest checkpoint in the run's folder, if there is one.

        Raises:
            ValueError: A checkpoint is damaged, or belongs to another model.
            FloatingPointError: The loss is no longer a finite number.
        """
        torch.manual_seed(self.config.seed + self.processes.rank)  # for dropout
        self._resume()
        if self.step < self.config.max_steps and self.processes.rank == 0:
            # An average of an earlier end would be taken for this run's.
            (self.checkpoints / "average.safetensors").unlink(missing_ok=True)
        parallel = self._for_all_processes()
        batches = iter(self.stream)
        self.model.train()
        with stop_signals() as stop, self._progress_bar() as bar:
            while self.step < self.config.max_steps and not stop:
                self._step(parallel, next(batches), bar)
                if self._is_due(self.config.validate_every):
                    self._validate()
                if self._is_due(self.config.checkpoint_every):
                    self._save()
            if self.step < self.config.max_steps:
                self._save()
                return False
        if self.processes.rank == 0:
            self._average()
        return True

    def _step(self, model: nn.Module, batch: Batch, bar: tqdm) -> None:
        start = time.perf_counter()
        rate = self.schedule.get_last_lr()[0]
        report = train_step(model, [batch], self.optimizer, self.config, self.processes)
        self.schedule.step()
        self.step += 1
        if not math.isfinite(report.loss):
            raise FloatingPointError(
                f"step {self.step}: the loss is {report.loss} at learning rate "
                f"{rate:.2e}; begin another run with a smaller train.rate_scale or "
                "more train.warmup_steps, the checkpoints stay as they are"
            )
        speed = report.tokens / (time.perf_counter() - start)
        if self.processes.rank == 0:
            self.metrics.add(
                self.step,
                train_loss=report.loss,
                train_perplexity=report.perplexity,
                rate=rate,
                tokens=report.tokens,
                tokens_per_second=round(speed),
            )
        bar.set_postfix_str(
            f"{speed:,.0f} tokens/s, loss {report.loss:.3f}, rate {rate:.1e}",
            refresh=False,
        )
        bar.update()

    def _validate(self) -> None:
        report = validate(self.model, self.validation, self.config.label_smoothing)
        if not math.isfinite(report.loss):
            raise FloatingPointError(
                f"step {self.step}: the validation loss is {report.loss}; begin "
                "another run with a smaller train.rate_scale or more train.warmup_steps"
            )
        if self.processes.rank != 0:
            return
        with evaluation_mode(self.model):
            extra = self.on_validation()
        self.metrics.add(
            self.step,
            valid_loss=report.loss,
            valid_perplexity=report.perplexity,
            **extra,
        )
        tqdm.write(
            f"step {self.step:,}: validation loss {report.loss:.3f}, "
            f"perplexity {report.perplexity:.2f}",
            file=sys.stderr,
        )
        if report.loss < self.best_loss:
            self.best_loss = report.loss
            weights = checkpoint.weights_of(self.model)
            checkpoint.save_weights(self.checkpoints / "best.safetensors", weights)

    def _save(self) -> None:
        if self.processes.rank != 0:
            return
        path = checkpoint.step_path(self.checkpoints, self.step)
        training = {
            "step": self.step,
            "position": tuple(self.stream.position),
            "best_loss": self.best_loss,
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "random_state": torch.get_rng_state(),
        }
        # The weights come last: where they are, the checkpoint is whole.
        checkpoint.save_training(checkpoint.training_path(path), training)
        checkpoint.save_weights(path, checkpoint.weights_of(self.model))
        checkpoint.prune(
            path, self.config.checkpoint_every, self.config.average_checkpoints
        )

    def _resume(self) -> None:
        saved = checkpoint.step_checkpoints(self.checkpoints)
        complete = [p for p in saved if checkpoint.training_path(p).exists()]
        if saved and not complete:
            raise ValueError(
                f"{self.checkpoints}: its checkpoints have weights but no .training.pt "
                "to go on from; begin another run"
            )
        if complete:
            self._take_over(complete[-1])
        if self.step > self.config.max_steps:
            raise ValueError(
                f"train.max_steps = {self.config.max_steps} is less than the "
                f"{self.step} steps that this run has; give more"
            )
        if self.processes.rank == 0:
            self.metrics.forget_after(self.step)

    def _take_over(self, path: Path) -> None:
        """Be where the run was when it wrote the checkpoint at `path`."""
        training_path = checkpoint.training_path(path)
        training = checkpoint.load_training(training_path)
        checkpoint.load_weights(self.model, path)
        try:
            self.step, self.best_loss = training["step"], training["best_loss"]
            self.stream.position = Position(*training["position"])
            self.optimizer.load_state_dict(training["optimizer"])
            self.schedule.load_state_dict(training["schedule"])
            torch.set_rng_state(training["random_state"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"{training_path}: not the training state of this run; delete it and "
                "its .safetensors, the checkpoint before then takes over"
            ) from error

    def _average(self) -> None:
        """Write the mean of the last checkpoints."""
        # Deviation D8: checkpoints a number of steps apart, not ten minutes, so that
        # the average does not depend on how fast the machine is.
        last = checkpoint.step_checkpoints(self.checkpoints)
        weights = checkpoint.average(last[-self.config.average_checkpoints :])
        checkpoint.save_weights(self.checkpoints / "average.safetensors", weights)

    def _for_all_processes(self) -> nn.Module:
        if self.processes.world_size == 1:
            return self.model
        return DistributedDataParallel(self.model)

    def _is_due(self, every: int) -> bool:
        return self.step % every == 0 or self.step == self.config.max_steps

    def _progress_bar(self) -> tqdm:
        return tqdm(
            total=self.config.max_steps,
            initial=self.step,
            unit="step",
            disable=self.processes.rank != 0,
            smoothing=0.05,
        )
