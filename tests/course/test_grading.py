"""Whatever the code does, each part gets a grade, and a clear line."""

import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from loading import ROOT

from transformer_lite.cli import main
from transformer_lite.data.corpora import load_corpus
from transformer_lite_course import grading, toy_training
from transformer_lite_course.grading import grade
from transformer_lite_course.parts import PARTS, write_skeleton

SOLUTIONS = ROOT / "tests/course/solutions"
HEAD = "def causal_mask(length):\n    pass\n\n\ndef padding_mask(ids, pad_id):\n    "


@pytest.fixture
def mine(tmp_path):
    folder = tmp_path / "mine"
    write_skeleton(folder)
    return folder


def said_of(folder, body):
    (folder / "masks.py").write_text(HEAD + body)
    (found,) = grade(folder, ["masks"])
    assert found.state == "fails"
    return found


def test_nothing_of_a_new_folder_is_written(mine):
    assert {one.state for one in grade(mine, list(PARTS))} == {"not written"}


def test_a_new_folder_overwrites_nothing(mine):
    with pytest.raises(ValueError, match="already there"):
        write_skeleton(mine)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("exit()", "calls exit"),
        ("import os; os._exit(3)", "ends its process, with status 3"),
        ("raise KeyError('x')", "masks.py, line 6: the code stops with KeyError"),
        ("raise KeyboardInterrupt", "ends its process"),
        ("return ids.undefined", "line 6: the code stops with AttributeError"),
        ("raise NotImplementedError", "line 6: this function is not written yet"),
        ("import no_such", "ModuleNotFoundError"),
        ("return ids[", "not Python"),
        ("return padding_mask(ids, pad_id)", "RecursionError"),
    ],
)
def test_code_that_stops_gets_a_clear_line(mine, body, sentence):
    assert sentence in said_of(mine, body).sentence


def test_a_loop_without_end_is_ended(mine, monkeypatch):
    monkeypatch.setattr(grading, "SECONDS", 1)
    assert "has a loop no end?" in said_of(mine, "while True:\n        pass").sentence


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_memory_has_a_limit(mine):
    assert "4 GB" in said_of(mine, "return bytearray(2**34)").sentence


def test_a_million_lines_are_counted_and_not_shown(mine):
    body = "for i in range(1_000_000):\n        print(i)\n    exit()"
    found = said_of(mine, body)
    assert found.printed.splitlines()[0] == "0"
    assert found.printed.splitlines()[-1] == "… and 999,990 more lines"


def test_the_other_parts_are_still_graded(mine):
    for name in PARTS:
        shutil.copy(SOLUTIONS / f"{name}.py", mine)
    (mine / "masks.py").write_text(HEAD + "import os; os._exit(1)")
    states = {one.part: one.state for one in grade(mine, list(PARTS))}
    assert states.pop("masks") == "fails"
    assert set(states.values()) == {"holds"}


def test_a_part_is_graded_with_the_books_other_parts(mine):
    shutil.copy(SOLUTIONS / "heads.py", mine)
    (mine / "attention.py").write_text("raise ValueError('broken')")
    (found,) = grade(mine, ["heads"])
    assert found.state == "holds"


def test_the_command_line_prints_a_table_and_one_sentence(mine, capfd):
    shutil.copy(SOLUTIONS / "masks.py", mine)
    wrong = (SOLUTIONS / "loss.py").read_text().replace("!= pad_id", "!= 0")
    (mine / "loss.py").write_text(wrong)
    with pytest.raises(SystemExit) as ended:
        main(["grade", str(mine), "masks", "loss"])
    assert ended.value.code == 1
    said = capfd.readouterr().out
    assert re.search(r"masks +holds\nloss +fails\n1 of 2 parts hold\nloss: ", said)
    assert "05_4_regularization.html" in said


def test_the_command_line_prints_json(mine, capfd):
    shutil.copy(SOLUTIONS / "masks.py", mine)
    with pytest.raises(SystemExit) as ended:
        main(["grade", str(mine), "masks", "--json"])
    assert ended.value.code == 0
    (only,) = json.loads(capfd.readouterr().out)
    assert (only["part"], only["state"], only["sentence"]) == ("masks", "holds", "")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["grade", "nowhere"], "no such folder"),
        (["grade", "{mine}", "maks"], "did you mean masks"),
        (["grade", "{mine}", "--json", "--watch"], "leave out --watch"),
        (["exercise", "{mine}"], "already there"),
    ],
)
def test_a_wrong_command_gets_one_line(mine, words, error, capfd):
    with pytest.raises(SystemExit) as ended:
        main([word.format(mine=mine) for word in words])
    assert ended.value.code == 2
    assert error in capfd.readouterr().err


@pytest.fixture
def small(monkeypatch):
    """A corpus of a few sentences, and the options of a small model."""

    def few(name):
        whole = load_corpus(name)
        splits = {split: pairs[:300] for split, pairs in whole.splits.items()}
        return replace(whole, splits=splits)

    monkeypatch.setattr(toy_training, "load_corpus", few)
    monkeypatch.setattr(toy_training, "VOCAB_SIZE", 150)
    monkeypatch.setattr(toy_training, "TESTED", 2)
    return ["--model.d-model", "32", "--model.d-ff", "32", "--train.max-steps", "3"]


def test_training_is_by_the_readers_parts(mine, small, capfd):
    for name in PARTS:
        shutil.copy(SOLUTIONS / f"{name}.py", mine)
    mark = "    print('my own step')\n    optimizer.zero_grad()\n    total"
    source = (mine / "schedule.py").read_text()
    (mine / "schedule.py").write_text(
        source.replace("    optimizer.zero_grad()\n    total", mark)
    )
    main(["train-parts", str(mine), *small])
    said = capfd.readouterr().out
    assert said.count("my own step") == 3
    assert re.search(r"\d+ of 2 test sentences", said)


def test_the_books_parts_stand_in_where_nothing_is_written(mine, small, capfd):
    main(["train-parts", str(mine), *small])
    assert "yours: nothing yet" in capfd.readouterr().out


def test_saving_a_file_grades_it_again(mine, tmp_path):
    command = [sys.executable, "-m", "transformer_lite", "grade", str(mine)]
    log = tmp_path / "log"
    with log.open("w") as file:
        watching = subprocess.Popen(
            [*command, "masks", "--watch"], stdout=file, cwd=ROOT
        )
    try:
        _wait_for(log, "not written")
        shutil.copy(SOLUTIONS / "masks.py", mine)
        _wait_for(log, "holds")
    finally:
        watching.kill()
        watching.wait()


def _wait_for(log: Path, word: str) -> None:
    ends = time.monotonic() + 60
    while word not in log.read_text():
        assert time.monotonic() < ends
        time.sleep(0.1)


def test_a_loss_that_is_not_finite_ends_the_training(mine, small, capfd):
    (mine / "loss.py").write_text(
        "def label_smoothed_loss(logits, labels, smoothing, pad_id):\n"
        "    return logits.sum() * float('nan'), labels.sum()\n"
    )
    with pytest.raises(SystemExit):
        main(["train-parts", str(mine), *small])
    assert "step 1: the loss is nan" in capfd.readouterr().err
