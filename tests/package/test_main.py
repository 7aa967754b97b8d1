"""The command line as a process of its own."""

import os
import re
import subprocess
import sys

import pytest


def spins(tmp_path, **environment):
    """How often a thread of the command line looks whether it has work."""
    command = ["train", "toy", "--data", tmp_path / "nowhere", "--out", tmp_path / "o"]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GOMP_", "OMP_W"))}
    ended = subprocess.run(
        [sys.executable, "-m", "transformer_lite", *command],
        env={**kept, "OMP_DISPLAY_ENV": "verbose", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "nowhere: not a prepared corpus" in ended.stderr
    found = re.search(r"GOMP_SPINCOUNT = '(\d+)'", ended.stderr)
    if found is None:
        pytest.skip("this PyTorch does not use GNU's OpenMP")
    return int(found[1])


def test_threads_soon_sleep_while_they_wait(tmp_path):
    assert spins(tmp_path) == 10_000


def test_whoever_asks_for_sleeping_threads_gets_them(tmp_path):
    assert spins(tmp_path, OMP_WAIT_POLICY="PASSIVE") == 0


def test_help_flows_over_the_line_ends_of_the_source():
    # In a process of its own: the tests' checks of types wrap the verbs.
    shown = subprocess.run(
        [sys.executable, "-m", "transformer_lite", "prepare", "--help"],
        env={**os.environ, "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "wmt14 have en, de and fr; tatoeba has" in shown
