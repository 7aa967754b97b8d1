"""Runs that are killed without warning, alone and as one of two processes."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from transformer_lite.config import ModelConfig, Recipe, SearchConfig, TrainConfig
from transformer_lite.data.corpora import Corpus
from transformer_lite.data.prepare import prepare
from transformer_lite.training import checkpoint
from transformer_lite.training.folder import RunFolder
from transformer_lite.training.run import train_recipe

ROOT = Path(__file__).resolve().parents[2]
WORDS = "one two three four five six seven".split()
PAIRS = [(" ".join(WORDS[i % 7 : i % 7 + 1 + i % 3]),) * 2 for i in range(40)]
MOMENTS = 20
CALLS = 60_000
"""Calls of a function after which a process dies, times up to nine."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """Sixty steps with dropout, and a checkpoint after each."""
    data = tmp_path_factory.mktemp("data") / "words"
    corpus = Corpus("words", {"train": PAIRS, "valid": PAIRS[:3]})
    prepare(corpus, data, 40, 64, skip_unusable=False)
    return Recipe(
        data=data,
        model=ModelConfig(num_layers=1, d_model=6, d_ff=7, num_heads=2, max_len=64),
        train=TrainConfig(
            batch_tokens=60,
            max_steps=60,
            warmup_steps=3,
            checkpoint_every=1,
            validate_every=7,
            precision="fp32",
        ),
        search=SearchConfig(max_extra=3),
    )


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def train_and_die(recipe, out, moment, number, num_threads):
    """A process that trains, and kills itself at one moment of its life.

    Moments are counted in files or calls and not in seconds, so that the process comes
    as far on a busy machine as on an idle one.
    """
    # As many as the run that is not killed has: more would sum in another order.
    torch.set_num_threads(num_threads)
    left = [number]

    def count_down():
        left[0] -= 1
        if left[0] <= 0:
            die()

    if moment == "half a file":
        original = checkpoint.write_whole

        def write_half(path, write):
            def then_cut(partial):
                write(partial)
                partial.write_bytes(partial.read_bytes()[: partial.stat().st_size // 2])
                count_down()
                write(partial)

            original(path, then_cut)

        checkpoint.write_whole = write_half
    elif moment == "before the renaming":
        fsync = os.fsync

        def sync(file):
            fsync(file)
            count_down()

        os.fsync = sync
    else:
        left[0] = number * CALLS
        sys.setprofile(lambda *_: count_down())
    train_recipe(recipe, out)


def weights(out, name="average"):
    return checkpoint.read_weights(out / "checkpoints" / f"{name}.safetensors")


def test_a_run_killed_at_twenty_moments_ends_as_if_nothing_had_happened(
    recipe, tmp_path
):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    train_recipe(recipe, whole)
    # A server that has imported PyTorch once makes each process in a moment.
    context = get_context("forkserver")
    context.set_forkserver_preload(["transformer_lite.training.run"])
    num_threads, generator, steps = torch.get_num_threads(), random.Random(7), []
    kinds = ["half a file", "before the renaming", "any time"]
    for number in range(MOMENTS):
        moment = kinds[number % 3]
        process = context.Process(
            target=train_and_die,
            args=(recipe, killed, moment, generator.randint(1, 9), num_threads),
        )
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL, "the run came to its end"
        saved = RunFolder(killed).step_checkpoints()
        for path in saved:
            assert checkpoint.read_weights(path).keys() == weights(whole).keys()
        steps.append(len(saved) and int(saved[-1].stem[5:]))
    assert steps == sorted(steps), "a checkpoint was lost"
    assert 0 < steps[-1] < recipe.train.max_steps
    train_recipe(recipe, killed)
    for name in ("average", "best", "step-00000060"):
        expected = weights(whole, name)
        for key, tensor in weights(killed, name).items():
            assert torch.equal(tensor, expected[key])
    files = [path.name for path in killed.rglob("*") if "tensorboard" not in str(path)]
    assert sorted(files) == sorted(
        path.name for path in whole.rglob("*") if "tensorboard" not in str(path)
    )


RECIPE = """
data = "{data}"
[model]
num_layers = 1
d_model = 6
d_ff = 7
num_heads = 2
max_len = 64
[train]
batch_tokens = 60
global_batch_tokens = 120
max_steps = {max_steps}
warmup_steps = 3
checkpoint_every = 5
validate_every = 1000
precision = "fp32"
[search]
max_extra = 3
"""


ONE_MACHINE = "--standalone --nproc-per-node 2"
RESTARTS = 3
"""One for the process that a test kills; others, since a first restart once failed."""


@pytest.fixture
def launch(recipe, tmp_path):
    """Start a run of two processes under torchrun; they end with the test."""
    started = []

    def start(max_steps, max_restarts=0, machines=ONE_MACHINE, log="log"):
        path = tmp_path / "recipe.toml"
        path.write_text(RECIPE.format(data=recipe.data, max_steps=max_steps))
        command = [
            *(sys.executable, "-m", "torch.distributed.run", *machines.split()),
            *("--max-restarts", str(max_restarts)),
            *("-m", "transformer_lite", "train", path, "--out", tmp_path / "run"),
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        if machines != ONE_MACHINE:  # as the book's commands have it
            environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        with (tmp_path / log).open("w") as file:
            started.append(
                subprocess.Popen(
                    command, stdout=file, stderr=subprocess.STDOUT, env=environment
                )
            )
        return started[-1]

    yield start
    for process in started:
        process.terminate()  # torchrun ends its processes with itself
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ranks(launcher):
    """The processes that torchrun started, by rank."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = re.search(r"\nPPid:\s+(\d+)", (path / "status").read_text())[1]
            environment = (path / "environ").read_bytes().split(b"\0")
        except (OSError, TypeError):
            continue
        if int(parent) == launcher.pid:
            rank = [v[5:] for v in environment if v.startswith(b"RANK=")]
            found |= {int(r): int(path.name) for r in rank}
    return found


def finished(run, log):
    """Wait for the end of a run that should succeed, and return what it said."""
    with suppress(subprocess.TimeoutExpired):
        run.wait(timeout=300)
    said = log.read_text()
    assert run.returncode == 0, said
    return said


def wait_for_checkpoints(folder, number):
    for _ in range(1200):
        if len(list(folder.glob("checkpoints/step-*.safetensors"))) >= number:
            return
        time.sleep(0.1)
    raise TimeoutError("no checkpoint was written")


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="finds processes in /proc"
)


@needs_proc
def test_torchrun_restarts_a_run_whose_process_is_killed(launch, tmp_path):
    run = launch(150, RESTARTS)
    wait_for_checkpoints(tmp_path / "run", 2)
    os.kill(ranks(run)[1], signal.SIGKILL)
    log = finished(run, tmp_path / "log")
    assert "error: process 0 lost another process of the run; the last check" in log
    assert "resuming after step" in log
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text()
    steps = re.findall(r'"step": (\d+), "train_loss"', metrics)
    assert list(map(int, steps)) == list(range(1, 151))


@needs_proc
def test_two_machines_resume_a_run_when_one_of_them_loses_its_process(launch, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    machines = "--nnodes 2 --nproc-per-node 1 --rdzv-backend c10d "
    machines += f"--rdzv-endpoint 127.0.0.1:{port}"
    both = [launch(150, RESTARTS, machines, f"log {number}") for number in (0, 1)]
    wait_for_checkpoints(tmp_path / "run", 2)
    (victim,) = ranks(both[1]).values()
    os.kill(victim, signal.SIGKILL)
    logs = [finished(run, tmp_path / f"log {n}") for n, run in enumerate(both)]
    assert any("resuming after step" in log for log in logs)
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text()
    steps = re.findall(r'"step": (\d+), "train_loss"', metrics)
    assert list(map(int, steps)) == list(range(1, 151))


@needs_proc
@pytest.mark.parametrize("to", ["one process", "torchrun"])
def test_a_signal_stops_both_processes_with_a_checkpoint(launch, tmp_path, to):
    run = launch(max_steps=100_000, max_restarts=2)
    wait_for_checkpoints(tmp_path / "run", 2)
    os.kill(run.pid if to == "torchrun" else ranks(run)[1], signal.SIGTERM)
    assert (run.wait(timeout=100) == 0) == (to == "one process")
    log = (tmp_path / "log").read_text()
    assert "stopped; the same command resumes the run" in log
    assert "lost another process" not in log
    assert "resuming after step" not in log, "torchrun restarted it"
    newest = RunFolder(tmp_path / "run").resumable_checkpoints()[-1]
    is_regular = int(newest.name[5:13]) % 5 == 0
    assert newest.stem.endswith(".stopped") != is_regular
