"""Training and searching: the same on a CPU and on a GPU.

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
from transformer_lite.config import ModelConfig, TrainConfig
from transformer_lite.loss import fused_label_smoothed_loss, label_smoothed_loss
from transformer_lite.model import Transformer
from transformer_lite.runs.folder import RunFolder
from transformer_lite.runs.weights import read_weights
from transformer_lite.search import beam_search
from transformer_lite.tokenizer import BOS, EOS, PAD
from transformer_lite.training import trainer
from transformer_lite.training.distributed import ONE_CPU, Processes
from transformer_lite.training.step import Objective, add_gradients, train_step
from transformer_lite.training.trainer import Trainer

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CUDA = pytest.param("cuda", marks=[pytest.mark.gpu, needs_gpu])
SHAPE = {"vocab_size": 31, "num_layers": 2, "d_model": 16, "d_ff": 24, "num_heads": 2}
MODEL = ModelConfig(**SHAPE, dropout=0.0, max_len=29)
TRAIN = {"batch_tokens": 90, "max_steps": 12, "warmup_steps": 6, "validate_every": 6}
TRAIN |= {"checkpoint_every": 5, "average_checkpoints": 2, "precision": "fp32"}


@pytest.fixture(params=["cpu", CUDA])
def processes(request):
    """One process on the CPU, and one on the first GPU."""
    return Processes(rank=0, world_size=1, device=torch.device(request.param))


def on_cpu(processes):
    return processes.device.type == "cpu"


def sequences(number, seed):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 11, (number,), generator=generator).tolist()
    return Sequences.from_lists(
        torch.randint(4, 31, (n,), generator=generator).tolist() for n in lengths
    )


def trainer_of(processes, run, model=MODEL, **changes):
    """A run that learns to copy."""
    config = TrainConfig(**TRAIN | changes)
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


@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16", "fp16"])
def test_every_precision_learns_as_fp32(processes, precision, on_the_cpu, tmp_path):
    assert trainer_of(processes, tmp_path, precision=precision).train()
    found = losses(tmp_path)
    assert len(found) == 12
    error = 1e-3 if precision == "fp32" else 0.05
    assert found == pytest.approx(on_the_cpu, rel=error)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_stopped_run_ends_as_a_whole_one(processes, precision, tmp_path, monkeypatch):
    options = {"model": replace(MODEL, dropout=0.2), "precision": precision}
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
        assert_close(*map(read_weights, averages), rtol=0, atol=0)


COMPILED = """
import sys
from pathlib import Path

import test_devices
import torch

processes = test_devices.Processes(rank=0, world_size=1, device=torch.device("cuda"))
test_devices.trainer_of(processes, Path(sys.argv[1]), compile=True).train()
"""


@pytest.mark.gpu
@needs_gpu
def test_compiled_layers_learn_the_same_on_a_gpu(on_the_cpu, tmp_path):
    # In a process of its own, where no types are checked: the checks cannot be traced.
    folders = (str(Path(__file__).parents[2]), str(Path(__file__).parent))
    subprocess.run(
        [sys.executable, "-c", COMPILED, tmp_path],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
    )
    assert losses(tmp_path) == pytest.approx(on_the_cpu, rel=1e-3)


def objective_of(processes, **changes):
    torch.manual_seed(11)
    model = Transformer(replace(MODEL, **changes)).to(processes.device)
    return Objective(model, 0.1)


def test_one_process_of_a_group_takes_the_step_of_one_alone(processes):
    alone = weights_after_a_step(processes, lambda objective: objective)
    with group_of_one(processes.device):
        in_group = weights_after_a_step(processes, DistributedDataParallel)
    for one, other in zip(alone, in_group, strict=True):
        assert_close(other, one, rtol=0, atol=1e-5)


def weights_after_a_step(processes, wrap):
    batches = fixed_batches(*[sequences(11, seed=7)] * 2, 60)
    objective = objective_of(processes)
    optimizer = torch.optim.SGD(objective.parameters(), lr=1.0, fused=True)
    train_step(wrap(objective), batches, optimizer, (1, 2), processes)
    return [p.detach() for p in objective.parameters()]


@contextmanager
def group_of_one(device):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=address, rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


# Half of the spacing of the numbers, a few times: 8 bits in bf16, 11 in fp16.
@pytest.mark.parametrize(
    ("dtype", "error"),
    [(torch.float32, 1e-5), (torch.bfloat16, 0.02), (torch.float16, 0.002)],
)
def test_the_fused_loss_is_the_plain_one_in_float64(processes, dtype, error):
    device, generator = processes.device, torch.Generator().manual_seed(13)
    hidden = torch.randn(5, 7, 16, generator=generator).double().to(device)
    weight = torch.randn(31, 16, generator=generator).double().to(device)
    labels = torch.randint(0, 31, (5, 7), generator=generator).to(device)
    exact = [tensor.clone().requires_grad_() for tensor in (hidden, weight)]
    expected = label_smoothed_loss(exact[0] @ exact[1].T, labels, 0.1, PAD).loss
    (8 * expected).backward()

    single = [tensor.float().requires_grad_() for tensor in (hidden, weight)]
    real = (labels != PAD).flatten().nonzero()[:, 0]
    half = dtype != torch.float32
    with torch.autocast(device.type, dtype=dtype) if half else nullcontext():
        scale = torch.tensor(8.0, device=device)
        found = fused_label_smoothed_loss(*single, labels, 0.1, real, scale)
    (8 * found.loss).backward()
    assert found.loss.dtype == torch.float32
    assert found.loss.item() == pytest.approx(expected.item(), rel=error)
    for own, leaf in zip(single, exact, strict=True):
        off = (own.grad.double() - leaf.grad).norm() / leaf.grad.norm()
        assert off < error


def test_attention_kernels_give_the_gradients_of_equation_1(processes):
    """On a GPU the kernel makes the causal mask itself."""
    batches = fixed_batches(*[sequences(5, seed=7)] * 2, 90)
    scale = torch.tensor(1.0, dtype=torch.double, device=processes.device)
    found = []
    for attention in ("explicit", "fused"):
        made = objective_of(processes, attention=attention)
        add_gradients(made, batches, scale, processes=processes)
        found.append([parameter.grad for parameter in made.parameters()])
    for explicit, fused in zip(*found, strict=True):
        assert_close(fused, explicit, rtol=1e-3, atol=1e-4)


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
        step, state = moved.decoder.step, moved.start(src_ids.to(device))
        places = limits.to(device), BOS, EOS, beam_size, 0.6
        return [best for (best,) in beam_search(step, state, *places)]

    with torch.inference_mode():
        expected, found = search(torch.device("cpu")), search(processes.device)
    assert [output.ids for output in found] == [output.ids for output in expected]
    assert [output.log_prob for output in found] == pytest.approx(
        [output.log_prob for output in expected], rel=1e-3
    )
