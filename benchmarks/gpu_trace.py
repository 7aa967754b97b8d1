"""Where the time of a training step goes on a GPU: a table of kernels, a picture."""

import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import torch
from gpu_speed import Part, ours
from gpu_workload import Setup, random_batches
from torch.profiler import ProfilerActivity, profile

from transformer_lite.config import ModelConfig
from transformer_lite.model import Transformer

KINDS = {
    "attention": r"flash|fmha|attention|sdpa",
    "matrix products": r"gemm|nvjet|cutlass|splitk|::mm|::bmm|addmm",
    "softmax": r"softmax",
    "normalization": r"norm",
    "optimizer": r"adam|multi_tensor|foreach",
    "dropout": r"dropout|bernoulli|philox",
    "copies": r"memcpy|memset|copy|fill|cat|index|gather|scatter",
    "everything else": r"",
}
"""What a kernel does, by the first pattern that its name has."""


def kind_of(kernel: str) -> str:
    """Return what a kernel does, as far as its name tells."""
    return next(k for k, part in KINDS.items() if re.search(part, kernel.lower()))


def trace_of_a_step(setup: Setup) -> Iterator[Part]:
    """Trace a step of each model, and draw it."""
    for name, config in setup.models.items():
        picture = setup.out / f"step_{name}.png"
        yield name, partial(measure_step, setup, config, picture)


def measure_step(setup: Setup, config: ModelConfig, picture: Path) -> dict:
    """Measure which kernels a step runs, for how long, and when nothing runs."""
    torch.manual_seed(1)
    batches = random_batches(setup, config)
    step = ours(setup, Transformer(config).to(setup.device), compiled=False)
    for batch in batches:
        step(batch)
    setup.wait()
    on_gpu = setup.device.type == "cuda"
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * on_gpu
    with profile(activities=activities) as recorded:
        start = time.perf_counter()
        step(batches[0])
        setup.wait()
        seconds = time.perf_counter() - start
    events = recorded.events()
    # An annotation lies over the kernels that it names, such as the optimizer's.
    on_device = [e for e in events if "CUDA" in str(e.device_type)]
    kernels = [e for e in on_device if not e.is_user_annotation]
    kernels = kernels or [e for e in events if not e.cpu_children]
    took, calls = Counter(), Counter()
    for kernel in kernels:
        took[kernel.name] += kernel.time_range.elapsed_us() / 1e6
        calls[kernel.name] += 1
    kinds = Counter()
    for name, busy in took.items():
        kinds[kind_of(name)] += busy
    with suppress(ModuleNotFoundError):  # the table is worth more than the picture
        draw(kernels, picture)
    return {
        "target_tokens": batches[0].tokens,
        "seconds": seconds,
        # The profiler slows the host down: without it the share is larger.
        "busy_share": took.total() / seconds,
        "kernels": calls.total(),
        "seconds_by_kind": dict(kinds.most_common()),
        "largest": [
            {"name": name[:120], "kind": kind_of(name), "seconds": busy}
            | {"calls": calls[name]}
            for name, busy in took.most_common(25)
        ],
    }


def draw(kernels: Sequence, picture: Path) -> None:
    """Draw when each kind of kernel ran, a row for each, over the milliseconds."""
    import matplotlib.pyplot as plt

    begin = min(kernel.time_range.start for kernel in kernels)
    figure, ax = plt.subplots(figsize=(9, 2.6), layout="constrained")
    for row, kind in enumerate(KINDS):
        bars = [
            ((k.time_range.start - begin) / 1e3, k.time_range.elapsed_us() / 1e3)
            for k in kernels
            if kind_of(k.name) == kind
        ]
        ax.broken_barh(bars, (row - 0.4, 0.8), color="C0")
    ax.set_yticks(range(len(KINDS)), KINDS)
    ax.invert_yaxis()
    ax.set_xlabel("milliseconds")
    figure.savefig(picture, dpi=150)
    plt.close(figure)
