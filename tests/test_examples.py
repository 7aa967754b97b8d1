"""The examples run."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_training_by_hand_lowers_the_loss(tmp_path):
    options = ["--num-pairs", "200", "--steps", "51", "--batch-size", "8"]
    shown = subprocess.run(
        [sys.executable, ROOT / "examples" / "train_by_hand.py", *options],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        cwd=tmp_path,
    ).stdout
    first, *_, last = map(float, re.findall(r"loss (\S+)", shown))
    assert last < first - 0.5
    assert shown.count("translation  ") == 3
