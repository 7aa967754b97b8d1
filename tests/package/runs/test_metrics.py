"""The metrics of a run are a line for each step, whole even after a kill."""

import math
import shutil
import sys
import time

import pytest

from transformer_lite.runs import metrics as metrics_module
from transformer_lite.runs.metrics import Metrics


@pytest.fixture
def metrics(tmp_path):
    with Metrics(tmp_path / "run") as made:
        yield made


def steps(metrics):
    return [record["step"] for record in metrics.read()]


def test_records_come_back_in_order(metrics):
    # Whatever a model says: str.splitlines would take these for ends of lines.
    strange = ["schön", "a\u2028b\u2029c\u0085d\x1ee"]
    metrics.add(1, loss=2.5, translations=strange)
    metrics.add(2)
    first = {"step": 1, "loss": 2.5, "translations": strange}
    assert metrics.read() == [first, {"step": 2}]


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


def test_records_are_json_even_where_a_number_is_not_finite(metrics):
    metrics.add(1, gradient_norm=math.inf, train_loss=math.nan, rate=0.5)
    values = {"gradient_norm": None, "train_loss": None, "rate": 0.5}
    assert metrics.read() == [{"step": 1, **values}]


@pytest.mark.parametrize("line", ["garbage", "[1]", "{}", '{"step": "one"}'])
def test_a_damaged_line_is_named(metrics, line):
    metrics.add(1)
    with metrics.path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2: .*delete"):
        metrics.read()


def scalars(run):
    # Importing it takes half a second, which would delay every collection of tests.
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

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


def broken(*_, **__):
    raise TypeError("Descriptors cannot be created directly.\nMore.")


@pytest.mark.parametrize("part", ["__init__", "add_scalar", "close"])
def test_a_broken_tensorboard_is_one_line_and_ends_nothing(
    tmp_path, monkeypatch, capsys, part
):
    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter
    monkeypatch.setattr(writer, part, broken)
    with Metrics(tmp_path) as metrics:
        metrics.add(1, rate=0.125)
        metrics.add(2, rate=0.25)
    assert [record["rate"] for record in metrics.read()] == [0.125, 0.25]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("TensorBoard failed (TypeError: Descriptors cannot be ")


@pytest.mark.parametrize("is_there", [False, True])
def test_a_tensorboard_that_cannot_be_imported_is_noted_if_it_is_there(
    metrics, monkeypatch, capsys, is_there
):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setattr(metrics_module, "find_spec", lambda _: is_there or None)
    metrics.add(1, rate=0.125)
    assert metrics.read() == [{"step": 1, "rate": 0.125}]
    assert ("the run goes on without it" in capsys.readouterr().err) == is_there


@pytest.mark.parametrize("how", ["full disk", "deleted folder"])
def test_a_record_that_cannot_be_written_is_named(metrics, monkeypatch, how):
    monkeypatch.setattr(metrics_module, "find_spec", lambda _: None)
    metrics.add(1)
    if how == "full disk":
        metrics.path.unlink()
        metrics.path.symlink_to("/dev/full")
    else:
        shutil.rmtree(metrics.path.parent)
    message = r"metrics\.jsonl: cannot be written \(No .*; the same command resumes"
    with pytest.raises(OSError, match=message):
        metrics.add(2)
