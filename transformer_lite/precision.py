"""The arithmetic of the matrix products, chosen by what the hardware is good at.

Paper: §5.2
Chapter: 05_2_hardware_and_schedule
Tests: tests/test_precision.py
"""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal

import torch

CPU_INFO = Path("/proc/cpuinfo")


def choose_precision(
    requested: Literal["auto", "fp32", "bf16"],
    device: torch.device,
    cpu_info: Path = CPU_INFO,
) -> Literal["fp32", "bf16"]:
    """ "bf16" where it is asked for, or where matrix units for it are found.

    Args:
        requested: "auto" leaves the choice to the hardware.
        device: Where the model runs.
        cpu_info: Linux's description of the processor.
    """
    if requested != "auto":
        return requested
    if device.type == "cuda":
        return (
            "bf16"
            if torch.cuda.is_bf16_supported(including_emulation=False)
            else "fp32"
        )
    return "bf16" if device.type == "cpu" and _has_bf16_units(cpu_info) else "fp32"


def autocast(
    precision: Literal["fp32", "bf16"], device: torch.device
) -> AbstractContextManager:
    """Run the matrix products inside the block in this precision."""
    if precision == "fp32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)


def _has_bf16_units(cpu_info: Path) -> bool:
    """Whether the processor multiplies bf16 matrices in hardware.

    PyTorch also emulates bf16 on processors without; there it is slower than fp32.
    """
    if not cpu_info.exists():
        return False
    return bool({"amx_bf16", "avx512_bf16"} & set(cpu_info.read_text().split()))
