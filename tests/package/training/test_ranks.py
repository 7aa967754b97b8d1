"""Whichever of two processes fails, the error is shown and both end at once.

The two run the command line. Their group cannot be destroyed: as NCCL's does while
another process computes, `destroy_process_group` blocks.
"""

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from unittest import mock

import pytest
import torch
from small_runs import RECIPE, ROOT, free_port, prepare_words
from torch import distributed as dist

from transformer_lite import cli
from transformer_lite.parsing import evaluation
from transformer_lite.runs.metrics import Metrics
from transformer_lite.training import checkpoint, run, step, trainer
from transformer_lite.training.step import add_gradients

COMMAND = """train small.toml --train.global-batch-tokens 120 --train.validate-every 2
--train.checkpoint-every 2 --out"""
FULL_DISK = OSError("No space left on device")
FULL_GPU = torch.OutOfMemoryError("CUDA out of memory.")


def nan_sums(*arguments):
    return add_gradients(*arguments) * torch.nan


FAULTS = {
    # What fails, on which process, how, and what this process should show.
    "opening the run": (run, "_open_run", 0, FULL_DISK, "No space left"),
    "the samples' making": (
        evaluation,
        "validation_samples",
        0,
        FULL_GPU,
        "no room for train.batch_tokens = 60",
    ),
    "the first step": (step, "add_gradients", 1, FULL_GPU, "no room for train.batch"),
    "a validation": (trainer, "validate", 1, FULL_GPU, "no room for train.batch"),
    "the record": (Metrics, "add", 0, FULL_DISK, "No space left"),
    "the best weights": (trainer, "save_weights", 0, FULL_DISK, "No space left"),
    "a checkpoint": (checkpoint, "save_training", 0, FULL_DISK, "No space left"),
    "the average": (checkpoint, "average", 0, FULL_DISK, "No space left"),
    "the loss": (step, "add_gradients", 1, nan_sums, "the loss is nan"),
}
SECONDS = 120
"""How long the processes may take, on a busy machine."""


def train(rank, port, name, folder):
    """Train as one of the two, with the fault if it is this one's."""
    place = {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({key: str(value) for key, value in place.items()})
    sys.stderr = (folder / f"{name}-{rank}").open("w", buffering=1)
    module, function, failing, effect, _ = FAULTS[name]
    if rank == failing:
        setattr(module, function, mock.Mock(side_effect=effect))
    dist.get_backend = lambda group=None: "blocking"
    dist.destroy_process_group = lambda: time.sleep(3600)
    cli.main([*COMMAND.split(), f"runs/{name}"])


def launch(folder):
    """Start two processes for each fault, and end them as torchrun does."""
    os.chdir(folder)
    found, fork = {}, get_context("fork")
    for name in FAULTS:
        place = (free_port(), name, folder)
        both = [fork.Process(target=train, args=(rank, *place)) for rank in (0, 1)]
        for process in both:
            process.start()
        begun = time.monotonic()
        wait([process.sentinel for process in both], timeout=SECONDS)
        for process in both:
            if process.is_alive():
                os.kill(process.pid, signal.SIGTERM)
        for process in both:
            process.join(max(0, begun + SECONDS - time.monotonic()))
            process.kill()
            process.join()
        found[name] = [process.exitcode for process in both]
        if -signal.SIGKILL in found[name]:
            break  # the others would take as long
    (folder / "found.json").write_text(json.dumps(found))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    prepare_words(folder / "corpus")
    (folder / "small.toml").write_text(RECIPE.format(data="corpus", steps=4, batch=60))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    # One process imports everything, and all others are forks of it.
    subprocess.run([sys.executable, __file__, folder], check=True, env=environment)
    return folder


@pytest.mark.parametrize("name", FAULTS)
def test_the_error_is_shown_and_both_processes_end(folder, name):
    *_, failing, _, message = FAULTS[name]
    shown = (folder / f"{name}-{failing}").read_text()
    assert "transformer-lite train: error: " in shown
    assert message in shown
    assert json.loads((folder / "found.json").read_text())[name] == [2, 2]


if __name__ == "__main__":
    launch(Path(sys.argv[1]))
