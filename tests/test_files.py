"""Files and folders appear whole or not at all; a lock lets one process in."""

import subprocess
import sys

import pytest

from transformer_lite.files import only_process, write_whole

BUSY = "out: another process is at work"


def test_a_second_process_is_refused(tmp_path):
    with only_process(tmp_path / "out.lock", BUSY):
        with (
            pytest.raises(ValueError, match=BUSY),
            only_process(tmp_path / "out.lock", BUSY),
        ):
            pass


def test_the_lock_is_given_back_after_an_error(tmp_path):
    with pytest.raises(KeyError), only_process(tmp_path / "out.lock", BUSY):
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with only_process(tmp_path / "out.lock", BUSY):
        pass


def test_a_refused_process_leaves_the_lock_alone(tmp_path):
    with only_process(tmp_path / "out.lock", BUSY):
        with (
            pytest.raises(ValueError, match="another"),
            only_process(tmp_path / "out.lock", BUSY),
        ):
            pass
        assert (tmp_path / "out.lock").exists()


def test_a_lock_file_of_a_killed_process_is_no_hindrance(tmp_path):
    script = (
        "import os, sys; from filelock import FileLock; "
        "FileLock(sys.argv[1]).acquire(); os._exit(9)"
    )
    path = tmp_path / "out.lock"
    subprocess.run([sys.executable, "-c", script, path], check=False)
    assert path.exists()
    with only_process(tmp_path / "out.lock", BUSY):
        pass


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "w.safetensors"
    path.write_text("old")

    def write(partial):
        partial.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match=r"w\.safetensors: cannot .*disk full.*make room"):
        write_whole(path, write)
    assert [entry.name for entry in tmp_path.iterdir()] == ["w.safetensors"]
    assert path.read_text() == "old"


def test_a_file_appears_only_when_it_is_whole(tmp_path):
    path = tmp_path / "folder" / "w.safetensors"

    def write(partial):
        assert partial.parent == path.parent
        assert not path.exists()
        partial.write_text("whole")

    write_whole(path, write)
    assert path.read_text() == "whole"
