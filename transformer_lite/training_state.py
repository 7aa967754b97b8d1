"""All that changes during a run, and how it is saved and taken up again.

Paper: §5.3, 6.1
Chapter: the_multi_gpu_trainer
Tests: tests/test_trainer.py
"""

import math
from pathlib import Path
from typing import Any

import torch

from transformer_lite import checkpoint
from transformer_lite.batching import Position
from transformer_lite.config import TrainConfig
from transformer_lite.model import Transformer
from transformer_lite.schedule import adam, noam_schedule


class TrainingState:
    """The model, its optimizer, and how far a run has come.

    Dropout needs no state: its seed follows from the recipe's and the step.

    Args:
        model: The model to train.
        config: How to train.
        scaler: The scaler of fp16's gradients.
    """

    def __init__(
        self, model: Transformer, config: TrainConfig, scaler: torch.amp.GradScaler
    ) -> None:
        self.model, self.config, self.scaler = model, config, scaler
        self.optimizer = adam(model.parameters())
        self.schedule = noam_schedule(
            self.optimizer, model.config.d_model, config.warmup_steps, config.rate_scale
        )
        self.step = 0
        """Steps taken."""
        self.position = Position()
        """The batch that the next step begins with."""
        self.best_loss = math.inf
        """Lowest validation loss so far."""
        self.skipped = 0
        """Steps whose gradients fp16 could not hold."""

    def save(self, folder: Path) -> None:
        """Write a checkpoint, and delete those that are no longer needed."""
        path = checkpoint.step_path(folder, self.step)
        training = {
            "step": self.step,
            "position": tuple(self.position),
            "best_loss": self.best_loss,
            "skipped": self.skipped,
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
        }
        # The weights come last: where they are, the checkpoint is whole.
        checkpoint.save_training(checkpoint.training_path(path), training)
        checkpoint.save_weights(path, checkpoint.weights_of(self.model))
        by_time = self.config.checkpoint_minutes is not None
        every = 1 if by_time else self.config.checkpoint_every
        checkpoint.prune(path, every, self.config.average_checkpoints)

    def resume(self, folder: Path) -> None:
        """Be where the run was at its newest checkpoint, if there is one.

        Raises:
            ValueError: The checkpoint is damaged, belongs to another model, or has
                more steps than are wanted.
        """
        saved = checkpoint.step_checkpoints(folder)
        complete = [p for p in saved if checkpoint.training_path(p).exists()]
        if saved and not complete:
            raise ValueError(
                f"{folder}: its checkpoints have weights but no .training.pt "
                "to go on from; begin another run"
            )
        if complete:
            path = checkpoint.training_path(complete[-1])
            training = checkpoint.load_training(path)
            checkpoint.load_weights(self.model, complete[-1])
            self._take_over(training, path)
        if self.step > self.config.max_steps:
            raise ValueError(
                f"train.max_steps = {self.config.max_steps} is less than the "
                f"{self.step} steps that this run has; give more"
            )

    def _take_over(self, training: dict[str, Any], path: Path) -> None:
        try:
            self.step, self.best_loss = training["step"], training["best_loss"]
            self.position = Position(*training["position"])
            self.skipped = training["skipped"]
            self.optimizer.load_state_dict(training["optimizer"])
            self.schedule.load_state_dict(training["schedule"])
            self.scaler.load_state_dict(training["scaler"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"{path}: not the training state of this run; delete it and "
                "its .safetensors, the checkpoint before then takes over"
            ) from error

    def average(self, folder: Path) -> None:
        """Write the mean of the last checkpoints."""
        # Deviation D8: checkpoints a number of steps apart, not ten minutes, so that
        # the average does not depend on how fast the machine is.
        last = checkpoint.step_checkpoints(folder)
        weights = checkpoint.average(last[-self.config.average_checkpoints :])
        checkpoint.save_weights(folder / "average.safetensors", weights)
