"""Text is read as it arrives, and a file is written whole or kept beside its name."""

import io
import os
import subprocess
import sys
import time
from errno import EIO
from itertools import chain
from pathlib import Path
from threading import Thread, Timer

import pytest

from transformer_lite.inference import lines
from transformer_lite.inference.lines import lines_in, lines_out


def blocks_of(content, most=100, warn=print):
    return [*lines_in(io.BytesIO(content), most, warn)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"one\r\n\r\ntwo\x0b\xc2\x85x", ["one", "", "two\x0b\x85x"]),
        (b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n", ["one", "\ufefftwo"]),
    ],
)
def test_only_a_line_feed_ends_a_line(content, expected):
    assert [*chain(*blocks_of(content))] == expected


@pytest.mark.parametrize("size", [1, 7, 2**20])
def test_blocks_have_no_more_lines_than_asked_for(monkeypatch, size):
    monkeypatch.setattr(lines, "READ_BYTES", size)
    expected = [f"line {number}" for number in range(50)]
    blocks = blocks_of("\n".join(expected).encode(), most=4)
    assert [*chain(*blocks)] == expected
    assert max(map(len, blocks)) <= 4
    if size > 1000:
        assert [*map(len, blocks)] == [*[4] * 12, 1, 1]  # the last has no line feed


def test_a_line_that_is_not_utf8_is_empty_and_named():
    warnings = []
    (block,) = blocks_of(b"a\nf\xfcr\nt\0h\0\n", warn=warnings.append)
    assert block == ["a", "", ""]
    assert [warning[:13] for warning in warnings] == ["line 2: not U", "line 3: conta"]


def test_a_line_is_there_as_soon_as_it_is_written():
    """Of a pipe that stays open."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", 0) as pipe:
        blocks = lines_in(source, 100, print)
        gives_up = Timer(20, pipe.close)  # so that who waits for more gets too much
        gives_up.start()
        parts = {b"one\ntwo\nth": ["one", "two"], b"ree\n": ["three"]}
        for sent, expected in parts.items():
            Thread(target=pipe.write, args=[sent]).start()
            assert next(block for block in blocks if block) == expected
        gives_up.cancel()
        pipe.close()
        assert [*blocks] == []


def test_a_pipe_that_does_not_wait_is_waited_for():
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", 0) as pipe:
        late = Timer(0.2, lambda: (pipe.write(b"one\n"), pipe.close()))
        late.start()
        assert [*lines_in(source, 100, print)] == [["one"]]
        late.join()


def test_a_long_line_takes_as_long_as_many_short_ones(monkeypatch):
    monkeypatch.setattr(lines, "READ_BYTES", 2**12)

    def seconds(line):
        begin = time.perf_counter()
        assert sum(map(len, chain(*blocks_of(line * 2**12)))) > 2**23
        return time.perf_counter() - begin

    # If each reading copied what was there, this would be about 300 times as long.
    assert seconds(b"a" * 2**12) < 30 * seconds(b"a" * (2**12 - 1) + b"\n")


def test_input_that_cannot_be_read_is_named():
    class Broken(io.BytesIO):
        name = "text"

        def read(self, _):
            raise OSError(EIO, os.strerror(EIO))

    with pytest.raises(OSError, match=r"^text: cannot be read \(Input"):
        next(lines_in(Broken(), 100, print))


def test_a_pipe_is_written_to(tmp_path):
    pipe, lines = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = Thread(target=lambda: lines.append(pipe.read_bytes()), daemon=True)
    reader.start()
    with lines_out(pipe) as file:
        file.write(b"one\n")
    reader.join()
    assert lines == [b"one\n"]
    assert [*tmp_path.iterdir()] == [pipe]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
def test_a_file_without_room_is_named():
    with pytest.raises(OSError, match=r"^/dev/full: cannot be written \(No space"):
        with lines_out(Path("/dev/full")) as file:
            file.write(b"one\n")


@pytest.mark.parametrize("name", ["/dev/stdout", "out"])
def test_standard_output_keeps_what_is_printed(tmp_path, name):
    program = f"""
from pathlib import Path
from transformer_lite.inference.lines import lines_out
print("before")
with lines_out(Path("{name}")) as file:
    file.write(b"written\\n")
print("after")
"""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with (tmp_path / "out").open("w") as out:
        command = [sys.executable, "-c", program]
        subprocess.run(command, stdout=out, check=True, cwd=tmp_path, env=environment)
    assert (tmp_path / "out").read_text() == "before\nwritten\nafter\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with lines_out(link) as file:
        file.write(b"new\n")
    assert link.is_symlink()
    assert target.read_text() == "new\n"
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link"}
