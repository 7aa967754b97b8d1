"""Progress is a bar on a terminal, and in a file a line now and then."""

import gc
import io
import signal
import sys
import time

import pytest
from tqdm import tqdm

from transformer_lite.runs import console
from transformer_lite.runs.console import Progress, interrupt, stop_signals_to, tell


class Terminal(io.StringIO):
    def isatty(self):
        return True


def written(stream, number=6):
    with Progress(total=number, unit="step", file=stream) as bar:
        for done in range(1, number + 1):
            bar.set_postfix_str(f"loss {done}", refresh=False)
            bar.update()
            if done == 3:
                tqdm.write("half of it", file=stream)
    return stream.getvalue()


def test_quick_work_leaves_messages_alone_in_a_file():
    assert written(io.StringIO()) == "half of it\n"


def test_a_file_gets_a_line_soon_and_then_one_a_minute(monkeypatch):
    monkeypatch.setattr(console, "FIRST_SECONDS", 0)
    assert len(written(io.StringIO()).splitlines()) == 2  # and the next in a minute
    monkeypatch.setattr(console, "SECONDS", 0)
    lines = written(io.StringIO()).splitlines()
    assert "\r" not in "".join(lines)
    assert "half of it" in lines
    assert any("of 6 steps, 00:00, " in line for line in lines)


def test_a_terminal_gets_a_bar():
    shown = written(Terminal())
    assert "\r100%|" in shown
    assert shown.count("\n") == 2


class Full(io.StringIO):
    """A file on a full disk."""

    def write(self, _):
        raise OSError("No space left on device")


class FullTerminal(Full, Terminal):
    pass


@pytest.mark.parametrize("stream", [Full, FullTerminal])
def test_no_work_ends_where_nobody_can_read_of_it(monkeypatch, stream):
    for name in ("FIRST_SECONDS", "SECONDS"):
        monkeypatch.setattr(console, name, 0)
    monkeypatch.setattr("sys.stderr", stream())
    with Progress(range(30), file=stream()) as work:
        assert sum(1 for _ in work) == 30
    tell("half of it")


def test_ctrl_c_waits_until_a_library_is_loaded(tmp_path, monkeypatch):
    (tmp_path / "library.py").write_text(
        "import signal, time\n"
        "signal.raise_signal(signal.SIGINT)\n"
        "time.sleep(0.2)\n"
        "LOADED = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    library = None
    # A script's program in the background ignores Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), stop_signals_to(interrupt):  # noqa: PT012
            import library

            time.sleep(60)
    finally:
        signal.signal(signal.SIGINT, before)
    assert library.LOADED


def test_an_ignored_signal_stays_ignored():
    heard = []
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals_to(lambda number, _: heard.append(number)):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert not heard


def test_a_bar_that_is_stopped_while_it_is_made_ends_silently(monkeypatch):
    """Ctrl-C may come in front of any line of tqdm's `__init__`."""
    unraised, lines = [], []
    monkeypatch.setattr(sys, "unraisablehook", unraised.append)

    def stopped_at(number):
        def trace(frame, event, _):
            if frame.f_code.co_qualname != "tqdm.__init__":
                return None
            if event == "line":
                lines.append(frame.f_lineno)
                if len(lines) == number:
                    raise KeyboardInterrupt
            return trace

        lines.clear()
        sys.settrace(trace)
        try:
            Progress(total=3, file=io.StringIO()).close()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    number = 1
    while stopped_at(number):
        number += 1
    gc.collect()
    assert number > 40  # there are so many lines
    assert not unraised
