"""How far a preparation is, on disk, and the files that grow with it.

Paper: –
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_journal.py
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transformer_lite.data.store import (
    IDS,
    OFFSETS,
    SIDES,
    ids_path,
    offsets_path,
    text_path,
)


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
    left_out: Sequence[tuple[str, int]] = ()
    """What was wrong with pairs that were left out, and with how many."""


class Journal:
    """How far the writing of a folder is, on disk after every piece of work.

    Args:
        folder: The folder that is being written. What is there stays if it was written
            for the same request, and is removed otherwise.
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
    folder: Path,
    split: str,
    done: Progress,
    ids: Sequence[list[list[int]]],
    text: Sequence[list[str]],
    num_read: int,
) -> Progress:
    """Write ids and text of more pairs; return how far the split is then.

    Args:
        folder: Where the split's files lie.
        split: Its name.
        done: How far it was; what was written after that is cut off.
        ids: For each side, the ids of every sentence.
        text: For each side, the sentences.
        num_read: How many pairs of the corpus were read to get these.

    Raises:
        ValueError: The files have less than was done.
    """
    num_ids, text_bytes = [], []
    for side, name in enumerate(SIDES):
        flat = np.fromiter(chain.from_iterable(ids[side]), IDS)
        starts = np.cumsum([done.num_ids[side], *map(len, ids[side])], dtype=OFFSETS)
        lines = "".join(f"{line}\n" for line in text[side]).encode()
        num_ids.append(done.num_ids[side] + len(flat))
        text_bytes.append(done.text_bytes[side] + len(lines))
        for path, size, content in (
            (ids_path(folder, split, name), done.num_ids[side] * IDS.itemsize, flat),
            # The start of the first new sentence is there as the end of the last.
            (offsets_path(folder, split, name), done.kept * OFFSETS.itemsize, starts),
            (text_path(folder, split, name), done.text_bytes[side], lines),
        ):
            _write_after(path, size, content)
    return done._replace(
        read=done.read + num_read,
        kept=done.kept + len(ids[0]),
        num_ids=num_ids,
        text_bytes=text_bytes,
    )


def _write_after(path: Path, size: int, content: bytes | np.ndarray) -> None:
    """Write after the first `size` bytes of a file; what followed them is cut off."""
    if size and (not path.exists() or path.stat().st_size < size):
        raise ValueError(
            f"{path}: has lost its end; delete the folder and run `prepare` again"
        )
    with path.open("r+b" if size else "wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(content)
