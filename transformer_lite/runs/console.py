"""What a long piece of work says and hears: progress, messages, signals to stop.

Paper: –
Chapter: the_multi_gpu_trainer
Tests: tests/package/runs/test_console.py
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from traceback import walk_stack
from types import FrameType
from typing import Any

from tqdm import tqdm

FIRST_SECONDS, SECONDS = 10, 60
"""Until the first line in a file, and from one to the next."""
LINE = "{desc}{n_fmt} of {total_fmt} {unit}s, {elapsed}, {rate_fmt}{postfix}\n"

MOST_MESSAGES = 10
"""Messages of a kind; of a binary file each line is one."""

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a process to end. SIGINT is Ctrl-C, SIGHUP a closed terminal."""

OUTPUT_ERRORS_IGNORED = suppress(OSError, RuntimeError, ValueError)
"""Goes on where nobody reads: a full disk, a closed pipe, a signal in between."""


tqdm.get_lock()  # makes it, before a signal can come in between


class Progress(tqdm):
    """tqdm's bar on a terminal, else a line soon, then one a minute."""

    _is_made = False  # a signal may come before, and then what is there is closed

    def __init__(self, *given: Any, **options: Any) -> None:
        self._due = time.monotonic() + FIRST_SECONDS
        super().__init__(*given, **options)
        self._is_made = True

    def display(self, *given: Any, **options: Any) -> None:
        """Draw the bar; in a file write a line, if a minute has passed."""
        with OUTPUT_ERRORS_IGNORED:
            if self.fp.isatty():
                super().display(*given, **options)
            elif time.monotonic() >= self._due:
                self._due = time.monotonic() + SECONDS
                line = self.format_dict | {"bar_format": LINE}
                self.fp.write(self.format_meter(**line))

    def clear(self, *given: Any, **options: Any) -> None:
        """Remove the bar for a message; what is in a file stays."""
        if self._is_made and not self.disable and self.fp.isatty():
            super().clear(*given, **options)

    def close(self) -> None:
        """End the bar's line; in a file there is none."""
        if not self._is_made:
            return
        if not self.disable and not self.fp.isatty():
            self.sp = None  # tqdm takes this for a window, and writes nothing
        with OUTPUT_ERRORS_IGNORED:
            super().close()


def tell(message: str) -> None:
    """Write a line to standard error, above a bar if there is one.

    What a terminal takes for a command is escaped. If nobody reads the line, the work
    goes on.
    """
    shown = (c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in message)
    with OUTPUT_ERRORS_IGNORED:
        tqdm.write("".join(shown), file=sys.stderr)


def tell_first(message: str, told: list[str]) -> None:
    """Tell a message, if there are few of its kind so far, and add it to them."""
    told.append(message)
    if len(told) <= MOST_MESSAGES:
        tell(message)


@contextmanager
def stop_signals_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let a handler receive the signals that ask to end, as long as the block runs.

    Those that are ignored stay so, as SIGHUP under nohup.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():  # Python allows no other
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, for a process that cleans up at the end.

    In the middle of an import C++ may abort on an error. Then the signal comes again.
    """
    files = (frame.f_code.co_filename for frame, _ in walk_stack(frame))
    if any(file.startswith("<frozen importlib") for file in files):
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
    else:
        raise KeyboardInterrupt
