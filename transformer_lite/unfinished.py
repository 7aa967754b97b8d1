"""A preparation in the making: what is written of it, and how far it is.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/test_unfinished.py
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

from transformer_lite.sequences import append_sequences, write_after

SIDES = ("src", "tgt")


@contextmanager
def only_one(out: Path) -> Iterator[None]:
    """Holds the lock file beside `out`, so that one process at a time makes it.

    Raises:
        ValueError: Another process is making it.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    path = out.with_name(out.name + ".lock")
    try:
        lock = FileLock(path).acquire(timeout=0)
    except Timeout:
        raise ValueError(
            f"{out}: another process is preparing it; wait for that, or give "
            "another --out"
        ) from None
    with lock:
        try:
            yield
        finally:
            with suppress(OSError):  # Windows does not remove a file that is open
                path.unlink()


class Progress(NamedTuple):
    """How far a split is written."""

    read: int = 0
    """Pairs of the corpus that were read."""
    kept: int = 0
    """Pairs that were written."""
    num_ids: Sequence[int] = (0, 0)
    """Ids that were written, of each side."""
    text_bytes: Sequence[int] = (0, 0)
    """Bytes of text that were written, of each side."""
    whole: bool = False
    """Whether the split is whole."""


class Journal:
    """The progress of a folder in the making, on disk after every piece of work.

    Args:
        folder: The folder in the making. What is there stays if it was made by the
            same request, and is removed otherwise.
        request: All that the result depends on, for JSON; None if that is not known.
    """

    def __init__(self, folder: Path, request: Mapping[str, Any] | None) -> None:
        self.folder = folder
        self._path = folder / "journal.json"
        self._request = request
        self._splits: dict[str, Progress] = {}
        self.begun = False
        """Whether the tokenizer is trained."""
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            journal = json.loads(self._path.read_text(encoding="utf-8"))
            if request is not None and journal["request"] == request:
                splits = journal["splits"].items()
                self._splits = {split: Progress(*fields) for split, fields in splits}
                self.begun = True
        if not self.begun:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()

    def begin(self) -> None:
        """Write down that the tokenizer is trained."""
        self.begun = True
        self._save()

    def __getitem__(self, split: str) -> Progress:
        """How far a split is written."""
        return self._splits.get(split, Progress())

    def __setitem__(self, split: str, progress: Progress) -> None:
        """Write down how far a split is written."""
        self._splits[split] = progress
        self._save()

    def remove(self) -> None:
        """Remove the journal from the folder, which is whole."""
        self._path.unlink()

    def _save(self) -> None:
        partial = self._path.with_suffix(".partial")
        journal = {"request": self._request, "splits": self._splits}
        partial.write_text(json.dumps(journal), encoding="utf-8")
        partial.replace(self._path)


def append_pairs(
    stem: Path,
    done: Progress,
    ids: Sequence[list[list[int]]],
    text: Sequence[list[str]],
    num_read: int,
) -> Progress:
    """How far a split is after ids and text of more pairs are written.

    Args:
        stem: Folder and name of the split.
        done: How far it was; what was written after that is cut off.
        ids: For each side, the ids of every sentence.
        text: For each side, the sentences.
        num_read: How many pairs of the corpus were read to get these.

    Raises:
        ValueError: The files have less than was done.
    """
    num_ids, text_bytes = [], []
    for side, name in enumerate(SIDES):
        own = Path(f"{stem}.{name}")
        num_ids.append(append_sequences(own, done.kept, done.num_ids[side], ids[side]))
        lines = "".join(f"{line}\n" for line in text[side]).encode()
        write_after(Path(f"{own}.txt"), done.text_bytes[side], lines)
        text_bytes.append(done.text_bytes[side] + len(lines))
    return Progress(done.read + num_read, done.kept + len(ids[0]), num_ids, text_bytes)
