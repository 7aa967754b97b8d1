"""Processes that wait run programs as torchrun does, and end what hangs."""

import re

import pytest

from transformer_lite_course import processes as module
from transformer_lite_course.processes import (
    Waiting,
    in_two_processes,
    two_processes,
)

JOIN = """
from transformer_lite.training.distributed import join_processes
import time
from pathlib import Path

import torch
with join_processes() as processes:
    rank = processes.rank
"""


def program(folder, lines):
    """A file whose lines follow the meeting of the processes."""
    path = folder / "program.py"
    path.write_text(JOIN + "".join(f"    {line}\n" for line in lines))
    return path


def test_programs_run_one_after_the_other_and_say_what_they_print(tmp_path):
    total = "print(rank, int(processes.all_reduce(torch.tensor(10 + rank))))"
    for _ in range(2):
        said = two_processes().run(program(tmp_path, [total]))
        assert said == ["0 21\n", "1 21\n"]


def test_an_error_of_one_process_is_said_and_not_that_the_other_lost_it(tmp_path):
    lines = ["if rank: raise ValueError('wrong here')"]
    lines += ["processes.all_reduce(torch.tensor(1))"]
    with pytest.raises(RuntimeError, match="ValueError: wrong here"):
        two_processes().run(program(tmp_path, lines))
    assert two_processes().run(program(tmp_path, ["print(rank)"])) == ["0\n", "1\n"]


def test_a_hang_is_ended_and_the_next_program_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "ALONE_SECONDS", 1.0)
    waiting = Waiting(2)
    slow = program(tmp_path, ["print(rank)", "time.sleep(600 * rank)"])
    with pytest.raises(TimeoutError, match=re.escape("process 1 waits")):
        waiting.run(slow)
    assert waiting.run(program(tmp_path, ["print(rank)"])) == ["0\n", "1\n"]
    waiting.end()


NOTEBOOK = """
import torch
from torch import distributed as dist
from torch.distributed import all_reduce

OFFSET = torch.tensor(3.0)


def double(number):
    return 2 * number


@torch.no_grad()
def answer(number, *, factor=1.0):
    print("asked", number)
    total = OFFSET + sum(double(each) for each in range(number))
    all_reduce(total)
    return factor * total


def task(function, processes):
    return function(processes.rank + 2)
"""


def test_functions_are_sent_with_what_they_use_of_their_notebook(capsys):
    names = {"__name__": "__main__"}
    exec(NOTEBOOK, names)
    found = in_two_processes(names["answer"], names["task"])
    assert [int(each) for each in found] == [14, 14]  # 3 + 2 · 1 and 3 + 2 · (1 + 2)
    assert capsys.readouterr().out == "process 0: asked 2\nprocess 1: asked 3\n"


def test_processes_that_did_not_find_each_other_try_again(tmp_path):
    lines = [f"path = Path({str(tmp_path / 'tries')!r} + str(rank))"]
    lines += ["path.write_text((path.read_text() if path.exists() else '') + '.')"]
    lines += ["if len(path.read_text()) < 2: raise RuntimeError('connectFullMesh')"]
    lines += ["print(path.read_text())"]
    assert two_processes().run(program(tmp_path, lines)) == ["..\n", "..\n"]


def test_different_calls_of_the_processes_are_named(tmp_path):
    lines = ["processes.all_reduce(torch.zeros(1))"]
    lines += ["rank or processes.all_reduce(torch.zeros(1))"]
    with pytest.raises(RuntimeError, match="the processes made different calls"):
        two_processes().run(program(tmp_path, lines))
