"""Runs that are killed without warning, alone and as one of two processes."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from small_runs import RECIPE, ROOT, free_port, prepare_words, records, same_file

from transformer_lite.config import load_recipe
from transformer_lite.runs.folder import RunFolder
from transformer_lite.runs.weights import read_weights
from transformer_lite.training import checkpoint
from transformer_lite.training.run import train_recipe

MOMENTS = 20
CALLS = 60_000
"""Calls of a function after which a process dies, times up to nine."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    """The file of a recipe: sixty steps with dropout, and a checkpoint after each."""
    folder = tmp_path_factory.mktemp("recipe")
    prepare_words(folder / "data")
    (folder / "words.toml").write_text(
        RECIPE.format(data=folder / "data", steps=60, batch=60)
    )
    return folder / "words.toml"


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
            os.kill(os.getpid(), signal.SIGKILL)

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
    train_recipe(load_recipe(recipe), out)


def test_a_run_killed_at_twenty_moments_ends_as_a_whole_one(
    recipe, fork_server, tmp_path
):
    runs = whole, killed = [RunFolder(tmp_path / name) for name in ("whole", "killed")]
    train_recipe(load_recipe(recipe), whole.path)
    context = get_context("forkserver")
    num_threads, generator, steps = torch.get_num_threads(), random.Random(7), []
    kinds = ["half a file", "before the renaming", "any time"]
    for number in range(MOMENTS):
        how = (kinds[number % 3], generator.randint(1, 9), num_threads)
        given = (recipe, killed.path, *how)
        process = context.Process(target=train_and_die, args=given)
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL, "the run came to its end"
        saved = killed.step_checkpoints()
        for path in saved:
            assert read_weights(path).keys() == read_weights(whole.average).keys()
        steps.append(len(saved) and int(saved[-1].stem[5:]))
    assert steps == sorted(steps), "a checkpoint was lost"
    assert 0 < steps[-1] < 60
    train_recipe(load_recipe(recipe), killed.path)
    for name in ("average", "best", "step-00000060"):
        assert same_file(whole.path, killed.path, name)
    # TensorBoard makes further files for each attempt.
    files = [set(run.path.glob("*")) | set(run.checkpoints.glob("*")) for run in runs]
    names = [sorted(path.name for path in found) for found in files]
    assert names[0] == names[1]


COMMAND = """-m torch.distributed.run {machines} --max-restarts {restarts}
-m transformer_lite train {recipe} --out {out} --train.max-steps {steps}
--train.global-batch-tokens 120 --train.checkpoint-every 5"""
ONE_MACHINE = "--standalone --nproc-per-node 2"
SEVERAL_RESTARTS = 2
"""One for the process that a test kills, one because torchrun can lose an attempt.

Where it shares no store, as the book has it for several machines, it looks for a free
port and frees it again (`get_free_port`, called by PyTorch's
distributed/elastic/rendezvous/api.py); seconds later the first process opens its store
there. If another program has the port by then, this attempt fails.
"""


@pytest.fixture
def launch(recipe, tmp_path):
    """Start a run of two processes under torchrun; they end with the test."""
    started = []

    def start(max_steps, max_restarts, machines=ONE_MACHINE, log="log"):
        names = {"machines": machines, "recipe": recipe, "out": tmp_path / "run"}
        words = COMMAND.format(**names, steps=max_steps, restarts=max_restarts)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        if machines != ONE_MACHINE:  # as the book's commands have it
            environment["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
        with (tmp_path / log).open("w") as file:
            run = subprocess.Popen(
                [sys.executable, *words.split()],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # a terminal's Ctrl-C reaches all of a session
            )
        started.append(run)
        return run

    yield start
    for process in started:
        process.terminate()  # torchrun ends its processes with itself
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def workers(launcher):
    """The processes that torchrun started, in the order of their ranks."""
    children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
    return sorted(map(int, children.read_text().split()))


def finished(run, log):
    """Wait for the end of a run that should succeed, and return what it said."""
    with suppress(subprocess.TimeoutExpired):
        run.wait(timeout=300)
    said = log.read_text()
    assert run.returncode == 0, said
    return said


def steps_of(folder):
    return [record["step"] for record in records(folder, "train_loss")]


def wait_for_checkpoints(folder, number):
    for _ in range(1200):
        if len(list(folder.glob("checkpoints/step-*.safetensors"))) >= number:
            return
        time.sleep(0.1)
    raise TimeoutError("no checkpoint was written")


needs_proc = pytest.mark.skipif(
    not Path("/proc/thread-self/children").exists(), reason="finds processes in /proc"
)


@needs_proc
def test_torchrun_restarts_a_run_whose_first_process_is_killed(launch, tmp_path):
    run = launch(150, max_restarts=1)
    wait_for_checkpoints(tmp_path / "run", 2)
    os.kill(workers(run)[0], signal.SIGKILL)
    log = finished(run, tmp_path / "log")
    # torchrun may end the survivor before it can say what it lost, so the message has a
    # test without torchrun, in test_distributed.py.
    assert "resuming after step" in log
    assert steps_of(tmp_path / "run") == list(range(1, 151))


@needs_proc
def test_two_machines_resume_a_run_when_one_of_them_loses_its_process(launch, tmp_path):
    machines = "--nnodes 2 --nproc-per-node 1 --rdzv-backend c10d "
    machines += f"--rdzv-endpoint 127.0.0.1:{free_port()}"
    both = [launch(150, SEVERAL_RESTARTS, machines, f"log {n}") for n in (0, 1)]
    wait_for_checkpoints(tmp_path / "run", 2)
    (victim,) = workers(both[1])
    os.kill(victim, signal.SIGKILL)
    logs = [finished(run, tmp_path / f"log {n}") for n, run in enumerate(both)]
    assert any("resuming after step" in log for log in logs)
    assert steps_of(tmp_path / "run") == list(range(1, 151))


@needs_proc
@pytest.mark.parametrize("to", ["one process", "torchrun", "all of a terminal"])
def test_a_signal_stops_both_processes_with_a_checkpoint(launch, tmp_path, to):
    run = launch(100_000, max_restarts=2)
    wait_for_checkpoints(tmp_path / "run", 2)
    if to == "all of a terminal":
        os.killpg(run.pid, signal.SIGINT)
    else:
        os.kill(run.pid if to == "torchrun" else workers(run)[1], signal.SIGTERM)
    assert (run.wait(timeout=100) == 0) == (to == "one process")
    log = (tmp_path / "log").read_text()
    assert "stopped; the same command resumes the run" in log
    assert "lost another process" not in log
    assert "resuming after step" not in log, "torchrun restarted it"
    newest = RunFolder(tmp_path / "run").all_checkpoints()[-1]
    is_regular = int(newest.name[5:13]) % 5 == 0
    assert newest.stem.endswith(".extra") != is_regular
