"""The files in which results are kept: whole or not at all."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from transformer_lite.runs.files import write_whole


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON.

    Raises:
        ValueError: A number is not finite, which JSON does not know.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(path, lambda partial: partial.write_text(text, "utf-8"))


def read_json(path: Path) -> Any:
    """Read the value in such a file.

    Raises:
        ValueError: It is not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        remedy = f"bring it back: git checkout -- {path}"
        raise ValueError(f"{path}: damaged ({error}); {remedy}") from None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to a gzipped file; equal lines make equal bytes."""
    text = "".join(f"{line}\n" for line in lines).encode("utf-8")
    packed = gzip.compress(text, mtime=0)
    write_whole(path, lambda partial: partial.write_bytes(packed))


def read_lines(path: Path) -> list[str]:
    """Read the lines of such a file."""
    return gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")[:-1]
