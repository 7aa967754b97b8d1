"""Whatever the code does, each part gets a grade, and a clear line."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from loading import ROOT
from unchecked import unchecked

from transformer_lite.cli import main
from transformer_lite.data.corpora import load_corpus
from transformer_lite_course import grading, toy_training
from transformer_lite_course.grading import grade_parts
from transformer_lite_course.parts import PARTS, SKELETON, write_skeleton

SOLUTIONS = ROOT / "tests/course/solutions"
HEAD = "def causal_mask(length):\n    pass\n\n\ndef padding_mask(ids, pad_id):\n    "


@pytest.fixture
def parts(tmp_path):
    folder = tmp_path / "parts"
    write_skeleton(folder)
    return folder


def grade_of(folder, body):
    (folder / "masks.py").write_text(HEAD + body)
    (grade,) = grade_parts(folder, ["masks"])
    assert grade.state == "fails"
    return grade


def test_nothing_of_a_new_folder_is_written(parts):
    assert {grade.state for grade in grade_parts(parts, list(PARTS))} == {"not written"}


def test_a_new_folder_overwrites_nothing(parts):
    with pytest.raises(ValueError, match="already there"):
        write_skeleton(parts)


RIGHT = SOLUTIONS / "masks.py"
UNWRITTEN = (SKELETON / "masks.py").read_text("utf-8")
AS_LAMBDA = (
    "\ncausal_mask = lambda length: torch.ones(length, length, dtype=bool).tril()"
    "\npadding_mask = lambda ids, pad_id: (ids != pad_id)[:, None, None]\n"
)


@pytest.mark.parametrize(
    "source",
    [
        f"import torch\n{AS_LAMBDA}",
        f"{UNWRITTEN}\nimport torch\n{AS_LAMBDA}",
        "from solution import causal_mask, padding_mask",
        f"{UNWRITTEN}\nfrom solution import *\n",
        "class Masks:\n    from solution import causal_mask, padding_mask\n"
        "causal_mask, padding_mask = Masks.causal_mask, Masks.padding_mask\n",
    ],
    ids=["lambda", "lambda below", "import", "import below", "class"],
)
def test_a_part_may_be_written_in_any_way(parts, source, monkeypatch):
    shutil.copy(RIGHT, parts / "solution.py")
    path = f"import sys; sys.path.insert(0, {str(parts)!r})\n"
    (parts / "masks.py").write_text(path + source, "utf-8")
    (grade,) = grade_parts(parts, ["masks"])
    assert (grade.state, grade.sentence) == ("holds", "")


def test_comments_and_imports_do_not_make_a_part_written(parts):
    source = UNWRITTEN.replace('"""', '"""My ', 1).replace("from", "import torch\nfrom")
    (parts / "masks.py").write_text(f"# Mine\n{source}", "utf-8")
    (grade,) = grade_parts(parts, ["masks"])
    assert grade.state == "not written"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("exit()", "calls exit"),
        ("import os; os._exit(3)", "ends its process, with status 3"),
        ("raise KeyError('x')", "masks.py, line 6: the code stops with KeyError"),
        ("raise KeyboardInterrupt", "interrupts itself; leave that out"),
        ("return ids.undefined", "line 6: the code stops with AttributeError"),
        ("raise NotImplementedError", "line 6: this function is not written yet"),
        ("import no_such", "ModuleNotFoundError"),
        ("return ids[", "not Python"),
        ("return padding_mask(ids, pad_id)", "RecursionError"),
        (
            "while True:\n        print('x' * 10**6)",
            "OSError: [Errno 27] File too large",
        ),
    ],
)
def test_code_that_stops_gets_a_clear_line(parts, body, sentence):
    assert sentence in grade_of(parts, body).sentence


def test_a_loop_without_end_is_ended(parts, monkeypatch):
    monkeypatch.setattr(grading, "SECONDS", 1)
    assert "has a loop no end?" in grade_of(parts, "while True:\n        pass").sentence


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_memory_has_a_limit(parts):
    assert "4 GB" in grade_of(parts, "return bytearray(2**34)").sentence


def test_a_million_lines_are_counted_and_not_shown(parts):
    body = "for i in range(1_000_000):\n        print(i)\n    exit()"
    lines = grade_of(parts, body).printed.splitlines()
    assert (len(lines), lines[0]) == (11, "0")
    assert lines[-1] == "… and 999,990 more lines"


def test_a_long_line_is_cut_and_its_rest_is_counted(parts):
    printed = grade_of(parts, "print('x' * 10_000_000)\n    exit()").printed
    assert printed == "x" * 2000 + "\n… and 9,998,001 more bytes"


def test_a_long_message_is_cut_and_its_rest_is_counted(parts):
    sentence = grade_of(parts, "raise ValueError('x' * 10_000_000)").sentence
    assert len(sentence) < 600
    assert re.search(r"x … and 9,999,5\d\d more characters\.$", sentence)


@pytest.mark.parametrize(
    "act",
    ["os.kill(os.getppid(), 9)", "os.kill(os.getppid(), 15)", "os.killpg(0, 9)"],
)
def test_code_may_kill_its_parent(parts, act):
    expected = "The code kills the process that started it; leave that out."
    body = f"import os; {act}\n    return (ids != pad_id)[:, None, None]"
    assert grade_of(parts, body).sentence == expected
    assert "calls exit" in grade_of(parts, "exit()").sentence


def test_what_the_code_starts_ends_with_it(parts, tmp_path):
    command = f"sleep 3; touch {tmp_path}/alive"
    grade_of(parts, f"import subprocess; subprocess.Popen({command!r}, shell=True)")
    time.sleep(4)
    assert not (tmp_path / "alive").exists()


def grade_masks_elsewhere(parts, **environment):
    """The sentence and what is printed, in a program with these variables."""
    program = (
        "import sys; from pathlib import Path\n"
        "from transformer_lite_course.grading import grade_parts\n"
        "(grade,) = grade_parts(Path(sys.argv[1]), ['masks'])\n"
        "print(ascii((grade.sentence, grade.printed)))\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, str(parts)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | environment,
    )
    assert process.returncode == 0, process.stderr
    return ast.literal_eval(process.stdout)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_code_may_print_what_the_terminal_cannot(parts, encoding):
    source = RIGHT.read_text("utf-8")
    printing = source.replace("    real =", "    print('√d_k \\udc80')\n    real =")
    (parts / "masks.py").write_text(printing, "utf-8")
    sentence, printed = grade_masks_elsewhere(parts, PYTHONIOENCODING=encoding)
    assert (sentence, printed) == ("", "√d_k \\udc80\n√d_k \\udc80")


def test_a_long_temporary_folder_is_no_hindrance(parts, tmp_path):
    shutil.copy(RIGHT, parts)
    folder = tmp_path / ("x" * 100)
    folder.mkdir()
    assert grade_masks_elsewhere(parts, TMPDIR=str(folder)) == ("", "")


def test_the_other_parts_are_still_graded(parts):
    for name in PARTS:
        shutil.copy(SOLUTIONS / f"{name}.py", parts)
    (parts / "masks.py").write_text(HEAD + "import os; os._exit(1)")
    states = {grade.part: grade.state for grade in grade_parts(parts, list(PARTS))}
    assert states.pop("masks") == "fails"
    assert set(states.values()) == {"holds"}


def test_a_part_is_graded_with_the_books_other_parts(parts):
    shutil.copy(SOLUTIONS / "heads.py", parts)
    (parts / "attention.py").write_text("raise ValueError('broken')")
    (grade,) = grade_parts(parts, ["heads"])
    assert grade.state == "holds"


def test_the_command_line_prints_a_table_and_one_sentence(parts, capfd):
    shutil.copy(SOLUTIONS / "masks.py", parts)
    wrong = (SOLUTIONS / "loss.py").read_text().replace("!= pad_id", "!= 0")
    (parts / "loss.py").write_text(wrong)
    with pytest.raises(SystemExit) as ended:
        main(["grade", str(parts), "masks", "loss"])
    assert ended.value.code == 1
    output = capfd.readouterr().out
    assert re.search(r"masks +holds\nloss +fails\n1 of 2 parts hold\nloss: ", output)
    assert "05_4_regularization.html" in output


def test_the_command_line_prints_json(parts, capfd):
    shutil.copy(SOLUTIONS / "masks.py", parts)
    with pytest.raises(SystemExit) as ended:
        main(["grade", str(parts), "masks", "--json"])
    assert ended.value.code == 0
    (only,) = json.loads(capfd.readouterr().out)
    assert (only["part"], only["state"], only["sentence"]) == ("masks", "holds", "")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["grade", "nowhere"], "nowhere: has no part, such as attention.py; give the"),
        (["grade", "{parts}/.."], "/..: has no part, such as attention.py; give the"),
        (["grade", "{parts}", "maks"], "did you mean masks"),
        (["grade", "{parts}", "--json", "--watch"], "leave out --watch"),
        (["exercise", "{parts}"], "there, perhaps with your work; give another folder"),
    ],
)
def test_a_wrong_command_gets_one_line(parts, words, error, capfd):
    with pytest.raises(SystemExit) as ended:
        main([word.format(parts=parts) for word in words])
    assert ended.value.code == 2
    assert error in capfd.readouterr().err


@pytest.fixture(scope="module")
def few():
    """A few sentences of the toy corpus."""
    with unchecked():
        whole = load_corpus("toy")
    splits = {split: pairs[:300] for split, pairs in whole.splits.items()}
    return replace(whole, splits=splits)


@pytest.fixture
def small(few, monkeypatch):
    """The options of a small model, which is trained on a few sentences."""
    monkeypatch.setattr(toy_training, "load_corpus", lambda name: few)
    monkeypatch.setattr(toy_training, "VOCAB_SIZE", 150)
    monkeypatch.setattr(toy_training, "TESTED", 2)
    return ["--model.d-model", "32", "--model.d-ff", "32", "--train.max-steps", "3"]


def test_training_is_by_the_readers_parts(parts, small, capfd):
    for name in PARTS:
        shutil.copy(SOLUTIONS / f"{name}.py", parts)
    mark = "    print('my own step')\n    optimizer.zero_grad()\n    total"
    source = (parts / "schedule.py").read_text()
    (parts / "schedule.py").write_text(
        source.replace("    optimizer.zero_grad()\n    total", mark)
    )
    main(["train-parts", str(parts), *small])
    output = capfd.readouterr().out
    assert output.count("my own step") == 3
    assert re.search(r"\d+ of 2 test sentences", output)


def test_the_books_parts_stand_in_where_nothing_is_written(parts, small, capfd):
    main(["train-parts", str(parts), *small])
    assert "yours: nothing yet" in capfd.readouterr().out


def test_only_settings_that_count_are_options(parts, capfd):
    with pytest.raises(SystemExit):
        main(["train-parts", "--help"])
    offered = re.findall(r" --[a-z][\w.-]*", capfd.readouterr().out)
    assert len(offered) == 5 + 6 + 1  # of the model, of the training, and --help
    with pytest.raises(SystemExit) as ended:
        main(["train-parts", str(parts), "--data", "mine"])
    assert ended.value.code == 2
    assert "error: unknown option --data; " in capfd.readouterr().err


def test_training_names_the_function_that_is_not_written(parts, small, capfd):
    source = (SOLUTIONS / "schedule.py").read_text("utf-8")
    begun = source.replace("    total, tokens = 0, 0", "    raise NotImplementedError")
    (parts / "schedule.py").write_text(begun, "utf-8")
    with pytest.raises(SystemExit):
        main(["train-parts", str(parts), *small])
    line = "schedule.py, line 7: this function is not written yet"
    assert line in capfd.readouterr().err


def test_saving_a_file_grades_it_again(parts, tmp_path):
    command = [sys.executable, "-m", "transformer_lite", "grade", str(parts)]
    log = tmp_path / "log"
    with log.open("w") as file:
        watching = subprocess.Popen(
            [*command, "masks", "--watch"], stdout=file, cwd=ROOT
        )
    try:
        _wait_for(
            log, f"watching masks.py in {parts}: what is saved is checked again; Ctrl-C"
        )
        assert "not written" in log.read_text()
        shutil.copy(SOLUTIONS / "masks.py", parts)
        _wait_for(log, "holds")
    finally:
        watching.kill()
        watching.wait()


def _wait_for(log: Path, word: str) -> None:
    ends = time.monotonic() + 60
    while word not in log.read_text():
        assert time.monotonic() < ends
        time.sleep(0.1)


def test_a_loss_that_is_not_finite_ends_the_training(parts, small, capfd):
    (parts / "loss.py").write_text(
        "def label_smoothed_loss(logits, labels, smoothing, pad_id):\n"
        "    return logits.sum() * float('nan'), labels.sum()\n"
    )
    with pytest.raises(SystemExit):
        main(["train-parts", str(parts), *small])
    assert "step 1: the loss is nan" in capfd.readouterr().err
