"""Files and folders appear whole or not at all; a lock lets one process in."""

import os
import stat
import subprocess
import sys

import pytest
import torch
from filelock import FileLock
from safetensors.torch import save_file

from transformer_lite.files import new_folder, only_process, write_whole

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


@pytest.mark.skipif(os.name != "posix", reason="sets permissions")
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_weights_have_the_permissions_of_any_new_file(tmp_path, umask):
    (tmp_path / "w.partial").touch(0o600)  # left by a killed process
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "w", lambda p: save_file({"a": torch.ones(3)}, p))
        (tmp_path / "new").write_text("by open()")
    finally:
        os.umask(before)
    assert (tmp_path / "w").stat().st_mode == (tmp_path / "new").stat().st_mode


@pytest.fixture
def flushed(monkeypatch):
    """What `os.fsync` was given: whether a folder, and whether it may be written."""
    fcntl = pytest.importorskip("fcntl", reason="asks what a descriptor is open for")
    original, found = os.fsync, []

    def sync(descriptor):
        mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        found.append(("folder" if is_folder else "file", mode != os.O_RDONLY))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    return found


def test_the_disk_holds_the_file_before_its_name_and_the_name_before_the_end(
    tmp_path, flushed
):
    write_whole(tmp_path / "it", lambda partial: partial.write_text("whole"))
    assert flushed == [("file", True), ("folder", False)]


def test_on_windows_only_a_file_open_for_writing_is_flushed(
    tmp_path, flushed, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(os, "name", "nt")
        write_whole(tmp_path / "it", lambda partial: partial.write_text("whole"))
    assert flushed == [("file", True)]


def test_a_folder_that_may_not_be_written_to_is_named_with_a_remedy(
    tmp_path, monkeypatch
):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(FileLock, "acquire", refuse)
    message = (
        f"{tmp_path}: cannot be written to \\(Read-only file system\\); give another"
    )
    with (
        pytest.raises(OSError, match=message),
        only_process(tmp_path / "out.lock", BUSY),
    ):
        pass


def test_two_processes_do_not_fill_one_folder(tmp_path):
    with new_folder(tmp_path / "out") as first:
        (first / "a").write_text("first")
        with (
            pytest.raises(ValueError, match="out: another process is making it; wait"),
            new_folder(tmp_path / "out") as second,
        ):
            (second / "a").write_text("second")
    assert (tmp_path / "out" / "a").read_text() == "first"
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_a_folder_that_is_there_stays_as_it_is(tmp_path):
    with pytest.raises(ValueError, match="already there"), new_folder(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []
