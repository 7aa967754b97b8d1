"""The file of what a run measured."""

import pytest

from transformer_lite.metrics import MetricsFile


def test_records_come_back_in_order(tmp_path):
    metrics = MetricsFile(tmp_path / "run" / "metrics.jsonl")
    metrics.add(1, loss=2.5)
    metrics.add(2, translations=["schön"])
    assert metrics.read() == [
        {"step": 1, "loss": 2.5},
        {"step": 2, "translations": ["schön"]},
    ]


def test_forgetting_leaves_the_steps_up_to_the_checkpoint(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3, 3, 4):
        metrics.add(step)
    metrics.forget_after(3)
    assert [record["step"] for record in metrics.read()] == [1, 2, 3, 3]


def test_an_unfinished_line_is_not_a_record(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.add(1)
    with metrics.path.open("a") as file:
        file.write('{"step": 2, "lo')
    assert [record["step"] for record in metrics.read()] == [1]
    metrics.forget_after(1)
    metrics.add(2)
    assert [record["step"] for record in metrics.read()] == [1, 2]


def test_a_run_without_records_has_none(tmp_path):
    assert MetricsFile(tmp_path / "metrics.jsonl").read() == []


def test_a_line_cut_inside_a_letter_is_not_a_record(tmp_path):
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.add(1)
    with metrics.path.open("ab") as file:
        file.write('{"translations": ["gr\u00fc'.encode()[:-1])
    assert [record["step"] for record in metrics.read()] == [1]


@pytest.mark.parametrize("line", ["garbage", "[1]", "{}", '{"step": "one"}'])
def test_a_damaged_line_is_named(tmp_path, line):
    metrics = MetricsFile(tmp_path / "metrics.jsonl")
    metrics.add(1)
    with metrics.path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2: .*delete"):
        metrics.read()
