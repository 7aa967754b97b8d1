"""Checkpoints: written whole or not at all, and averaged.

A checkpoint is a file of weights, `step-00001000.safetensors`. The newest ones
have what training needs to go on beside them, `step-00001000.training.pt`.
Neither kind of file can run code when it is loaded.

Paper: §6.1
Chapter: 06_1_machine_translation, the_multi_gpu_trainer
Tests: tests/test_checkpoint.py
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

Weights = dict[str, Tensor]

RESUMABLE = 2
"""How many checkpoints keep the optimizer's state, three times the weights' size."""


def weights_of(model: nn.Module) -> Weights:
    """The model's parameters by name, the shared matrix once."""
    return {name: tensor.detach() for name, tensor in model.named_parameters()}


def save_weights(path: Path, weights: Weights) -> None:
    """Write weights so that `path` never holds half a file."""
    contiguous = {name: tensor.contiguous() for name, tensor in weights.items()}
    write_whole(path, lambda partial: save_file(contiguous, partial))


def load_weights(model: nn.Module, path: Path) -> None:
    """Put the weights at `path` into the model.

    Raises:
        ValueError: The file is damaged, or belongs to a model of another shape.
    """
    weights = read_weights(path)
    own = weights_of(model)
    if _shapes(weights) != _shapes(own):
        raise ValueError(
            f"{path}: these weights belong to a model of another configuration; "
            "take the config.json and the checkpoints of one and the same run"
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(weights[name])


def read_weights(path: Path) -> Weights:
    """The weights at `path`, by name.

    Raises:
        ValueError: The file is missing or damaged.
    """
    try:
        return load_file(path)
    except FileNotFoundError:
        raise ValueError(f"{path}: no such checkpoint; check the path") from None
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"{path}: the checkpoint is damaged ({error}); "
            "delete it, the one before it then takes its place"
        ) from error


def save_training(path: Path, training: dict[str, Any]) -> None:
    """Write optimizer, position and random state so that no half file is left."""
    write_whole(path, lambda partial: torch.save(training, partial))


def load_training(path: Path) -> dict[str, Any]:
    """What `save_training` wrote; only tensors and plain values are accepted.

    Raises:
        ValueError: The file is missing, damaged, or holds anything else.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything
        raise ValueError(
            f"{path}: the training state is damaged ({type(error).__name__}); "
            "delete it and its .safetensors, the checkpoint before then takes over"
        ) from error


def average(paths: Sequence[Path]) -> Weights:
    """The mean of several checkpoints' weights (Section 6.1).

    Summed in float64, one file in memory at a time.

    Raises:
        ValueError: A file is damaged, or the files belong to different models.
    """
    total: Weights = {}
    for path in paths:
        weights = read_weights(path)
        if not total:
            total = {name: tensor.double() for name, tensor in weights.items()}
        elif _shapes(weights) != _shapes(total):
            raise ValueError(f"{path}: belongs to another model than {paths[0]}")
        else:
            for name, tensor in weights.items():
                total[name] += tensor
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def _shapes(weights: Weights) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in weights.items()}


def step_path(folder: Path, step: int) -> Path:
    """Where the weights after a step lie."""
    return folder / f"step-{step:08d}.safetensors"


def training_path(weights: Path) -> Path:
    """Where the training state beside a checkpoint's weights lies."""
    return weights.with_suffix(".training.pt")


def step_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, the oldest first."""
    return sorted(folder.glob(f"step-{'[0-9]' * 8}.safetensors"))


def prune(newest: Path, every: int, keep: int) -> None:
    """Delete the checkpoints beside `newest` that are no longer needed.

    Args:
        newest: The checkpoint just written, which stays.
        every: Steps between checkpoints. One that a signal caused in between gives
            way to the next, or it would be averaged with the others.
        keep: How many stay.
    """
    saved = step_checkpoints(newest.parent)
    kept = [p for p in saved if p == newest or int(p.stem[5:]) % every == 0][-keep:]
    for path in set(saved) - set(kept):
        path.unlink()
    resumable = {training_path(path) for path in kept[-RESUMABLE:]}
    for path in set(newest.parent.glob("*.training.pt")) - resumable:
        path.unlink()


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Have `write` fill a file beside `path`, and rename it when it is whole.

    Raises:
        OSError: The disk is full or the folder may not be written to; what was at
            `path` is untouched.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    except (OSError, RuntimeError, SafetensorError) as error:
        # PyTorch and safetensors have errors of their own for a full disk.
        raise OSError(
            f"{path}: cannot be written ({error}); make room or give yourself the "
            "right to write there, and start again: the older files are untouched"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill inside the block; afterwards it is `out`, or gone if it failed.

    Raises:
        ValueError: `out` exists.
    """
    if out.exists():
        raise ValueError(f"{out}: already there; delete it or give another --out")
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
