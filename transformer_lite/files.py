"""Files and folders that appear whole or not at all, and one process at a time.

Paper: –
Chapter: the_multi_gpu_trainer
Tests: tests/test_files.py
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout
from safetensors import SafetensorError


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Have `write` fill a file beside `path`, and rename it when it is whole.

    It may be read by whoever the umask lets, even if `write` is stricter.

    Raises:
        OSError: The disk is full or the folder may not be written to; what was at
            `path` is untouched.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)  # one that a killed process has left
        partial.touch()
        mode = partial.stat().st_mode
        write(partial)
        partial.chmod(mode)  # safetensors lets only the owner read its files
        with partial.open("r+b") as file:  # Windows flushes only what may be written
            os.fsync(file.fileno())
        partial.replace(path)
        _flush_folder(path.parent)
    except (OSError, RuntimeError, SafetensorError) as error:
        # PyTorch and safetensors have errors of their own for a full disk.
        raise OSError(
            f"{path}: cannot be written ({error}); make room or give yourself the "
            "right to write there, and start again: the older files are untouched"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    """Have the disk hold the folder's new entry, too, where a folder can be opened."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Make a folder to fill inside the block; it becomes `out` at the end.

    If the block fails, nothing is left of it.

    Raises:
        ValueError: `out` has no name, exists, or is being made by another process.
    """
    if not out.name:
        raise ValueError(f"{out}: no name for a folder; give --out one to make")
    elsewhere = f"{out}: another process is making it; wait until it is done"
    partial = out.with_name(out.name + ".partial")
    with only_process(out.with_name(out.name + ".lock"), elsewhere):
        if out.exists():
            raise ValueError(f"{out}: already there; delete it or give another --out")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            yield partial
            partial.rename(out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def only_process(path: Path, elsewhere: str) -> Iterator[None]:
    """Let one process at a time into the block; one that is killed leaves it open.

    Args:
        path: The lock file, which is gone afterwards. Its folder is made.
        elsewhere: What to say if another process is in the block.

    Raises:
        ValueError: Another process is.
        OSError: The folder may not be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path).acquire(timeout=0)
    except Timeout:
        raise ValueError(elsewhere) from None
    except OSError as error:
        raise OSError(
            f"{path.parent}: cannot be written to ({error.strerror or error}); give "
            "another --out, or yourself the right to write there"
        ) from error
    with lock:
        try:
            yield
        finally:
            with suppress(OSError):  # Windows does not remove a file that is open
                path.unlink()
