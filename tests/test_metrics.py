"""The file of what a run measured."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from transformer_lite.metrics import Metrics


def test_records_come_back_in_order(tmp_path):
    metrics = Metrics(tmp_path / "run")
    metrics.add(1, loss=2.5)
    metrics.add(2, translations=["schön"])
    assert metrics.read() == [
        {"step": 1, "loss": 2.5},
        {"step": 2, "translations": ["schön"]},
    ]


def test_forgetting_leaves_the_steps_up_to_the_checkpoint(tmp_path):
    metrics = Metrics(tmp_path)
    for step in (1, 2, 3, 3, 4):
        metrics.add(step)
    metrics.forget_after(3)
    assert [record["step"] for record in metrics.read()] == [1, 2, 3, 3]


def test_an_unfinished_line_is_not_a_record(tmp_path):
    metrics = Metrics(tmp_path)
    metrics.add(1)
    with metrics.path.open("a") as file:
        file.write('{"step": 2, "lo')
    assert [record["step"] for record in metrics.read()] == [1]
    metrics.forget_after(1)
    metrics.add(2)
    assert [record["step"] for record in metrics.read()] == [1, 2]


def test_a_run_without_records_has_none(tmp_path):
    assert Metrics(tmp_path).read() == []


def test_a_line_cut_inside_a_letter_is_not_a_record(tmp_path):
    metrics = Metrics(tmp_path)
    metrics.add(1)
    with metrics.path.open("ab") as file:
        file.write('{"translations": ["gr\u00fc'.encode()[:-1])
    assert [record["step"] for record in metrics.read()] == [1]


@pytest.mark.parametrize("line", ["garbage", "[1]", "{}", '{"step": "one"}'])
def test_a_damaged_line_is_named(tmp_path, line):
    metrics = Metrics(tmp_path)
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


def test_numbers_are_tensorboard_scalars_too(tmp_path):
    with Metrics(tmp_path) as metrics:
        metrics.add(1, train_loss=2.5, rate=0.125)
        metrics.add(2, train_loss=1.5, translations=["schön"])
    assert scalars(tmp_path) == {
        "train/loss": [(1, 2.5), (2, 1.5)],
        "rate": [(1, 0.125)],
    }


def test_events_of_steps_that_are_taken_again_are_purged(tmp_path):
    for first in (1, 3):
        with Metrics(tmp_path) as metrics:
            metrics.forget_after(first - 1)
            for step in range(first, 5):
                metrics.add(step, rate=float(10 * first + step))
    assert scalars(tmp_path)["rate"] == [(1, 11.0), (2, 12.0), (3, 33.0), (4, 34.0)]
