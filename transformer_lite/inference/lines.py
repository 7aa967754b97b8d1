"""Lines in and lines out: text is read as it arrives, and written as it is done.

Paper: –
Chapter: 06_1_machine_translation
Tests: tests/package/inference/test_lines.py
"""

import codecs
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from io import BufferedIOBase
from itertools import count
from pathlib import Path
from select import select
from typing import BinaryIO

from transformer_lite.runs.console import tell
from transformer_lite.runs.files import is_stream, naming, reason_of, replacing

READ_BYTES = 2**20
"""Most bytes that are read at once."""


def lines_in(
    file: BufferedIOBase, most: int, warn: Callable[[str], None]
) -> Iterator[list[str]]:
    """Yield the lines that have arrived; wait only while there is none.

    So whoever writes one line and waits is answered, and a long file comes in large
    blocks. Only a line feed ends a line.

    Args:
        warn: Called with a message for each line that is not UTF-8, which becomes
            empty.
    """
    numbers = count(1)
    for arrived in _arrived(file):
        lines = [_decoded(next(numbers), line, warn) for line in arrived]
        for start in range(0, len(lines), most):
            yield lines[start : start + most]


def _arrived(file: BufferedIOBase) -> Iterator[list[bytes]]:
    """Yield the lines that each reading of a file has completed."""
    rest = []
    while part := _part(file):
        first, *others = part.split(b"\n")
        rest.append(first)
        if others:
            *lines, last = b"".join(rest), *others
            rest = [last]
            yield lines
    if last := b"".join(rest):
        yield [last]


def _part(file: BufferedIOBase) -> bytes:
    """Return what has arrived; wait if nothing has, even where the file would not."""
    raw = getattr(file, "raw", file)
    try:
        while (part := raw.read(READ_BYTES)) is None:
            select([raw], [], [])
        return part
    except OSError as error:
        raise OSError(f"{raw.name}: cannot be read ({reason_of(error)})") from error


def _decoded(number: int, line: bytes, warn: Callable[[str], None]) -> str:
    """Return a line as text, without its end; empty if it is not UTF-8."""
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)  # as `corpora.lines_of` does
    try:
        text = line.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        warn(f"line {number}: not UTF-8 (byte {error.start + 1}), convert the text")
        return ""
    if "\0" in text:  # every other byte of UTF-16 is 0, and each half would pass
        warn(f"line {number}: contains a zero byte, convert UTF-16 to UTF-8")
        return ""
    return text


@contextmanager
def lines_out(path: Path | None) -> Iterator[BinaryIO]:
    """Yield a file to write, which takes the place of `path` at the end.

    A pipe or a device is written to as it is, and so is standard output, which None
    names too. After an error what was written stays, in a file of another name.

    Raises:
        ValueError: Standard output is closed.
        OSError: The file cannot be written.
    """
    if path is None or _is_standard_output(path):
        if sys.stdout is None:
            raise ValueError("standard output is closed; name a file with --out")
        sys.stdout.flush()
        output = nullcontext(sys.stdout.buffer)
    else:
        output = path.open("wb") if is_stream(path) else replacing(path, _keep)
    with naming(path or "standard output"), output as file:
        yield file
        file.flush()


def _is_standard_output(path: Path) -> bool:
    with suppress(OSError):  # it does not exist, or standard output is closed
        return os.path.samestat(path.stat(), os.fstat(1))
    return False


def _keep(partial: Path) -> None:
    if not partial.stat().st_size:
        return partial.unlink()
    tell(f"{partial}: keeps what was written so far")
