"""Training, resuming, searching and exporting: the same on a CPU and on a GPU.

Each test runs on the CPU with the others, so that it can run when a GPU is at hand, and
on a GPU with `make gpu` or `pytest -m gpu`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from transformer_lite.batching import BatchStream, Sequences, fixed_batches, pad
from transformer_lite.config import ModelConfig, SearchConfig, TrainConfig
from transformer_lite.inference.translator import Translator
from transformer_lite.loss import fused_label_smoothed_loss, label_smoothed_loss
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam
from transformer_lite.search import beam_search, greedy_search
from transformer_lite.tokenizer import BOS, EOS, PAD, Tokenizer
from transformer_lite.training import checkpoint, trainer
from transformer_lite.training.distributed import ONE_CPU, Processes
from transformer_lite.training.folder import RunFolder
from transformer_lite.training.step import Objective, train_step, use_causal_kernels
from transformer_lite.training.trainer import Trainer

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, needs_gpu])]
PRECISIONS = ["fp32", "tf32", "bf16", "fp16"]
MODEL = ModelConfig(
    vocab_size=31,
    num_layers=2,
    d_model=16,
    d_ff=24,
    num_heads=2,
    dropout=0.0,
    max_len=29,
)


@pytest.fixture(params=DEVICES)
def processes(request):
    """One process on the CPU, and one on the first GPU."""
    return Processes(rank=0, world_size=1, device=torch.device(request.param))


def sequences(number, seed):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 11, (number,), generator=generator).tolist()
    return Sequences.from_lists(
        torch.randint(4, 31, (n,), generator=generator).tolist() for n in lengths
    )


def trainer_of(processes, run, model=MODEL, **changes):
    """A run that learns to copy."""
    options = {
        "batch_tokens": 90,
        "max_steps": 12,
        "warmup_steps": 6,
        "validate_every": 6,
        "checkpoint_every": 5,
        "average_checkpoints": 2,
        "precision": "fp32",
    }
    config = TrainConfig(**{**options, **changes})
    torch.manual_seed(config.seed)
    made = Transformer(model).to(processes.device)
    side = sequences(60, seed=3)
    stream = BatchStream(side, side, config.batch_tokens, config.seed)
    validation = fixed_batches(*[sequences(7, seed=5)] * 2, 60)
    return Trainer(made, stream, validation, config, run, processes)


def losses(run):
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [r["train_loss"] for r in records if "train_loss" in r]


@pytest.fixture(scope="module")
def on_the_cpu(tmp_path_factory):
    """The losses of twelve steps in fp32 on the CPU."""
    run = tmp_path_factory.mktemp("cpu")
    assert trainer_of(ONE_CPU, run).train()
    return losses(run)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_precision_learns_as_fp32_on_the_cpu(
    processes, precision, on_the_cpu, tmp_path
):
    assert trainer_of(processes, tmp_path, precision=precision).train()
    found = losses(tmp_path)
    assert len(found) == 12
    assert found == pytest.approx(on_the_cpu, rel=0.05)
    if precision == "fp32":
        assert found == pytest.approx(on_the_cpu, rel=1e-3)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_stopped_run_resumes_and_ends_as_one_that_was_not(
    processes, precision, tmp_path, monkeypatch
):
    model = replace(MODEL, dropout=0.2)
    options = {"model": model, "precision": precision}
    assert trainer_of(processes, tmp_path / "whole", **options).train()
    steps = count(1)

    def then_stop(*arguments):
        if next(steps) == 7:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_step(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "train_step", then_stop)
        assert not trainer_of(processes, tmp_path / "stopped", **options).train()
    assert trainer_of(processes, tmp_path / "stopped", **options).train()
    names = ("whole", "stopped")
    # GPUs add up some gradients in any order.
    whole, resumed = (losses(tmp_path / name) for name in names)
    assert resumed == pytest.approx(whole, rel=0 if on_cpu(processes) else 0.02)
    if on_cpu(processes):
        averages = (RunFolder(tmp_path / name).average for name in names)
        assert_close(*map(checkpoint.read_weights, averages), rtol=0, atol=0)


def on_cpu(processes):
    return processes.device.type == "cpu"


@contextmanager
def no_waiting(device):
    """On a GPU, any wait of the host is an error in the block."""
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        if device.type == "cuda":
            torch.cuda.set_sync_debug_mode("default")


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_step_waits_for_nothing(processes, precision):
    made = objective_of(processes, precision)
    use_causal_kernels(made.model)
    optimizer = adam(made.parameters())
    optimizer.param_groups[0]["lr"] = 1e-3
    scaler = torch.amp.GradScaler(processes.device.type, enabled=precision == "fp16")
    batches = fixed_batches(*[sequences(11, seed=7)] * 2, 60)
    if not on_cpu(processes):
        batches = [batch.pinned() for batch in batches]
    tokens = sum(batch.tokens for batch in batches)

    def step():
        return train_step(
            made, batches, optimizer, (1, 2), processes, scaler, tokens=tokens
        )

    first = step().loss
    with no_waiting(processes.device):
        reports = [step() for _ in range(3)]
    assert reports[-1].loss < first
    assert all(report.is_finite for report in reports)


def objective_of(processes, precision="fp32"):
    torch.manual_seed(11)
    model = Transformer(MODEL).to(processes.device)
    return Objective(model, 0.1, precision)


def test_a_step_that_is_not_finite_is_not_taken(processes):
    made = objective_of(processes)
    optimizer = adam(made.parameters())
    batches = fixed_batches(*[sequences(11, seed=7)] * 2, 60)
    with torch.no_grad():
        made.model.encoder.layers[0].feed_forward.w_1.bias[0] = float("nan")
    before = [parameter.detach().clone() for parameter in made.parameters()]
    report = train_step(made, batches, optimizer, processes=processes)
    assert not report.is_finite
    for parameter, old in zip(made.parameters(), before, strict=True):
        assert torch.equal(parameter.nan_to_num(), old.nan_to_num())


def test_a_loss_scale_that_is_too_large_is_halved(processes):
    made = objective_of(processes, "fp16")
    scaler = torch.amp.GradScaler(processes.device.type, init_scale=2.0**40)
    batches = fixed_batches(*[sequences(11, seed=7)] * 2, 60)
    report = train_step(
        made, batches, adam(made.parameters()), processes=processes, scaler=scaler
    )
    assert not report.is_finite
    assert scaler.get_scale() == 2.0**39


COMPILED = """
import sys
from pathlib import Path

import test_devices
import torch

device = torch.device(sys.argv[2])
if device.type == "cpu":  # whose machine need not have a compiler
    compile = torch.nn.Module.compile
    torch.nn.Module.compile = lambda layer, dynamic: compile(layer, backend="eager")
processes = test_devices.Processes(rank=0, world_size=1, device=device)
test_devices.trainer_of(processes, Path(sys.argv[1]), compile=True).train()
"""


def test_compiled_layers_learn_the_same(processes, on_the_cpu, tmp_path):
    # In a process of its own, where no types are checked: the checks cannot be traced.
    command = [sys.executable, "-c", COMPILED, tmp_path, str(processes.device)]
    folders = (str(Path(__file__).parents[1]), str(Path(__file__).parent))
    path = os.pathsep.join(folders)
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
    assert losses(tmp_path) == pytest.approx(on_the_cpu, rel=1e-3)


def test_one_process_of_a_group_takes_the_step_of_one_alone(processes):
    batches = fixed_batches(*[sequences(11, seed=7)] * 2, 60)
    found = []
    for grouped in (False, True):
        made = objective_of(processes)
        optimizer = torch.optim.SGD(made.parameters(), lr=1.0, fused=True)
        with group_of_one(processes.device) if grouped else nullcontext():
            wrapped = DistributedDataParallel(made) if grouped else made
            train_step(wrapped, batches, optimizer, (1, 2), processes)
            found.append([p.detach().clone() for p in made.parameters()])
    for alone, in_group in zip(*found, strict=True):
        assert_close(in_group, alone, rtol=0, atol=1e-5)


@contextmanager
def group_of_one(device):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=address, rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize(
    ("dtype", "error"),
    [(torch.float32, 1e-5), (torch.bfloat16, 0.02), (torch.float16, 0.002)],
)
def test_the_fused_loss_is_the_plain_one_in_float64(processes, dtype, error):
    generator = torch.Generator().manual_seed(13)
    hidden = torch.randn(5, 7, 16, generator=generator).double().to(processes.device)
    weight = torch.randn(31, 16, generator=generator).double().to(processes.device)
    labels = torch.randint(0, 31, (5, 7), generator=generator).to(processes.device)
    exact = label_smoothed_loss(hidden @ weight.T, labels, 0.1, PAD)
    single = [tensor.float().requires_grad_() for tensor in (hidden, weight)]
    real = (labels != PAD).flatten().nonzero()[:, 0]
    scale = torch.tensor(8.0, device=processes.device)
    half = dtype != torch.float32
    with torch.autocast(
        processes.device.type, dtype=dtype if half else None, enabled=half
    ):
        found = fused_label_smoothed_loss(*single, labels, 0.1, real, scale)
    assert found.loss.item() == pytest.approx(exact.loss.item(), rel=error)
    (8 * found.loss).backward()
    leaves = [tensor.requires_grad_() for tensor in (hidden, weight)]
    (8 * label_smoothed_loss(leaves[0] @ leaves[1].T, labels, 0.1, PAD).loss).backward()
    for own, leaf in zip(single, leaves, strict=True):
        off = (own.grad.double() - leaf.grad).norm() / leaf.grad.norm()
        assert off < error


def test_a_causal_kernel_gives_the_gradient_of_the_causal_mask(processes):
    (batch,) = fixed_batches(*[sequences(5, seed=7)] * 2, 90)
    batch = batch.to(processes.device)
    found = []
    for kernels in (False, True):
        made = objective_of(processes)
        if kernels:
            use_causal_kernels(made.model)
        made(batch.src_ids, batch.tgt_input, batch.labels, batch.real).loss.backward()
        found.append([parameter.grad for parameter in made.parameters()])
    for masked, causal in zip(*found, strict=True):
        assert_close(causal, masked, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_search_finds_what_it_finds_on_the_cpu(processes, beam_size):
    torch.manual_seed(17)
    model = Transformer(MODEL).eval()
    with torch.no_grad():  # so that outputs differ from source to source
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    side = sequences(9, seed=19)
    src_ids = pad([[*side[i].tolist(), EOS] for i in range(len(side))])
    limits = torch.tensor([n + 5 for n in side.lengths.tolist()])

    def search(device):
        moved = model.to(device)
        state = moved.start(src_ids.to(device))
        arguments = (moved.decoder.step, state, limits.to(device), BOS, EOS)
        if beam_size == 1:
            return greedy_search(*arguments)
        return beam_search(*arguments, beam_size, 0.6)

    with torch.inference_mode():
        expected, found = search(torch.device("cpu")), search(processes.device)
    assert [list(output.ids) for output in found] == [
        list(output.ids) for output in expected
    ]
    assert [output.log_prob for output in found] == pytest.approx(
        [output.log_prob for output in expected], rel=1e-3
    )


def test_an_export_of_a_model_on_a_gpu_is_that_of_the_cpu(processes, tmp_path):
    pytest.importorskip("ctranslate2")
    from transformer_lite.inference.export import export_ctranslate2

    tokenizer = Tokenizer.train(["red green blue dog cat sees hears"] * 3, 40)
    torch.manual_seed(23)
    model = Transformer(replace(MODEL, vocab_size=tokenizer.vocab_size)).eval()
    files = []
    for device in (torch.device("cpu"), processes.device):
        out = tmp_path / f"{len(files)}"
        export_ctranslate2(Translator(model.to(device), tokenizer, SearchConfig()), out)
        files.append((out / "model.bin").read_bytes())
    assert files[0] == files[1]
