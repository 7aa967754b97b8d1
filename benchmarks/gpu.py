"""What a GPU makes of the package: tests, training, memory, search, a step's profile.

`make gpu` calls this. It needs no network and no data, takes less than ten minutes on a
GPU, and writes `gpu.json`, section by section, so that an early end loses little.
Without a GPU, or with `--tiny`, it runs through everything at a tiny size: a trial.
"""

import argparse
import datetime
import gc
import json
import os
import platform
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402 - only now does Python find the package
import torch  # noqa: E402
from peers import Marian, Naive, NaiveStep, marian  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from results.conditions import commit, processor, versions  # noqa: E402
from transformer_lite.batching import Batch, BatchStream, Sequences, pad  # noqa: E402
from transformer_lite.config import BASE, BIG, ModelConfig  # noqa: E402
from transformer_lite.model import Transformer  # noqa: E402
from transformer_lite.optimizer import adam  # noqa: E402
from transformer_lite.precision import autocast  # noqa: E402
from transformer_lite.search import beam_search  # noqa: E402
from transformer_lite.tokenizer import BOS, EOS, PAD, UNK  # noqa: E402
from transformer_lite.training.distributed import Processes  # noqa: E402
from transformer_lite.training.step import Objective, train_step  # noqa: E402

Step = Callable[[Batch], object]
PACKAGES = "torch triton numpy transformers".split()
CODE = ("transformer_lite", "benchmarks/*.py")


@dataclass(frozen=True)
class Size:
    """How large everything is."""

    device: torch.device
    models: dict[str, ModelConfig]
    batch_tokens: int
    pairs: int
    batches: int
    """Batches that are timed, all of them in each pass."""
    matrix: int
    """Rows and columns of the matrices that show what the hardware can do."""
    seconds: float
    """So long is each system timed, at least."""
    sentences: int
    """Sentences that are searched for."""
    backend: str
    """What compiles."""

    @property
    def processes(self) -> Processes:
        """This process alone."""
        return Processes(rank=0, world_size=1, device=self.device)

    def wait(self) -> None:
        """Wait until the device has done what it was told."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def full_size() -> Size:
    """Return the paper's models and batches, on a GPU."""
    models = {"base": BASE, "big": BIG}
    gpu = torch.device("cuda", 0)
    return Size(gpu, models, 25_000, 100_000, 12, 8_192, 6.0, 1_000, "inductor")


def tiny_size() -> Size:
    """Return hardly anything, for a trial on whatever there is."""
    shape = {"vocab_size": 101, "num_layers": 1, "d_model": 16, "d_ff": 32}
    tiny = replace(BASE, **shape, num_heads=2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return Size(device, {"base": tiny}, 500, 60, 2, 64, 0.0, 5, "eager")


# What is trained on


def lengths_like_wmt14(pairs: int, seed: int) -> np.ndarray:
    """Draw the tokens of both sides: mean 29, a few of 150 and more, correlated."""
    generator = np.random.default_rng(seed)
    common = generator.lognormal(np.log(24), 0.6, (pairs, 1))
    sides = common * generator.lognormal(0, 0.12, (pairs, 2))
    return sides.round().astype(int).clip(1, 200)


def random_batches(size: Size, config: ModelConfig) -> list[Batch]:
    """Make batches of random ids, as the trainer would."""
    generator = np.random.default_rng(1)
    low, sides = UNK + 1, []
    for lengths in lengths_like_wmt14(size.pairs, seed=1).T:
        ids = generator.integers(low, config.vocab_size, lengths.sum(), dtype=np.int32)
        sides.append(Sequences(ids, np.cumsum([0, *lengths])))
    steps = BatchStream(*sides, size.batch_tokens, seed=1).steps()
    return [next(steps).batches[0] for _ in range(size.batches)]


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


# What takes the steps


def ours(size: Size, model: Transformer, compiled: bool) -> Step:
    """Return our step, as the trainer takes it."""
    if compiled:
        for layer in [*model.encoder.layers, *model.decoder.layers]:
            layer.compile(dynamic=True, backend=size.backend)
    objective = Objective(model, 0.1, "bf16")
    optimizer = adam(model.parameters(), 1e-4)
    return lambda batch: train_step(
        objective, [batch], optimizer, seed=(1, 1), processes=size.processes
    )


def peer(size: Size, model: nn.Module, loss: Callable[[Batch], Tensor]) -> Step:
    """Return a peer's step: its loss in bf16, a fused Adam, no clipping."""
    optimizer = torch.optim.Adam(model.parameters(), 1e-4, fused=True)

    def step(batch: Batch) -> None:
        batch = batch.to(size.device)
        with autocast("bf16", size.device):
            mean = loss(batch)
        mean.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def nn_transformer(size: Size, model: Transformer) -> Step:
    """Take the steps of `torch.nn.Transformer`, used as a tutorial would."""
    naive = Naive(model).to(size.device)
    return peer(size, naive, NaiveStep(naive).loss)


def hugging_face_marian(size: Size, model: Transformer) -> Step:
    """Take the steps of Hugging Face's Marian of the same shape."""
    theirs = marian(model.cpu(), "sdpa").to(size.device).train()
    return peer(size, theirs, Marian(theirs).loss)


SYSTEMS = {
    "ours": partial(ours, compiled=False),
    "ours, compiled": partial(ours, compiled=True),
    "torch.nn.Transformer": nn_transformer,
    "Marian": hugging_face_marian,
}


# The sections


def run_tests(size: Size) -> dict:
    """Run all tests that want a GPU."""
    del size
    marked = [
        str(path)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "mark.gpu" in path.read_text(encoding="utf-8")
    ]
    # Types are checked, and warnings are errors, in the package's own environment.
    options = ["-o", "addopts=", "-W", "default", "-p", "no:cacheprovider", "-q"]
    command = [sys.executable, "-m", "pytest", "-m", "gpu", *options, *marked]
    inherited = [path for path in [os.environ.get("PYTHONPATH")] if path]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *inherited])},
        timeout=240,
    )
    lines = ended.stdout.splitlines()
    return {
        "files": [Path(path).relative_to(ROOT).as_posix() for path in marked],
        "exit_code": ended.returncode,
        "summary": lines[-1] if lines else ended.stderr[-500:],
        "failed": [line for line in lines if line.startswith(("FAILED", "ERROR"))],
        "end": ended.stdout[-6_000:] if ended.returncode else "",
    }


def timed(size: Size, act: Callable[[], object]) -> float:
    """Return the seconds that one of many calls takes."""
    act()
    size.wait()
    count, start = 0, time.perf_counter()
    while not count or time.perf_counter() - start < size.seconds / 4:
        for _ in range(10):
            act()
        count += 10
        size.wait()
    return (time.perf_counter() - start) / count


def measure_peaks(size: Size) -> dict:
    """Measure a large product in bf16, and a large copy: what the hardware gives."""
    generator = torch.Generator(size.device).manual_seed(1)
    square = (size.matrix, size.matrix)
    one, two = (
        torch.randn(square, generator=generator, device=size.device).bfloat16()
        for _ in range(2)
    )
    source = torch.randn(8 * size.matrix**2, device=size.device)
    copy = torch.empty_like(source)
    product = timed(size, lambda: torch.mm(one, two))
    copying = timed(size, lambda: copy.copy_(source))
    return {
        "matrix": size.matrix,
        "bf16_tflops": 2 * size.matrix**3 / product / 1e12,
        "copy_gb_per_second_read_and_written": 2 * 4 * len(source) / copying / 1e9,
    }


def measure_training(
    size: Size, config: ModelConfig, system: Callable, peak: float
) -> dict:
    """Measure one system's tokens a second, share of the peak, and memory."""
    torch.manual_seed(1)
    batches = random_batches(size, config)
    if size.device.type == "cuda":
        gc.collect()  # what is left of the system before
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    step = system(size, Transformer(config).to(size.device))
    begun = time.perf_counter()
    for batch in batches:  # compiles, chooses kernels, fills the allocator
        step(batch)
    size.wait()
    first_pass = time.perf_counter() - begun
    passes, start = 0, time.perf_counter()
    while not passes or time.perf_counter() - start < size.seconds:
        for batch in batches:
            step(batch)
        passes += 1
        size.wait()
    seconds = (time.perf_counter() - start) / passes
    flops = sum(useful_flops(config, batch) for batch in batches) / seconds
    return {
        "target_tokens_per_second": sum(batch.tokens for batch in batches) / seconds,
        "tflops": flops / 1e12,
        "share_of_measured_peak": flops / 1e12 / peak,
        "milliseconds_per_step": 1e3 * seconds / len(batches),
        "target_tokens_per_step": sum(b.tokens for b in batches) / len(batches),
        "padding": float(np.mean([batch.padding for batch in batches])),
        "first_pass_seconds": first_pass,
        "passes": passes,
        "memory_gib": (
            torch.cuda.max_memory_allocated() / 2**30
            if size.device.type == "cuda"
            else None
        ),
    }


@torch.inference_mode()
def measure_search(size: Size, config: ModelConfig, precision: str) -> dict:
    """Measure sentences a second of beam 4, with weights that nothing has trained.

    Such a model hardly ever ends by itself. Each output is as long as its source may
    make it: as many tokens.
    """
    torch.manual_seed(1)
    model = Transformer(config).to(size.device).eval()
    generator = np.random.default_rng(2)
    low = UNK + 1
    lengths = np.sort(lengths_like_wmt14(size.sentences, seed=2)[:, 0])
    sources = [generator.integers(low, config.vocab_size, n).tolist() for n in lengths]

    def search() -> int:
        tokens = 0
        for first in range(0, len(sources), 128):
            rows = [[*ids, EOS] for ids in sources[first : first + 128]]
            limits = torch.tensor([len(ids) for ids in rows], device=size.device)
            with autocast(precision, size.device):
                state = model.start(pad(rows).to(size.device))
                found = beam_search(
                    model.decoder.step, state, limits, BOS, EOS, beam_size=4, alpha=0.6
                )
            tokens += sum(len(output.ids) for output in found)
        return tokens

    search()
    size.wait()
    start = time.perf_counter()
    tokens = search()
    seconds = time.perf_counter() - start
    return {
        "sentences": len(sources),
        "sentences_per_second": len(sources) / seconds,
        "output_tokens_per_second": tokens / seconds,
        "output_tokens_per_sentence": tokens / len(sources),
        "batch_sentences": 128,
    }


def measure_profile(size: Size, config: ModelConfig, compiled: bool) -> dict:
    """Measure where the time of three steps goes, on the device and on the host."""
    torch.manual_seed(1)
    batches = random_batches(size, config)[:3]
    on_gpu = size.device.type == "cuda"
    step = ours(size, Transformer(config).to(size.device), compiled)
    for batch in batches * 2:
        step(batch)
    size.wait()
    activities = [torch.profiler.ProfilerActivity.CPU]
    activities += [torch.profiler.ProfilerActivity.CUDA] * on_gpu
    with torch.profiler.profile(activities=activities) as profile:
        start = time.perf_counter()
        for batch in batches:
            step(batch)
        launched = time.perf_counter() - start
        size.wait()
        seconds = time.perf_counter() - start
    rows = profile.key_averages()

    def device_time(row: object) -> float:
        return row.self_device_time_total if on_gpu else row.self_cpu_time_total

    kernels = [row for row in rows if "CUDA" in str(row.device_type)] or list(rows)
    kernels = sorted(kernels, key=device_time, reverse=True)
    busy = sum(map(device_time, kernels)) / 1e6
    waits = [
        row
        for row in rows
        if "Synchronize" in row.key or "_local_scalar_dense" in row.key
    ]
    return {
        "steps": len(batches),
        "seconds": seconds,
        "seconds_until_all_is_launched": launched,
        # The profiler slows the host down: without it the share is larger.
        "busy_share": busy / seconds,
        "kernels_launched": sum(row.count for row in kernels),
        "largest": [
            {
                "name": row.key[:120],
                "share_of_busy": device_time(row) / 1e6 / busy,
                "calls": row.count,
            }
            for row in kernels[:25]
        ],
        "host_waits": {
            row.key: {"calls": row.count, "milliseconds": row.cpu_time_total / 1e3}
            for row in waits
        },
    }


def sections(size: Size) -> Iterator[tuple[str, Callable[[dict], dict]]]:
    """Yield the names of all parts, each with what makes it of the results so far."""
    yield "peaks", lambda _: measure_peaks(size)
    yield "tests", lambda _: run_tests(size)
    for name, config in size.models.items():
        for system, make in SYSTEMS.items():

            def train(found: dict, config: ModelConfig = config, make=make) -> dict:
                peak = found["peaks"]["bf16_tflops"]
                return measure_training(size, config, make, peak)

            yield f"training {name}, {system}", train
    for name, config in size.models.items():
        for compiled in (False, True):
            measure = partial(measure_profile, size, config, compiled)
            words = "compiled" if compiled else "not compiled"
            yield f"profile {name}, {words}", lambda _, measure=measure: measure()
    for name, config in size.models.items():
        for precision in ("fp32", "bf16"):
            search = partial(measure_search, size, config, precision)
            yield f"beam 4 {name}, {precision}", lambda _, search=search: search()


def described(size: Size) -> dict:
    """Say when, on what and of what the results are."""
    on_gpu = size.device.type == "cuda"
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": os.environ.get("COMMIT") or commit(CODE),
        "processor": processor(),
        "device": torch.cuda.get_device_name(0) if on_gpu else "cpu",
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "versions": versions(PACKAGES),
        "batch_tokens": size.batch_tokens,
        "data": "random ids, lengths like WMT 2014's",
    }


def main() -> None:
    """Measure one section after the other, and write each at once."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tiny", action="store_true", help="a trial at a tiny size")
    parser.add_argument("--out", type=Path, default=HERE / "gpu.json")
    parser.add_argument("--only", default="", help="sections that begin with this")
    arguments = parser.parse_args()
    tiny = arguments.tiny or not torch.cuda.is_available()
    size = tiny_size() if tiny else full_size()
    results = {"conditions": described(size)}
    wanted = ("peaks", arguments.only)
    for name, measure in sections(size):
        if not name.startswith(wanted):
            continue
        start = time.perf_counter()
        try:
            found = measure(results)
        except ModuleNotFoundError as error:
            found = {"left_out": str(error)}
        except Exception as error:  # one part's failure leaves the others
            found = {"error": f"{type(error).__name__}: {error}"[:2_000]}
            traceback.print_exc()
        results[name] = found | {"took_seconds": round(time.perf_counter() - start, 1)}
        arguments.out.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
        short = {n: v for n, v in found.items() if not isinstance(v, dict | list)}
        print(name, json.dumps(short), flush=True)


if __name__ == "__main__":
    main()
