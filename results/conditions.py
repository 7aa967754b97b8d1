"""What a result was computed by: the commit, the versions, the machine."""

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("transformer-lite-book", "torch", "sentencepiece", "sacrebleu", "numpy")
CODE = (
    "transformer_lite",
    "results/*.py",
    "results/recipes",
    # What results are made into is no cause of other results.
    ":(exclude)transformer_lite/book/*.json",
    ":(exclude)transformer_lite/book/*.safetensors",
    ":(exclude)transformer_lite/pretrained",
)
"""What a result depends on, of all that the repository holds."""


def commit() -> str:
    """The commit of this repository, marked "-dirty" if its code was changed since."""
    # Not `git describe`, which names a tag where there is one, and which a result that
    # was deleted to be made again, or the page of results, would make dirty.
    name = _git("rev-parse", "--short=12", "HEAD")
    return f"{name}-dirty" if _git("status", "--porcelain", "--", *CODE) else name


def require_clean() -> str:
    """The commit, after seeing that the code is as it was committed.

    Raises:
        SystemExit: It is not, so that no commit says what the result was made by.
    """
    name = commit()
    if name.endswith("-dirty"):
        sys.exit("commit your changes first: a result names the commit it was made at")
    return name


def _git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.strip()


def processor() -> str:
    """The processor's name, where Linux tells it, else its architecture."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()


def conditions() -> dict[str, Any]:
    """The versions of what computes, and what it computes on."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "versions": {name: version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "hardware": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": gpu,
        },
    }
