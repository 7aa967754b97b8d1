"""The device and the precision to compute with.

Paper: §5.2
Chapter: 05_2_hardware_and_schedule
Tests: tests/package/test_precision.py
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal

import torch

Precision = Literal["fp32", "tf32", "bf16", "fp16"]

PEAK_TFLOPS = {
    "NVIDIA H200": 989,
    "NVIDIA H100 80GB HBM3": 989,
    "NVIDIA H100 PCIe": 756,
    "NVIDIA A100-SXM4-80GB": 312,
    "NVIDIA A100-SXM4-40GB": 312,
    "NVIDIA L4": 121,
    "Tesla T4": 65,
}
"""10^12 operations a second in 16 bits, dense, from the manufacturer's data sheets."""

CPU_INFO = Path("/proc/cpuinfo")


def choose_precision(
    requested: Literal["auto", "fp32", "tf32", "bf16", "fp16"],
    device: torch.device,
    cpu_info: Path = CPU_INFO,
) -> Precision:
    """Return the requested precision, or for "auto" the processor's fastest.

    "auto" means 16 bits where the processor has matrix units for them, else fp32.

    Args:
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
def tf32_if_chosen(precision: Precision) -> Iterator[None]:
    """Let GPUs multiply fp32 matrices in tf32 inside the block, if that is chosen."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def memory_error_on_full_gpu(message: str) -> Iterator[None]:
    """Raise a MemoryError with this message where the GPU's memory is full."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(f"{message} ({str(error).splitlines()[0]})") from error


def peak_tflops(precision: Precision, device: torch.device) -> float | None:
    """Return the most 10^12 operations a second of a device, None if not known."""
    share = {"bf16": 1.0, "fp16": 1.0, "tf32": 0.5}.get(precision)
    if device.type != "cuda" or share is None:
        return None
    peak = PEAK_TFLOPS.get(torch.cuda.get_device_name(device))
    return peak and share * peak


def choose_device(requested: torch.device | str | None = None) -> torch.device:
    """Return the requested device, by default a GPU if there is one.

    Raises:
        ValueError: There is no such device, or Apple's GPU is requested. It has no
            float64, in which the search and the loss add up.
    """
    gpus = torch.cuda.device_count()
    try:
        device = torch.device(requested or ("cuda" if gpus else "cpu"))
    except RuntimeError:
        raise ValueError(f"device = {requested}: unknown; use cpu or cuda") from None
    if device.type == "cuda" and (device.index or 0) >= gpus:
        raise ValueError(
            f"device = {requested}: PyTorch finds {gpus or 'no'} GPU; use cpu, or a "
            "GPU that is there"
        )
    if device.type == "mps":
        raise ValueError(
            "device = mps: Apple's GPUs have no float64, which the search needs; "
            "use cpu"
        )
    return device


def _has_bf16_units(cpu_info: Path) -> bool:
    """Return whether the processor has Intel's AMX, matrix units for bf16.

    Without it bf16 can be slower than fp32. On a Xeon with AVX512-BF16 but no AMX, the
    recipe multi30k_de trains on 0.6 times as many tokens a second.
    """
    return cpu_info.exists() and "amx_bf16" in cpu_info.read_text().split()
