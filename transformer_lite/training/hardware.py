"""What the machine is good at: the arithmetic it is given, the memory it keeps.

Paper: §5.2
Chapter: 05_2_hardware_and_schedule
Tests: tests/training/test_hardware.py
"""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal

import torch

Precision = Literal["fp32", "tf32", "bf16", "fp16"]

CPU_INFO = Path("/proc/cpuinfo")


def choose_precision(
    requested: Literal["auto", "fp32", "tf32", "bf16", "fp16"],
    device: torch.device,
    cpu_info: Path = CPU_INFO,
) -> Precision:
    """What is asked for, or half precision where matrix units for it are found.

    Args:
        requested: "auto" leaves the choice to the hardware.
        device: Where the model runs.
        cpu_info: Linux's description of the processor.
    """
    if requested != "auto":
        return requested
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return "bf16"
        # From Volta on, Colab's T4 for one, there are matrix units for fp16.
        return "fp16" if torch.cuda.get_device_capability(device) >= (7, 0) else "fp32"
    return "bf16" if device.type == "cpu" and _has_bf16_units(cpu_info) else "fp32"


@contextmanager
def autocast(precision: Precision, device: torch.device) -> Iterator[None]:
    """Run the forward pass inside the block in this precision."""
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    with torch.autocast(device.type, dtype=half) if half else nullcontext():
        yield


@contextmanager
def matrix_products(precision: Precision) -> Iterator[None]:
    """Let GPUs multiply fp32 matrices in tf32 inside the block, if that is chosen."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _has_bf16_units(cpu_info: Path) -> bool:
    """Whether the processor has units that multiply bf16 matrices: Intel's AMX.

    Elsewhere bf16 can be slower than fp32: in training the recipe multi30k_de it makes
    0.6 times as many tokens a second on a Xeon with AVX512-BF16 and without AMX.
    """
    return cpu_info.exists() and "amx_bf16" in cpu_info.read_text().split()


# Parameters of mallopt(3), as malloc.h numbers them.
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, from now on.

    Every step frees tensors of many megabytes and asks for as many again. glibc gives
    them back to the system in between, which then has to clear each page anew: in the
    best passes of `benchmarks/README.md` 6 % of our time in training on CPUs, and up to
    a fifth of others'. Systems without glibc are left as they are.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)  # large blocks, too, come from the heap
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)  # and the heap does not shrink
