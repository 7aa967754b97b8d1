"""What a benchmark ran on: the processor, the versions, the commit."""

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def processor() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(": ")[2]
    return platform.processor()


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """Of each package the version; None where it is missing."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def commit() -> str | None:
    """The commit that is checked out, with a + where files have been changed since.

    Where only the files are, without Git's folder, the variable COMMIT can say it.
    """
    if given := os.environ.get("COMMIT"):
        return given
    ask = {"cwd": ROOT, "text": True, "stderr": subprocess.DEVNULL}
    try:
        head = ["git", "rev-parse", "--short=12", "HEAD"]
        changes = ["git", "status", "--porcelain", "--untracked-files=no"]
        hashed = subprocess.check_output(head, **ask).strip()
        return hashed + "+" * bool(subprocess.check_output(changes, **ask).strip())
    except (OSError, subprocess.CalledProcessError):
        return None
