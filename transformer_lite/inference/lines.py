"""Lines in and lines out: text is read as it arrives, and written as it is done.

Paper: –
Chapter: 06_1_machine_translation
Tests: tests/package/inference/test_lines.py
"""

import codecs
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from itertools import count
from pathlib import Path

from transformer_lite.runs.files import require_writable

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
    rest = b""
    while part := file.read1(READ_BYTES):  # waits if nothing is there, else does not
        *lines, rest = (rest + part).split(b"\n")
        yield lines
    if rest:
        yield [rest]


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
def lines_out(path: Path | None) -> Iterator[BufferedIOBase]:
    """Yield a file beside `path` to write, renamed at the end; or standard output.

    After an error the file stays, with the lines that were done. Where `path` is a
    link, the file that it leads to is replaced.

    Raises:
        ValueError: The file cannot be written, lines of an interrupted translation lie
            there, or standard output is closed.
    """
    if path is None:
        if sys.stdout is None:
            raise ValueError("standard output is closed; name a file with --out")
        yield sys.stdout.buffer
        return
    require_writable(path)
    target = path.resolve()
    unfinished = target.with_name(target.name + ".unfinished")
    try:
        file = unfinished.open("xb")
    except FileExistsError:
        raise ValueError(
            f"{unfinished}: holds the lines of a translation that was interrupted; "
            "rename or delete it"
        ) from None
    try:
        with file:
            yield file
    except BaseException:
        if unfinished.stat().st_size:
            print(f"{unfinished}: keeps the lines translated so far", file=sys.stderr)
        else:
            unfinished.unlink()
        raise
    unfinished.replace(target)
