"""Text is read as it arrives, and a file is written whole or kept beside its name."""

import io
import os
from itertools import chain
from threading import Thread

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
        parts = {b"one\ntwo\nth": ["one", "two"], b"ree\n": ["three"]}
        for sent, expected in parts.items():
            Thread(target=pipe.write, args=[sent]).start()
            assert next(block for block in blocks if block) == expected
        pipe.close()
        assert [*blocks] == []


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "file", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with lines_out(link) as file:
        file.write(b"new\n")
    assert link.is_symlink()
    assert target.read_text() == "new\n"
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link"}
