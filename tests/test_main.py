"""What the command line sees to before it loads PyTorch."""

import os
import re
import subprocess
import sys

import pytest


def spins(tmp_path, **environment):
    """How often a thread of the command line looks whether it has work."""
    nowhere = tmp_path / "nowhere"
    command = ["train", "toy", "--data", nowhere, "--out", tmp_path / "run"]
    ended = subprocess.run(
        [sys.executable, "-m", "transformer_lite", *command],
        env={**os.environ, "OMP_DISPLAY_ENV": "verbose", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "nowhere: not a prepared corpus" in ended.stderr
    found = re.search(r"GOMP_SPINCOUNT = '(\d+)'", ended.stderr)
    if found is None:
        pytest.skip("this PyTorch does not use GNU's OpenMP")
    return int(found[1])


def test_threads_do_not_spin_while_they_wait(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    assert spins(tmp_path) == 0


def test_whoever_asks_for_spinning_threads_gets_them(tmp_path):
    assert spins(tmp_path, OMP_WAIT_POLICY="ACTIVE") > 0
