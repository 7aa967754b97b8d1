"""What a result depends on: the commit, the versions, the machine, the text."""

import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from transformer_lite.data.store import SIDES, PreparedCorpus

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("transformer-lite-book", "torch", "sentencepiece", "sacrebleu", "numpy")
CODE = (
    "transformer_lite",
    "transformer_lite_book/*.py",
    "results/*.py",
    "results/runs.toml",
    "results/recipes",
    # Results are written there, and no other result depends on them.
    ":(exclude)transformer_lite_book/*.json",
    ":(exclude)transformer_lite_book/*.safetensors",
    ":(exclude)transformer_lite/pretrained",
)
"""Git pathspecs of the code that a result depends on."""


def commit(code: Iterable[str] = CODE) -> str:
    """Return the commit of this repository, marked "-dirty" if `code` was changed."""
    name = _git("rev-parse", "--short=12", "HEAD")
    return f"{name}-dirty" if _git("status", "--porcelain", "--", *code) else name


def recorded_commit() -> str | None:
    """Return the commit, or where no history has travelled along what COMMIT says."""
    if named := os.environ.get("COMMIT"):
        return named
    try:
        return commit()
    except (OSError, subprocess.CalledProcessError):
        return None


def require_clean() -> str:
    """Return the commit, after checking that the code is as it was committed.

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
    """Return the processor's name, where Linux tells it, else its architecture."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the version of each package that is installed."""
    found = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def conditions() -> dict[str, Any]:
    """Return the versions of what computes, and what it computes on."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "versions": versions(PACKAGES),
        "python": platform.python_version(),
        "hardware": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": gpu,
        },
    }


def checksums(corpus: PreparedCorpus) -> dict[str, str]:
    """Return the SHA-256 of each side of each split ("train.src"), and "tokenizer"."""
    sides = [f"{split}.{side}" for split in corpus.sizes for side in SIDES]
    files = {side: f"{side}.txt" for side in sides} | {"tokenizer": "tokenizer.model"}
    return {name: corpus.sha256[file] for name, file in files.items()}
