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


def test_threads_soon_sleep_while_they_wait(tmp_path, monkeypatch):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    assert spins(tmp_path) == 10_000


def test_whoever_asks_for_sleeping_threads_gets_them(tmp_path, monkeypatch):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    assert spins(tmp_path, OMP_WAIT_POLICY="PASSIVE") == 0


def test_whoever_asks_for_spinning_threads_gets_them(tmp_path):
    assert spins(tmp_path, OMP_WAIT_POLICY="ACTIVE") > 10_000
