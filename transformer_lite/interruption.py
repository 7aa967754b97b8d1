"""Signals that ask a run to end, heard between two steps.

Paper: §5.2
Chapter: the_multi_gpu_trainer
Tests: tests/test_trainer.py
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that gets a signal's number in when one asks the run to end."""
    received: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield received
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
