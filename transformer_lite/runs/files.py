"""Files and folders that appear whole or not at all, and one process at a time.

Paper: –
Chapter: the_multi_gpu_trainer
Tests: tests/package/runs/test_files.py
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EACCES
from glob import escape
from hashlib import file_digest
from pathlib import Path
from secrets import token_hex
from shutil import rmtree
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any, BinaryIO

from filelock import FileLock, Timeout
from safetensors import SafetensorError

LOCK = ".lock"
"""Held in a folder by the process that fills it."""

PARTIAL = ".partial"
"""Ends the name of what is not whole yet."""


@contextmanager
def replacing(
    path: Path, on_error: Callable[[Path], object] = Path.unlink
) -> Iterator[BinaryIO]:
    """Yield a file beside `path` to fill, and rename it to `path` at the end.

    Its name is new, so each writer has a file of its own, and what another or a killed
    one has left stays. Where `path` is a link, the file it leads to is replaced. A
    file that was there passes its permissions on.

    Args:
        on_error: What becomes of the file, if it is not whole in the end.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{token_hex(4)}{PARTIAL}")
    file = partial.open("xb")
    try:
        with file:
            mode = (target if target.exists() else partial).stat().st_mode
            partial.chmod(0o600)  # as that of safetensors is, which takes its place
            yield file
        with partial.open("rb") as written:
            os.fchmod(written.fileno(), mode)
            os.fsync(written.fileno())
        partial.replace(target)
    except BaseException:
        with suppress(FileNotFoundError):
            on_error(partial)
        raise


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a file, which takes the place of `path` when it is whole.

    Raises:
        OSError: The disk is full or the folder may not be written to. What was at
            `path` is untouched.
    """
    try:
        with replacing(path) as file:
            write(Path(file.name))
    except (OSError, RuntimeError, SafetensorError) as error:
        # PyTorch and safetensors have errors of their own for a full disk.
        raise _unwritable(path, error) from error


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Let an error in writing say what is written, unless it names a file itself."""
    try:
        yield
    except OSError as error:
        is_named = error.filename or error.errno is None
        if is_named or isinstance(error, BrokenPipeError):  # the reader has enough
            raise
        raise _unwritable(path, error) from error


def _unwritable(path: Path | str, error: Exception) -> OSError:
    return OSError(
        f"{path}: cannot be written ({reason_of(error)}); free some disk space or "
        "change the permissions, then try again"
    )


def delete_partial(folder: Path, *names: str) -> None:
    """Delete what killed processes have left of files which this one alone writes.

    Args:
        names: Patterns of the files' names.
    """
    for name in names:
        for path in folder.glob(f"{name}.{'[0-9a-f]' * 8}{PARTIAL}"):
            path.unlink()


def require_readable(path: Path) -> None:
    """Raise an OSError unless a file can be read, so that none takes it for damaged."""
    path.open("rb").close()


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        ValueError: The file holds none.
        OSError: It cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError(f"nested too deeply: {error}") from error
    if not isinstance(content, dict):
        raise ValueError("not a JSON object")
    return content


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, however large it is."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def require_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Check files to write, before hours of work depend on it.

    Args:
        outputs: The files; None for one that is not asked for.

    Raises:
        ValueError: A path is a folder, may not be written to, is read, or is named
            twice. Pipes and devices, in which nothing is lost, may be both.
    """
    sources = [Path(os.path.realpath(path)) for path in inputs]
    targets: list[Path] = []
    for path in filter(None, outputs):
        target = Path(os.path.realpath(path))  # also of a link that leads in a circle
        for source in [] if is_stream(path) else sources:
            if target.is_relative_to(source):
                problem = "would overwrite an input"
                if target != source:
                    problem = "lies in a folder that is read"
                raise ValueError(f"{path}: {problem}, {source}; give another file")
        if target in targets and not is_stream(path):
            raise ValueError(f"{path}: named for two outputs; give each its own file")
        targets.append(target)
        require_writable(path)


def require_writable(path: Path) -> None:
    """Check that a file can be written; errors are those of `require_outputs`."""
    try:
        if path.is_dir() or path.is_block_device():
            kind = "folder" if path.is_dir() else "disk"
            raise ValueError(f"{path}: a {kind}; give the name of a file")
        if is_stream(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(EACCES, os.strerror(EACCES))
            return
        with suppress(FileNotFoundError):
            path.stat()  # refuses a link that leads in a circle
        target = path.resolve()
        prefix, folder = f"{target.name}.", target.parent
        if not folder.exists():
            raise ValueError(f"{path}: no folder {folder}; make it, or give another")
        with NamedTemporaryFile(prefix=prefix, suffix=PARTIAL, dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be written ({reason_of(error)}); give another file"
        ) from error


def is_stream(path: Path) -> bool:
    """Return whether a path is a pipe or a device, which no file can replace."""
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def require_new(out: Path) -> None:
    """Raise a ValueError unless a folder has a name that nothing has yet."""
    if not out.name:
        raise ValueError(f'"{out}" is not a name for a new folder; give another')
    if os.path.lexists(out):
        hint = "already there, perhaps with your work; give another folder"
        raise ValueError(f"{out}: {hint}")


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
            prefix=f"{out.name}.", suffix=PARTIAL, dir=out.parent
        )
    except OSError as error:
        raise ValueError(
            f"{out}: cannot be made ({reason_of(error)}); give another folder, or "
            "change the permissions"
        ) from error
    with beside as folder, only_process(Path(folder, LOCK), f"{folder}: in use"):
        partial = Path(folder, out.name)  # others may read it, unlike the one around it
        partial.mkdir()
        with naming(out):
            yield partial
            require_new(out)  # another process may have been faster
            partial.rename(out)


def _delete_abandoned(out: Path) -> None:
    """Delete what killed processes have left of a folder: what they no longer lock."""
    for folder in out.parent.glob(f"{escape(out.name)}.*{PARTIAL}"):
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
            f"{path.parent}: cannot be written to ({reason_of(error)}); give another "
            "--out, or change the folder's permissions"
        ) from error
    with lock:
        yield


def reason_of(error: BaseException) -> str:
    """Return what the operating system says of an error, without the path."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "a file is where a folder has to be"
    return getattr(error, "strerror", None) or str(error)
