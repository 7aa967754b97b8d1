"""What the sections of gpu.py compute on: how large, where, and random batches."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from transformer_lite.batching import Batch, BatchStream, Sequences
from transformer_lite.config import BASE, BIG, ModelConfig
from transformer_lite.precision import choose_device
from transformer_lite.tokenizer import PAD, UNK
from transformer_lite.training.distributed import Processes


@dataclass(frozen=True)
class Setup:
    """How large everything is, and where it lies; by default as in the paper."""

    out: Path
    """The folder of what is measured."""
    carried: Path
    """The folder of prepared corpora, which travels along."""
    is_tiny: bool = False
    models: Mapping[str, ModelConfig] = field(
        default_factory=lambda: {"base": BASE, "big": BIG}
    )
    batch_tokens: int = 25_000
    pairs: int = 100_000
    batches: int = 12
    """Batches that are timed, all of them in each pass."""
    matrix: int = 8_192
    """Rows and columns of the matrices that show what the hardware can do."""
    seconds: float = 4.0
    """So long are training steps timed, at least, and everything else a tenth of it."""
    sentences: int = 1_000
    """Sentences that are searched for."""
    lengths: tuple[int, ...] = (16, 64, 256, 1_024, 4_096)
    """Tokens of a sentence, where something depends on them."""
    backend: str = "inductor"
    """What compiles."""

    @property
    def device(self) -> torch.device:
        """The GPU; a trial also takes a CPU."""
        return choose_device()

    @property
    def processes(self) -> Processes:
        """This process alone."""
        return Processes(rank=0, world_size=1, device=self.device)

    def wait(self) -> None:
        """Wait until the device has done what it was told."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds_of(self, act: Callable[[], object]) -> float:
        """Return the seconds that one of several calls takes, after a first one."""
        act()
        self.wait()
        count, start = 0, time.perf_counter()
        while not count or time.perf_counter() - start < self.seconds / 10:
            act()
            count += 1
            self.wait()
        return (time.perf_counter() - start) / count

    def allocated(self) -> int:
        """Return the bytes that tensors on the GPU take now; without a GPU 0."""
        return torch.cuda.memory_allocated()

    def peak(self) -> int:
        """Return the most bytes that they took since the last call of this."""
        if self.device.type != "cuda":
            return 0
        most = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return most


def tiny_setup(out: Path, carried: Path) -> Setup:
    """Return hardly anything, for a trial on whatever there is."""
    shape = {"vocab_size": 101, "num_layers": 1, "d_model": 16, "d_ff": 32}
    return Setup(
        out,
        carried,
        is_tiny=True,
        models={"base": replace(BASE, **shape, num_heads=2)},
        batch_tokens=500,
        pairs=60,
        batches=2,
        matrix=64,
        seconds=0.0,
        sentences=5,
        lengths=(4, 8),
        backend="eager",
    )


def lengths_like_wmt14(pairs: int, seed: int) -> np.ndarray:
    """Draw the tokens of both sides: mean 29, a few of 150 and more, correlated."""
    generator = np.random.default_rng(seed)
    common = generator.lognormal(np.log(24), 0.6, (pairs, 1))
    sides = common * generator.lognormal(0, 0.12, (pairs, 2))
    return sides.round().astype(int).clip(1, 200)


def random_batches(setup: Setup, config: ModelConfig) -> list[Batch]:
    """Make batches of random ids, as the trainer would."""
    generator = np.random.default_rng(1)
    low, sides = UNK + 1, []
    for lengths in lengths_like_wmt14(setup.pairs, seed=1).T:
        ids = generator.integers(low, config.vocab_size, lengths.sum(), dtype=np.int32)
        sides.append(Sequences(ids, np.cumsum([0, *lengths])))
    steps = BatchStream(*sides, setup.batch_tokens, seed=1).steps()
    return [next(steps).batches[0] for _ in range(setup.batches)]


def useful_flops(config: ModelConfig, batch: Batch) -> float:
    """Count the floating-point operations of a step that real tokens ask for.

    Multiplications and additions of matrix products, padding left out; the backward
    pass takes twice as many as the forward pass.
    """
    source = (batch.src_ids != PAD).sum(dim=1).double()
    target = (batch.labels != PAD).sum(dim=1).double()
    d, d_ff = config.d_model, config.d_ff
    # A pair of lengths s and t; one projection of a token is d² multiplications.
    encoder = source * (4 * d * d + 2 * d * d_ff) + 2 * source**2 * d
    decoder = target * (6 * d * d + 2 * d * d_ff) + source * 2 * d * d
    decoder += 2 * target**2 * d + 2 * target * source * d
    scores = target * d * config.vocab_size
    products = config.num_layers * (encoder + decoder) + scores
    return 3 * 2 * products.sum().item()
