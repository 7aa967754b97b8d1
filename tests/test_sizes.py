"""The repository stays light: to clone, and to carry to a machine with a GPU."""

import subprocess

import pytest
from loading import ROOT

LARGE = [
    "transformer_lite/pretrained/craft_parser/checkpoints/average.safetensors",
    "transformer_lite/pretrained/tatoeba_en_de/checkpoints/average.safetensors",
    "transformer_lite/pretrained/tatoeba_en_de_wide/checkpoints/average.safetensors",
]
"""Weights, which alone may be large."""


@pytest.fixture(scope="module")
def sizes():
    """The bytes of every file that git keeps and that is there."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a clone")
    command = ["git", "ls-files", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    paths = [ROOT / name for name in names.split("\0")[:-1]]
    return {
        str(path.relative_to(ROOT)): path.stat().st_size
        for path in paths
        if path.exists()
    }


def test_no_file_but_weights_is_larger_than_2_mb(sizes):
    assert sorted(name for name in sizes if sizes[name] > 2e6) == LARGE


def test_all_files_take_at_most_48_mb(sizes):
    assert len(sizes) > 300
    assert sum(sizes.values()) <= 48e6
