"""Progress is a bar on a terminal, and in a file a line now and then."""

import io

import pytest
from tqdm import tqdm

from transformer_lite.runs import progress
from transformer_lite.runs.progress import Progress, tell


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


def test_a_file_gets_a_line_a_minute(monkeypatch):
    monkeypatch.setattr(progress, "SECONDS", 0)
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
    monkeypatch.setattr(progress, "SECONDS", 0)
    monkeypatch.setattr("sys.stderr", stream())
    with Progress(range(30), file=stream()) as work:
        assert sum(1 for _ in work) == 30
    tell("half of it")
