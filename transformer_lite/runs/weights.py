"""Weights in files: saved, loaded, averaged over checkpoints, and rounded to 8 bits.

The files are safetensors, which cannot run code when they are loaded. Training saves
the numbers as they are. The models that come with the package are saved in 8 bits.

Paper: §6.1
Chapter: 06_1_machine_translation, the_multi_gpu_trainer
Tests: tests/package/runs/test_weights.py
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int8
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from transformer_lite.runs.files import require_readable, write_whole

Weights = dict[str, Tensor]
SCALES = ".scales"
"""Ends the name under which a file has the scales of a matrix in 8 bits."""
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""Numbers that weights may have, besides those of 8 bits with scales."""


class Quantized(NamedTuple):
    """A matrix in numbers of 8 bits: row i is `numbers[i] * scales[i]`."""

    numbers: Int8[Tensor, "rows columns"]
    scales: Float[Tensor, " rows"]


def quantize(matrix: Float[Tensor, "rows columns"]) -> Quantized:
    """Round each row to 255 evenly spaced numbers, the largest of which is exact."""
    largest = matrix.abs().amax(dim=1).clamp(min=1e-12)  # also of a row of zeros
    scales = largest / 127
    return Quantized((matrix / scales[:, None]).round().to(torch.int8), scales)


def in_8_bits(weights: Weights) -> Weights:
    """Return the tensors of a file of a quarter of the size, for `save_weights`.

    Matrices are rounded by row, and vectors stay float32. `read_weights` returns the
    rounded weights under the names that they have here.
    """
    stored = {}
    for name, tensor in weights.items():
        stored[name] = tensor.float()
        if tensor.dim() == 2:
            stored[name], stored[name + SCALES] = quantize(stored[name])
    return stored


def weights_of(model: nn.Module) -> Weights:
    """Return the model's parameters by name, the shared matrix once."""
    return {name: tensor.detach() for name, tensor in model.named_parameters()}


def save_weights(path: Path, weights: Weights) -> None:
    """Write weights; `path` never holds half a file."""
    contiguous = {name: tensor.contiguous() for name, tensor in weights.items()}
    write_whole(path, lambda partial: save_file(contiguous, partial))


def load_weights(model: nn.Module, path: Path) -> None:
    """Put the weights at `path` into the model.

    Raises:
        ValueError: The file is damaged, or belongs to a model of another shape.
    """
    weights, own = read_weights(path), weights_of(model)
    theirs, ours = _shapes(weights), _shapes(own)
    for name in theirs | ours:
        if theirs.get(name) != ours.get(name):
            raise ValueError(
                f"{path}: {name} is {theirs.get(name, 'missing')} in the file and "
                f"{ours.get(name, 'missing')} in the model; take the config.json and "
                "the checkpoints of one and the same run"
            )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(weights[name])


def read_weights(path: Path) -> Weights:
    """Read the weights at `path`, by name; those of 8 bits as float32.

    Raises:
        ValueError: The file is missing or damaged.
        OSError: It cannot be read.
    """
    try:
        require_readable(path)
    except FileNotFoundError:
        raise ValueError(
            f"{path}: no such checkpoint; check the path, or, if the run is still "
            "training and has deleted it, repeat the command"
        ) from None
    try:
        return _in_floats(load_file(path))
    except (SafetensorError, ValueError) as error:
        raise ValueError(
            f"{path}: the checkpoint is damaged ({error}); {remedy_of_damage(path)}"
        ) from error


def remedy_of_damage(path: Path) -> str:
    """Return what to do about a damaged file of a checkpoint."""
    name = path.name.split(".")[0]
    if path.parent.name != "checkpoints":
        return "name a .safetensors file of a run's checkpoints"
    kind = "step-" if name.startswith("step-") else ""  # training resumes from these
    if all(p.match(f"{name}.*") for p in path.parent.glob(f"{kind}*.safetensors")):
        return "no other takes its place; train again, in another --out"
    return f"delete {name}.*, and another checkpoint takes its place"


def average(paths: Sequence[Path]) -> Weights:
    """Return the mean of several checkpoints' weights (Section 6.1).

    Sums are in float64, and one file is in memory at a time.

    Raises:
        ValueError: A file is damaged, the files belong to different models, or there
            are none.
    """
    if not paths:
        raise ValueError("no checkpoints to average; train to a checkpoint first")
    total = {name: tensor.double() for name, tensor in read_weights(paths[0]).items()}
    for path in paths[1:]:
        weights = read_weights(path)
        if _shapes(weights) != _shapes(total):
            raise ValueError(
                f"{path}: has other shapes than {paths[0]}; average checkpoints of "
                "one run"
            )
        for name, tensor in weights.items():
            total[name] += tensor
    return {name: (tensor / len(paths)).float() for name, tensor in total.items()}


def _in_floats(stored: Weights) -> Weights:
    """Multiply each matrix of 8 bits with its scales, which the result is without."""
    weights = dict(stored)
    for name in [name for name, t in stored.items() if t.dtype == torch.int8]:
        numbers, scales = stored[name], weights.pop(name + SCALES, None)
        if scales is None or numbers.dim() != 2 or scales.shape != numbers.shape[:1]:
            raise ValueError(f"{name} has 8 bits and no scale for each row")
        if scales.dtype not in FLOATS or not (scales > 0).all():
            raise ValueError(f"{name}{SCALES} has a scale that is no number above 0")
        weights[name] = numbers * scales[:, None]
        if not weights[name].isfinite().all():
            raise ValueError(f"{name}{SCALES} has a scale that is too large")
    for name, tensor in weights.items():
        if name.endswith(SCALES):
            raise ValueError(f"{name} are the scales of no matrix of 8 bits")
        if tensor.dtype not in FLOATS:
            raise ValueError(f"{name} is of {tensor.dtype}; weights are floats")
        if not tensor.isfinite().all():
            raise ValueError(f"{name} has values that are not finite")
    return weights


def _shapes(weights: Weights) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in weights.items()}
