"""The file of what a run measured, and the work of a step."""

import time
from dataclasses import replace

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.flop_counter import FlopCounterMode

from transformer_lite.config import BASE, TINY
from transformer_lite.model import Transformer
from transformer_lite.training import metrics as module
from transformer_lite.training.metrics import Metrics, flops_per_token


@pytest.fixture
def metrics(tmp_path):
    with Metrics(tmp_path / "run") as made:
        yield made


def steps(metrics):
    return [record["step"] for record in metrics.read()]


def test_records_come_back_in_order(metrics):
    # Whatever a model says: str.splitlines would take these for ends of lines.
    strange = ["schön", "a\u2028b\u2029c\u0085d\x1ee"]
    metrics.add(1, loss=2.5)
    metrics.add(2, translations=strange)
    assert metrics.read() == [
        {"step": 1, "loss": 2.5},
        {"step": 2, "translations": strange},
    ]


def test_a_run_without_records_has_none(metrics):
    assert metrics.read() == []


def test_forgetting_leaves_the_steps_up_to_the_checkpoint(metrics):
    for step in (1, 2, 3, 3, 4):
        metrics.add(step)
    metrics.forget_after(3)
    assert steps(metrics) == [1, 2, 3, 3]


@pytest.mark.parametrize("end", ['{"step": 2, "lo', '{"step": 2, "said": "grü'])
def test_a_line_that_was_not_finished_is_not_a_record(metrics, end):
    metrics.add(1)
    with metrics.path.open("ab") as file:
        file.write(end.encode()[:-1])  # which may cut a letter in two
    assert steps(metrics) == [1]
    metrics.forget_after(1)
    with Metrics(metrics.path.parent) as resumed:
        resumed.add(2)
    assert steps(metrics) == [1, 2]


@pytest.mark.parametrize("line", ["garbage", "[1]", "{}", '{"step": "one"}'])
def test_a_damaged_line_is_named(metrics, line):
    metrics.add(1)
    with metrics.path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2: .*delete"):
        metrics.read()


def scalars(run):
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_tensorboard_has_the_numbers_of_each_step_once(tmp_path, monkeypatch):
    now = time.time()
    for first in (1, 3):
        # TensorBoard reads files by the seconds in their names; a run resumes later.
        monkeypatch.setattr(time, "time", lambda first=first: now + 10 * first)
        with Metrics(tmp_path) as metrics:
            metrics.forget_after(first - 1)
            for step in range(first, 5):
                metrics.add(step, rate=10.0 * first + step, translations=["schön"])
    rates = [(1, 11.0), (2, 12.0), (3, 33.0), (4, 34.0)]
    assert scalars(tmp_path) == {"rate": rates}


def test_records_are_written_without_tensorboard_too(metrics, monkeypatch):
    monkeypatch.setattr(module, "SummaryWriter", None)
    metrics.add(1, rate=0.125)
    assert metrics.read() == [{"step": 1, "rate": 0.125}]


def test_operations_of_the_base_model_are_six_for_each_weight_and_token():
    # The usual rule of thumb; the products of attention and the embeddings are apart.
    assert flops_per_token(BASE, 25) == pytest.approx(6 * 63_045_632, rel=0.05)


def test_operations_are_those_of_a_real_forward_and_backward_pass():
    config = replace(TINY, vocab_size=101)
    model = Transformer(replace(config, attention="explicit", dropout=0.0))
    ids = torch.randint(4, 101, (1, 13))
    with FlopCounterMode(display=False) as counter:
        model(ids, ids).sum().backward()
    counted = counter.get_total_flops() / 13
    assert flops_per_token(config, 13) == pytest.approx(counted, rel=0.02)
