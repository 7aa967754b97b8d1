"""Grading: each part in a process of its own, with limits of time and memory.

Paper: §3, 5.1, 5.3–5.4, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_grading.py
"""

import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from transformer_lite_course.checks import CHECKS
from transformer_lite_course.comparing import Fault
from transformer_lite_course.parts import PARTS, Part, is_written, load_parts

SECONDS = 60
"""Longest time that a part may take; the book's takes less than two."""

BYTES = 4 * 2**30
"""Most memory that a part may take."""

SHOWN_LINES = 10
"""Lines of what a part prints that are shown."""


@dataclass(frozen=True)
class Grade:
    """What came out for one part."""

    part: str
    state: str
    """ "holds", "fails" or "not written"."""
    sentence: str = ""
    """What is wrong, if it fails."""
    chapter: str = ""
    """Address of the chapter to look at, if it fails."""
    printed: str = ""
    """The beginning of what the code printed."""


def failure(folder: Path, name: str) -> str | None:
    """Check a part in this process; return what is wrong, or None.

    Every other part is the book's.
    """
    try:
        CHECKS[name](load_parts(folder, [name])[name])
    except Fault as fault:
        return str(fault)
    except NotImplementedError as error:
        return f"{_place(error, folder)}: this function is not written yet."
    except SystemExit:
        return "The code calls exit; leave that out."
    except Exception as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            return f"The code takes more than {BYTES / 2**30:.0f} GB of memory."
        message = str(error).strip().splitlines() or [""]
        kind = type(error).__name__
        return f"{_place(error, folder)}: the code stops with {kind}: {message[0]}"
    return None


def _place(error: Exception, folder: Path) -> str:
    """Return the last line of the reader's code that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).parent.resolve() == folder.resolve()]
    if not own:
        return "Called by the check"
    return f"{Path(own[-1].filename).name}, line {own[-1].lineno}"


def grade(folder: Path, names: Sequence[str]) -> Iterator[Grade]:
    """Yield the grade of each part, as soon as it is known.

    Args:
        folder: The reader's files.
        names: Which parts.
    """
    # A server that has loaded PyTorch once forks a process for each part.
    has_server = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if has_server else "spawn")
    if has_server:
        context.set_forkserver_preload([__name__])
    for name in names:
        part = PARTS[name]
        try:
            written = is_written(folder / f"{name}.py")
        except ValueError as error:
            yield Grade(name, "fails", f"{error}.", part.link)
            continue
        if not written:
            yield Grade(name, "not written")
        else:
            yield _in_process(context, folder, part)


def _in_process(
    context: multiprocessing.context.BaseContext, folder: Path, part: Part
) -> Grade:
    """Check a part in a process that ends after `SECONDS` at the latest."""
    verdict, of_child = context.Pipe(duplex=False)
    output, of_output = context.Pipe(duplex=False)
    process = context.Process(
        target=_check, args=(folder, part.name, of_child, of_output), daemon=True
    )
    process.start()
    of_child.close()
    of_output.close()
    printed, ends = _Printed(output), time.monotonic() + SECONDS
    while not verdict.poll() and time.monotonic() < ends:
        printed.read(seconds=0.05)
    try:
        said = f"The code takes more than {SECONDS} seconds; has a loop no end?"
        if verdict.poll():
            said = verdict.recv()
    except EOFError:  # the process has ended without a verdict
        process.join()
        said = f"The code ends its process, with status {process.exitcode}."
    printed.read(seconds=0.0)
    process.kill()
    process.join()
    state = "fails" if said else "holds"
    link = part.link if said else ""
    return Grade(part.name, state, said or "", link, printed.shown())


class _Printed:
    """The first lines that a process printed, and the number of all lines."""

    def __init__(self, output: Connection) -> None:
        self._output = output
        self._kept = b""
        self._lines = 0

    def read(self, seconds: float) -> None:
        """Read what has arrived; wait at most `seconds` for more."""
        ends = time.monotonic() + seconds
        while self._output.poll(max(0.0, ends - time.monotonic())):
            chunk = os.read(self._output.fileno(), 2**16)
            if not chunk:  # the process has ended
                time.sleep(seconds)
                return
            self._lines += chunk.count(b"\n")
            if self._kept.count(b"\n") < SHOWN_LINES:
                self._kept += chunk
            if time.monotonic() > ends:
                return

    def shown(self) -> str:
        """Return the first lines."""
        lines = self._kept.decode("utf-8", "replace").splitlines()
        rest = self._lines - SHOWN_LINES
        more = [f"… and {rest:,} more lines"] if rest > 0 else []
        return "\n".join([line[:200] for line in lines[:SHOWN_LINES]] + more)


def _check(folder: Path, name: str, verdict: Connection, output: Connection) -> None:
    """Check a part as the work of a process of its own."""
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)
    try:
        import resource  # not on Windows
    except ImportError:
        pass
    else:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (BYTES, most))
    found = failure(folder, name)
    sys.stdout.flush()
    verdict.send(found)
