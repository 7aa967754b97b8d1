"""Checkpoints: save everything that changes during a run, and resume from it.

A checkpoint is a file of weights, `step-00001000.safetensors`. The newest ones have a
second file, `step-00001000.training.pt`, with what else a run needs to resume. Neither
can run code when it is loaded.

Paper: §5.3, 6.1
Chapter: the_multi_gpu_trainer
Tests: tests/package/training/test_checkpoint.py
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from transformer_lite.batching import DataPosition
from transformer_lite.config import TrainConfig
from transformer_lite.optimizer import adam, noam_schedule
from transformer_lite.runs.files import (
    read_json,
    require_readable,
    sha256_of,
    write_whole,
)
from transformer_lite.runs.folder import RunFolder, step_of, training_path
from transformer_lite.runs.weights import (
    average,
    load_weights,
    remedy_of_damage,
    save_weights,
    weights_of,
)
from transformer_lite.training.distributed import ONE_CPU, Processes

RESUMABLE = 2
"""How many checkpoints keep the optimizer's state, which is twice the weights' size."""


class TrainingState:
    """The model, its optimizer, and how far a run has come.

    Dropout needs no state: its seed follows from the recipe's and the step.
    """

    def __init__(
        self, model: nn.Module, config: TrainConfig, scaler: torch.amp.GradScaler
    ) -> None:
        self.model, self.config, self.scaler = model, config, scaler
        self.optimizer = adam(model.parameters(), config.rate_scale)
        self.step = 0
        """Steps taken."""
        self.position = DataPosition()
        """The batch that the next step begins with."""
        self.best_loss = math.inf
        """Lowest validation loss so far."""
        self.skipped = 0
        """Steps whose gradients fp16 could not hold."""
        self.schedule = self._schedule()

    def _schedule(self) -> LambdaLR:
        """Return the schedule at the state's step; skipped steps do not count."""
        config, done = self.config, self.step - self.skipped
        steps = (config.warmup_steps, config.max_steps, config.cooldown_steps)
        return noam_schedule(self.optimizer, self.model.config.d_model, *steps, done)

    def save(self, folder: RunFolder, extra: bool = False) -> None:
        """Write a checkpoint, and delete those that it makes superfluous.

        An `extra` one is in no average, and unneeded where there is a regular one.
        """
        regular = folder.weights_after(self.step)
        if extra and regular.exists() and training_path(regular).exists():
            return
        path = folder.weights_after(self.step, extra)
        training = {
            "step": self.step,
            "position": tuple(self.position),
            "best_loss": self.best_loss,
            "skipped": self.skipped,
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
        }
        # The weights come last: where they are, the checkpoint is whole.
        save_training(training_path(path), training)
        save_weights(path, weights_of(self.model))
        prune(folder, path, self.config.average_checkpoints)
        known = recorded_checksums(folder) | {path.name: checksums(path)}
        kept = {path.name for path in folder.all_checkpoints()}
        text = json.dumps({name: known[name] for name in known if name in kept})
        write_whole(folder.checksums, lambda partial: partial.write_text(text))

    def resume(self, folder: RunFolder, processes: Processes = ONE_CPU) -> None:
        """Resume from the newest checkpoint, if there is one.

        A network file system may show machines different files for a while. So the
        first process chooses the checkpoint, and all compare what they have read.

        Raises:
            ValueError: The checkpoint is damaged, belongs to another model, or is not
                the same for every process.
        """
        newest = None
        with processes.all_or_none():
            if processes.rank == 0:
                newest = newest_complete(folder)
        newest = processes.gather(newest)[0]
        if newest is None:
            return
        path = folder.checkpoints / newest
        with processes.all_or_none():
            self._load(path)
            read = checksums(path)
            # A run that was killed at once has not recorded its last checkpoint.
            saved = recorded_checksums(folder).get(path.name, read)
            if processes.rank == 0 and saved != read:
                raise ValueError(
                    f"{path}: it or its .training.pt has changed since it was saved; "
                    f"{remedy_of_damage(path)}"
                )
        if any(other != read for other in processes.gather(read)):
            raise ValueError(
                f"{path}: not the same file for every process; give all machines one "
                "common folder as --out"
            )

    def _load(self, path: Path) -> None:
        training = load_training(training_path(path))
        load_weights(self.model, path)
        try:
            self.step, self.best_loss = training["step"], training["best_loss"]
            if self.step != step_of(path):
                raise ValueError("the state of another step")
            self.position = DataPosition(*training["position"])
            self.skipped = training["skipped"]
            self.optimizer.load_state_dict(training["optimizer"])
            for parameter, moments in self.optimizer.state.items():
                if moments["exp_avg"].shape != parameter.shape:  # PyTorch would crash
                    raise ValueError("the moments of another model")
            self.schedule = self._schedule()
            if training["scaler"]:  # empty where the precision was not fp16
                self.scaler.load_state_dict(training["scaler"])
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"{training_path(path)}: not the training state of this run; "
                f"{remedy_of_damage(path)}"
            ) from error

    def average(self, folder: RunFolder) -> None:
        """Write the mean of the last checkpoints, this state's among them."""
        if not folder.weights_after(self.step).exists():
            # It is an extra one, from when this was not to be the run's last step.
            self.save(folder)
        # Deviation D8: checkpoints a number of steps apart, not ten minutes, so that
        # the average does not depend on how fast the machine is.
        last = folder.step_checkpoints()[-self.config.average_checkpoints :]
        save_weights(folder.average, average(last))


def save_training(path: Path, training: dict[str, Any]) -> None:
    """Write optimizer, schedule and position; `path` never holds half a file."""
    write_whole(path, lambda partial: torch.save(training, partial))


def load_training(path: Path) -> dict[str, Any]:
    """Read what `save_training` wrote, accepting only tensors and plain values.

    Raises:
        ValueError: The file is missing, damaged, or holds anything else.
        OSError: It cannot be read.
    """
    try:
        require_readable(path)
    except FileNotFoundError:
        raise ValueError(
            f"{path}: not found, though the first process resumes from it; give all "
            "machines one common folder as --out"
        ) from None
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything
        raise ValueError(
            f"{path}: the training state is damaged, or too large for the memory; "
            f"{remedy_of_damage(path)}"
        ) from error


def prune(folder: RunFolder, newest: Path, keep: int) -> None:
    """Delete the checkpoints that a new one makes superfluous.

    These are those of later steps, which the run repeats, extra ones, and all regular
    ones but the last `keep`, at least `RESUMABLE`.
    """
    saved = folder.step_checkpoints()
    regular = [path for path in saved if step_of(path) <= step_of(newest)]
    kept = list(dict.fromkeys([*regular[-max(keep, RESUMABLE) :], newest]))
    for path in set(folder.all_checkpoints()) - set(kept):
        path.unlink()
    resumable = {training_path(path) for path in kept[-RESUMABLE:]}
    for path in set(folder.checkpoints.glob("*.training.pt")) - resumable:
        path.unlink()


def checksums(weights: Path) -> list[str]:
    """Return the SHA-256 of both files of a checkpoint."""
    return [sha256_of(file) for file in (weights, training_path(weights))]


def recorded_checksums(folder: RunFolder) -> dict[str, list[str]]:
    """Return the checksums that checkpoints had when they were saved, by name.

    Raises:
        ValueError: The record is damaged.
    """
    try:
        return read_json(folder.checksums)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(
            f"{folder.checksums}: damaged ({error}); delete it: it only says whether "
            "checkpoints have changed"
        ) from error


def newest_complete(folder: RunFolder) -> str | None:
    """Return the name of the newest checkpoint that training can resume from.

    Without one a run may begin: a new one, or one that was killed before it had saved
    more than its best weights.

    Raises:
        ValueError: The run had checkpoints, and none is left to resume from.
    """
    saved = folder.all_checkpoints()
    complete = [path for path in saved if training_path(path).exists()]
    if complete:
        return complete[-1].name
    had_checkpoints = folder.checksums.exists()
    weights = {*folder.checkpoints.glob("*.safetensors")}
    if weights - {folder.best} or (weights and had_checkpoints):
        raise ValueError(
            f"{folder.checkpoints}: has weights, but no step-….training.pt to resume "
            "from; train on from these weights in another --out, with --begin-with "
            f"{folder.path}"
        )
    if had_checkpoints:
        raise ValueError(
            f"{folder.checkpoints}: none of the checkpoints is left that "
            f"{folder.checksums.name} names; bring them back, or give another --out"
        )
    return None
