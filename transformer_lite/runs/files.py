"""Files and folders that appear whole or not at all, and one process at a time.

Paper: –
Chapter: the_multi_gpu_trainer
Tests: tests/package/runs/test_files.py
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from hashlib import file_digest
from pathlib import Path
from shutil import rmtree
from tempfile import NamedTemporaryFile, TemporaryDirectory

from filelock import FileLock, Timeout
from safetensors import SafetensorError

LOCK = ".lock"
"""Held in a folder by the process that fills it."""


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file beside `path`, and rename it when it is whole.

    Where `path` is a link, the file that it leads to is replaced, and the link stays.

    Raises:
        OSError: The disk is full or the folder may not be written to. What was at
            `path` is untouched.
    """
    target = path.resolve()
    partial = partial_file(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)  # a killed process may have left one
        partial.touch()
        mode = partial.stat().st_mode
        write(partial)
        partial.chmod(mode)  # safetensors lets only the owner read its files
        with partial.open("r+b") as file:
            os.fsync(file.fileno())
        partial.replace(target)
    except (OSError, RuntimeError, SafetensorError) as error:
        # PyTorch and safetensors have errors of their own for a full disk.
        raise OSError(
            f"{path}: cannot be written ({error}); free some disk space or change the "
            "permissions, then try again; existing files are unchanged"
        ) from error
    finally:
        with suppress(OSError):
            partial.unlink()


def require_readable(path: Path) -> None:
    """Check that a file can be read, so that nobody takes it for damaged.

    Raises:
        OSError: It is missing, or the system refuses it.
    """
    try:
        path.open("rb").close()
    except OSError as error:
        raise type(error)(
            f"{path}: cannot be read ({_reason(error)}); check its permissions"
        ) from error


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, however large it is."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def partial_file(path: Path) -> Path:
    """Return where a file lies until it is whole."""
    return path.with_name(path.name + ".partial")


def require_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Check files to write, before hours of work depend on it.

    Args:
        outputs: The files; None for one that is not asked for.

    Raises:
        ValueError: A path is a folder or a device, may not be written to, has a
            `partial_file` that is not ours to delete, is read, or is named twice.
    """
    sources = [path.resolve() for path in inputs]
    targets: list[Path] = []
    for path in filter(None, outputs):
        target = path.resolve()
        for source in sources:
            if target.is_relative_to(source):
                raise ValueError(
                    f"{path}: would overwrite an input, {source}; give another file"
                )
        if target in targets:
            raise ValueError(f"{path}: named for two outputs; give each its own file")
        targets.append(target)
        require_writable(path)


def require_writable(path: Path) -> None:
    """Check that a file can be written; errors are those of `require_outputs`."""
    target = path.resolve()
    if target.exists() and not target.is_file():
        kind = "folder" if target.is_dir() else "device"
        raise ValueError(f"{path}: a {kind}; give the name of a file")
    partial = partial_file(target)
    if os.path.lexists(partial):
        raise ValueError(
            f"{partial}: in the way; if a program that was killed has left it, delete "
            "it, else rename it"
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(prefix=target.name, dir=target.parent):
            pass
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be written ({_reason(error)}); give another file"
        ) from error


def require_new(out: Path) -> None:
    """Raise a ValueError unless a folder has a name that nothing has yet."""
    if not out.name:
        raise ValueError(f'"{out}" is not a name for a new folder; give another')
    if os.path.lexists(out):
        raise ValueError(f"{out}: already there; delete it or give another folder")


@contextmanager
def renamed_when_whole(out: Path) -> Iterator[Path]:
    """Yield a folder to fill; rename it to `out` at the end, or delete it on an error.

    Raises:
        ValueError: `out` has no name, or exists.
        OSError: The disk is full.
    """
    require_new(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _delete_abandoned(out)
        beside = TemporaryDirectory(
            prefix=f"{out.name}.", suffix=".partial", dir=out.parent
        )
    except OSError as error:
        raise ValueError(
            f"{out}: cannot be made ({_reason(error)}); give another folder, or "
            "change the permissions"
        ) from error
    with beside as folder, only_process(Path(folder, LOCK), f"{folder}: in use"):
        partial = Path(folder, out.name)  # others may read it, unlike the one around it
        partial.mkdir()
        try:
            yield partial
            require_new(out)  # another process may have been faster
            partial.rename(out)
        except OSError as error:
            if error.filename or error.errno is None:  # it says what it is about
                raise
            raise OSError(
                f"{out}: cannot be written ({_reason(error)}); free some disk space "
                "and try again; nothing of it is left"
            ) from error


def _delete_abandoned(out: Path) -> None:
    """Delete what killed processes have left of a folder: what they no longer lock."""
    for folder in out.parent.glob(f"{escape(out.name)}.*.partial"):
        with suppress(OSError, ValueError):  # it is no folder of ours, or in use
            if {path.name for path in folder.iterdir()} == {LOCK, out.name}:
                with only_process(folder / LOCK, "in use"):
                    rmtree(folder)


@contextmanager
def only_process(path: Path, busy: str) -> Iterator[None]:
    """Let one process at a time into the block.

    The operating system frees the lock when a process ends, even if it is killed. The
    empty lock file stays: removing it would let two processes hold a lock each.

    Raises:
        ValueError: Another process is in the block; the message is `busy`.
        OSError: The lock file's folder may not be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path).acquire(timeout=0)
    except Timeout:
        raise ValueError(busy) from None
    except OSError as error:
        raise OSError(
            f"{path.parent}: cannot be written to ({_reason(error)}); give another "
            "--out, or change the folder's permissions"
        ) from error
    with lock:
        yield


def _reason(error: BaseException) -> str:
    """Return what the operating system says of an error, without the path."""
    return getattr(error, "strerror", None) or str(error)
