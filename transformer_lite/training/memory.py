"""The memory that a step needs, part by part, from the shape of the model.

What each module keeps for the backward pass is counted. Left out is what is small
beside it: for each token two numbers of each LayerNorm and one of each head; masks.

Paper: §5.1–5.2
Chapter: the_multi_gpu_trainer
Tests: tests/package/training/test_memory.py
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from transformer_lite.config import ModelConfig
from transformer_lite.loss import SLICE_ELEMENTS
from transformer_lite.model import Transformer
from transformer_lite.precision import Precision


class StepMemory(NamedTuple):
    """The bytes of a step on one device, by what they hold."""

    weights: int
    gradients: int
    moments: int
    """Adam's two, for each weight."""
    activations: int
    """What the forward pass keeps for the backward pass, of one batch."""
    logits: int
    """What the loss holds beside them, of one slice of the logits."""

    def __str__(self) -> str:
        parts = ", ".join(f"{n} {b / 1e6:,.1f}" for n, b in self._asdict().items())
        return f"{parts}, together {sum(self) / 1e6:,.1f}"


def step_memory(
    model: nn.Module,
    tokens: int,
    precision: Precision = "fp32",
    device: str = "cpu",
) -> StepMemory | None:
    """Return the memory of a step at its peak; CUDA's kernels may keep more.

    It is the sum of all parts from a step's second batch on, when there are gradients.

    None comes back if the model is no `Transformer`, or not one whose attention is
    PyTorch's fused kernel, which takes keys and values of equal width only. Others keep
    the scores, so that the memory depends on how long sentences are.

    Args:
        model: Where it lies does not matter.
        tokens: Those of a batch on either side, with padding.
        device: "cpu" or "cuda".
    """
    if not isinstance(model, Transformer):
        return None
    config, parameters = model.config, model.num_parameters()
    width = config.d_model // config.num_heads
    if config.attention != "fused" or (config.d_k or width) != (config.d_v or width):
        return None
    vocab_size, table = config.vocab_size, config.vocab_size * config.d_model
    # Bytes of each number that a linear map reads and writes.
    product = 2 if precision in ("bf16", "fp16") else 4
    activations = tokens * _kept_for_a_token(config, product, device) + 4 * table
    logits = product * table  # what is added to the gradient of the output matrix
    if product == 2:  # copies of the weights, those of the output matrix for the loss
        activations += 2 * (parameters - table)
        logits += 2 * table
    # The logits of a slice and their logarithms; where another slice came before, what
    # is left of it, too. Of 16 bits the softmax makes a copy in 32.
    one, another = (10, 16) if product == 2 else (8, 12)
    slice_ = max(SLICE_ELEMENTS[device], vocab_size)
    logits += min(another * slice_, one * tokens * vocab_size)
    return StepMemory(*state_memory(model), activations, logits)


def _kept_for_a_token(config: ModelConfig, product: int, device: str) -> int:
    """Return the bytes kept for a source token and a target token together."""
    d = config.d_model
    heads = config.num_heads * (config.d_k or d // config.num_heads)

    def read(maps: int) -> int:
        """What linear maps read: one tensor, in 16 bits a copy for each map."""
        return 4 * d if product == 4 else 2 * d * maps

    def dropped(size: int) -> int:
        """What was dropped: on GPUs a byte for each entry, on CPUs a factor."""
        return d * (1 if device == "cuda" else size) if config.dropout else 0

    # Queries, keys, values and what the heads return. CPUs compute in 32 bits, and
    # round the last for the linear map that follows.
    attention = 4 * heads * (product if device == "cuda" else 4)
    if product == 2 and device == "cpu":
        attention += 2 * heads
    add_and_norm = dropped(product) + 4 * d
    feed_forward = read(1) + product * config.d_ff + add_and_norm
    encoder = read(3) + attention + add_and_norm + feed_forward
    decoder = encoder + read(1) + attention + add_and_norm
    # Every layer of the decoder reads the encoder's output. The gradient of the
    # decoder's takes the place of that output.
    memory = 4 * d if product == 4 else 4 * d * config.num_layers
    ends = 2 * dropped(4) + memory + product * d
    return config.num_layers * (encoder + decoder) + ends


def state_memory(model: nn.Module) -> tuple[int, int, int]:
    """Return the bytes of a model's weights, their gradients, and Adam's moments."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    buffers = sum(buffer.numel() for buffer in model.buffers())
    return 4 * (parameters + buffers), 4 * parameters, 8 * parameters


def memory_of(device: torch.device) -> tuple[int, int]:
    """Return the bytes of a device's memory, those that are free and all."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)
    free = there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, IndexError):  # only Linux says how much is free
        _, _, after = Path("/proc/meminfo").read_text().partition("MemAvailable:")
        free = 1024 * int(after.split()[0])
    return free, there


def require_memory(model: nn.Module, device: torch.device) -> None:
    """Check a model's weights, gradients and moments against all the memory.

    Raises:
        MemoryError: They are more.
    """
    needed, (_, there) = sum(state := state_memory(model)), memory_of(device)
    if needed > there:
        raise MemoryError(
            f"a model of {state[1] // 4:,} parameters needs {needed / 2**30:,.0f} GiB "
            f"in training, and there are {there / 2**30:,.0f}; give a smaller "
            "model.d_model, model.d_ff, model.num_layers or model.max_len"
        )
