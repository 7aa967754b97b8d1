"""Grading: each part in a process of its own, with limits of time and memory.

It works on Linux and macOS; the limit of memory is Linux's.

Paper: §3, 5.1, 5.3–5.4, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_grading.py
"""

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from pathlib import Path

from transformer_lite_course.checks import CHECKS
from transformer_lite_course.comparison import MistakeError
from transformer_lite_course.parts import PARTS, Part, is_written, load_parts, place_of

SECONDS = 60
"""Longest time that a part may take; the book's takes less than two."""

BYTES = 4 * 2**30
"""Most memory that a part may take."""

OUTPUT = 2**26
"""Most bytes that a part may print, or write into another file."""

SHOWN_LINES, SHOWN_BYTES = 10, 2000
"""How much of what a part prints is shown."""

SHOWN_CHARACTERS = 500
"""How much of a sentence is shown; an error's message may be of any length."""


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


def grade_parts(folder: Path, names: Sequence[str]) -> Iterator[Grade]:
    """Yield the grade of each part, as soon as it is known.

    Args:
        folder: The reader's files.
        names: Which parts.
    """
    context = _start_server()
    for name in names:
        try:
            if is_written(folder / f"{name}.py"):
                yield _grade(context, folder, PARTS[name])
            else:
                yield Grade(name, "not written")
        except (OSError, ValueError) as error:
            yield Grade(name, "fails", f"{error}.", PARTS[name].link)


def _start_server() -> BaseContext:
    """Start a server that loads PyTorch once and forks a process for each part."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    usual = tempfile.gettempdir()
    if len(usual) > 60:  # a socket's path has at most 104 bytes
        tempfile.tempdir = "/tmp"
    forkserver.ensure_running()
    tempfile.tempdir = usual
    return context


def _grade(context: BaseContext, folder: Path, part: Part) -> Grade:
    """Check a part in a process that ends after `SECONDS` at the latest."""
    with tempfile.NamedTemporaryFile() as output:
        verdict, of_process = context.Pipe(duplex=False)
        arguments = (folder, part.name, of_process, output.name)
        process = context.Process(target=_check, args=arguments, daemon=True)
        process.start()
        of_process.close()
        sentence = f"The code takes more than {SECONDS} seconds; has a loop no end?"
        killed = "The code kills the process that started it; leave that out."
        try:
            if verdict.poll(SECONDS):
                sentence = verdict.recv() or ""
                process.join(timeout=1)
                sentence = killed if process.exitcode else sentence
        except EOFError:
            sentence = killed
        finally:
            with suppress(OSError):  # there may be no process left
                os.killpg(process.pid, signal.SIGKILL)
            process.join()
        printed = _beginning(output.read())
    if (rest := len(sentence) - SHOWN_CHARACTERS) > 0:
        sentence = f"{sentence[:SHOWN_CHARACTERS]} … and {rest:,} more characters."
    state, link = ("fails", part.link) if sentence else ("holds", "")
    return Grade(part.name, state, sentence, link, printed)


def _beginning(output: bytes) -> str:
    """Return the first lines, and how much is left out."""
    beginning = output[:SHOWN_BYTES].decode("utf-8", "replace")
    lines = beginning.splitlines()[:SHOWN_LINES]
    if (rest := output.count(b"\n") - len(lines)) > 0:
        lines.append(f"… and {rest:,} more lines")
    elif (rest := len(output) - SHOWN_BYTES) > 0:
        lines.append(f"… and {rest:,} more bytes")
    return "\n".join(lines)


def _check(folder: Path, name: str, verdict: Connection, output: str) -> None:
    """Check a part in a child; send what is wrong, or None.

    The child's parent is this process, so that the code can kill no other.
    """
    import resource  # Windows has none, and can still import this module

    os.setsid()  # so the grader can end this process with all that it has started
    # Whatever the terminal's encoding is, the output is UTF-8.
    sys.stdout = open(output, "w", encoding="utf-8", errors="backslashreplace")
    sys.stderr = sys.stdout
    for stream in (1, 2):
        os.dup2(sys.stdout.fileno(), stream)
    if child := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            verdict.send(f"The code ends its process, with status {status}.")
        return
    for limit, most in ((resource.RLIMIT_DATA, BYTES), (resource.RLIMIT_FSIZE, OUTPUT)):
        resource.setrlimit(limit, (most, resource.getrlimit(limit)[1]))
    sentence = failure(folder, name)
    with suppress(OSError):  # more is printed than a file may hold
        sys.stdout.flush()
    verdict.send(sentence)
    os._exit(0)


def failure(folder: Path, name: str) -> str | None:
    """Check a part in this process; return what is wrong, or None.

    Every other part is the book's.
    """
    try:
        CHECKS[name](load_parts(folder, [name])[name])
    except MistakeError as mistake:
        return str(mistake)
    except NotImplementedError as error:
        return f"{place_of(error, folder)}: this function is not written yet."
    except (SystemExit, KeyboardInterrupt) as error:
        call = "calls exit" if isinstance(error, SystemExit) else "interrupts itself"
        return f"The code {call}; leave that out."
    except Exception as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            return f"The code takes more than {BYTES / 2**30:.0f} GB of memory."
        message = str(error).strip().partition("\n")[0]
        kind = type(error).__name__
        return f"{place_of(error, folder)}: the code stops with {kind}: {message}"
    return None
