"""The examples run."""

import ast
import re
import subprocess
import sys

import nbformat
from loading import ROOT, load


def test_training_by_hand_lowers_the_loss(tmp_path):
    options = ["--num-pairs", "200", "--steps", "51", "--batch-size", "8"]
    shown = subprocess.run(
        [sys.executable, ROOT / "examples" / "train_by_hand.py", *options],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
    ).stdout
    first, *_, last = map(float, re.findall(r"loss (\S+)", shown))
    assert last < first - 0.5
    assert shown.count("translation  ") == 3


def test_the_course_in_colab_has_the_parts_of_the_course():
    tool = load("tools/make_course.py")
    written = nbformat.read(tool.PATH, as_version=4)
    assert written == tool.course(), "run: book/tools/make_course.py"
    for cell in written.cells:
        if cell.source.startswith("%%writefile"):
            ast.parse(cell.source.partition("\n")[2])
