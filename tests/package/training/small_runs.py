"""Runs of eleven steps, ended where a test wants it."""

import json
import os
import socket
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest
import torch

from transformer_lite.batching import BatchStream, Sequences, fixed_batches
from transformer_lite.config import ModelConfig, TrainConfig
from transformer_lite.data.corpora import Corpus, SentencePair
from transformer_lite.data.prepare import prepare
from transformer_lite.model import Transformer
from transformer_lite.runs.folder import RunFolder
from transformer_lite.runs.weights import read_weights
from transformer_lite.training import trainer
from transformer_lite.training.step import train_step
from transformer_lite.training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[3]
MODEL = {"vocab_size": 17, "num_layers": 1, "d_model": 6, "num_heads": 2}
MODEL |= {"d_ff": 7, "dropout": 0.2, "max_len": 23}
TRAIN = {"batch_tokens": 37, "max_steps": 11, "warmup_steps": 5, "precision": "fp32"}
TRAIN |= {"checkpoint_every": 3, "validate_every": 2, "average_checkpoints": 2}
WORDS = "one two three four five six seven".split()
TEXT = [" ".join(WORDS[i % 7 : i % 7 + 1 + i % 3]) for i in range(40)]
RECIPE = """
data = "{data}"
[model]
num_layers = 1
d_model = 6
d_ff = 7
num_heads = 2
max_len = 64
[train]
batch_tokens = {batch}
max_steps = {steps}
warmup_steps = 3
checkpoint_every = 1
validate_every = 7
precision = "fp32"
[search]
max_extra = 3
"""


def prepare_words(folder, name="words", text=TEXT, languages=("", "")):
    """A corpus of forty pairs of equal sentences, with a vocabulary of 40."""
    pairs = [SentencePair(line, line) for line in text]
    corpus = Corpus(name, {"train": pairs, "valid": pairs[:5]}, languages)
    prepare(corpus, folder, 40, 64, skip_unusable=False)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def pairs(count):
    lists = [[4 + (i * j) % 13 for j in range(1, 2 + i % 7)] for i in range(count)]
    return Sequences.from_lists(lists), Sequences.from_lists(lists)


def trainer_of(run, d_ff=7, on_validation=dict, **changes):
    config = TrainConfig(**TRAIN | changes)
    torch.manual_seed(config.seed)
    model = Transformer(ModelConfig(**MODEL | {"d_ff": d_ff}))
    stream = BatchStream(*pairs(61), config.batch_tokens, config.seed)
    validation = fixed_batches(*pairs(5), 60)
    return Trainer(model, stream, validation, config, run, on_validation=on_validation)


def train(run, **changes):
    made = trainer_of(run, **changes)
    assert made.train()
    return made


class Crash(BaseException):
    """Ends a run as abruptly as a test can."""


def crash(_):
    raise Crash


def send(*numbers):
    """Send this process signals, when a step calls it."""
    return lambda _: [os.kill(os.getpid(), number) for number in numbers]


def before_step(monkeypatch, number, act):
    """Call `act(model)` at the beginning of a step; steps of all runs are counted."""
    steps, original = count(1), train_step

    def step_and_act(objective, *rest):
        if next(steps) == number:
            act(getattr(objective, "module", objective).model)
        return original(objective, *rest)

    monkeypatch.setattr(trainer, "train_step", step_and_act)


def interrupt(run, monkeypatch, step, how, **changes):
    """End a run in one of its steps by a crash or a signal."""
    with monkeypatch.context() as patch:
        if how == "crash":
            before_step(patch, step, crash)
            with pytest.raises(Crash):
                trainer_of(run, **changes).train()
        else:
            before_step(patch, step, send(how))
            assert not trainer_of(run, **changes).train()


def start_script(text, *arguments):
    """Start a process that can import this module, and that checks no types."""
    return subprocess.Popen(
        [sys.executable, "-c", text, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}"},
    )


def records(run, name="step"):
    """Return the records that have a value of this name."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")
    return [r for line in lines if line and name in (r := json.loads(line))]


def without_speed(run):
    clock = {"tokens_per_second", "loader_wait", "model_tflops"}
    return [{n: v for n, v in r.items() if n not in clock} for r in records(run)]


def same_weights(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[n], two[n]) for n in one)


def same_file(one, two, name="step-00000011"):
    folders = (RunFolder(run).checkpoints for run in (one, two))
    return same_weights(*(read_weights(f / f"{name}.safetensors") for f in folders))


def names(run, pattern="*"):
    return sorted(path.name for path in RunFolder(run).checkpoints.glob(pattern))


def saved_steps(run):
    return [int(path.stem[5:]) for path in RunFolder(run).step_checkpoints()]
