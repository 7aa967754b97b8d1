"""Many sequences of token ids in one flat array, on disk or in memory.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/test_sequences.py
"""

import os
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
from jaxtyping import Int

_HEADER_BYTES = 128
"""What stands before the data of an .npy file with one axis, however long it is."""


class Sequences:
    """A ragged array: `sequences[i]` is the i-th sequence of ids.

    All ids lie one after the other in a single array, and `offsets` says where
    each sequence starts. Loaded from disk the ids are memory-mapped: they take no
    memory until they are read, and processes on one machine share them.

    Args:
        ids: All ids.
        offsets: Start of each sequence, and the end of the last.
    """

    def __init__(
        self, ids: Int[np.ndarray, " tokens"], offsets: Int[np.ndarray, " len_plus_1"]
    ) -> None:
        self._ids = ids
        self._offsets = offsets

    @classmethod
    def from_lists(cls, lists: Iterable[list[int]]) -> "Sequences":
        """Sequences in memory."""
        arrays = [np.asarray(ids, dtype=np.int32) for ids in lists]
        offsets = np.cumsum([0, *(len(ids) for ids in arrays)], dtype=np.int64)
        flat = np.concatenate(arrays) if arrays else np.empty(0, dtype=np.int32)
        return cls(flat, offsets)

    @classmethod
    def load(cls, stem: Path) -> "Sequences":
        """The sequences saved under this stem, memory-mapped.

        Raises:
            ValueError: The files are missing or damaged.
        """
        try:
            ids = np.load(f"{stem}.ids.npy", mmap_mode="r")
            offsets = np.load(f"{stem}.offsets.npy")
        except (OSError, EOFError, ValueError) as error:
            raise ValueError(
                f"{stem}: its .ids.npy and .offsets.npy cannot be read ({error}); "
                "run `prepare` again"
            ) from error
        arrays = isinstance(ids, np.ndarray) and isinstance(offsets, np.ndarray)
        if not (
            arrays
            and ids.ndim == offsets.ndim == 1
            and ids.dtype.kind == offsets.dtype.kind == "i"
            and len(offsets)
            and offsets[0] == 0
            and offsets[-1] == len(ids)
            and (np.diff(offsets) >= 0).all()
        ):
            raise ValueError(
                f"{stem}: its .ids.npy and .offsets.npy do not fit together; "
                "run `prepare` again"
            )
        return cls(ids, offsets)

    def save(self, stem: Path) -> None:
        """Write `stem`.ids.npy and `stem`.offsets.npy."""
        np.save(f"{stem}.ids.npy", self._ids)
        np.save(f"{stem}.offsets.npy", self._offsets)

    @property
    def lengths(self) -> Int[np.ndarray, " len"]:
        """The length of every sequence, in tokens."""
        return np.diff(self._offsets)

    @property
    def extremes(self) -> tuple[int, int]:
        """The least and the greatest id; reads all of them once, 1 GB in a second."""
        return int(self._ids.min()), int(self._ids.max())

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> Int[np.ndarray, " tokens"]:
        """The ids of one sequence."""
        return self._ids[self._offsets[index] : self._offsets[index + 1]]


class SequenceWriter:
    """Sequences that grow on disk, for those that would not fit in memory.

    After every `append` the files can be loaded.

    Args:
        stem: Where: `stem`.ids.npy and `stem`.offsets.npy.
        length: How many of the sequences that are there stay; 0 starts new files.
        num_ids: How many ids these have.

    Raises:
        ValueError: There are fewer.
    """

    def __init__(self, stem: Path, length: int = 0, num_ids: int = 0) -> None:
        self._ids = _GrowingArray(Path(f"{stem}.ids.npy"), "<i4", num_ids)
        starts = length + 1 if length else 0
        self._offsets = _GrowingArray(Path(f"{stem}.offsets.npy"), "<i8", starts)
        if not length:
            self._offsets.append(np.zeros(1))

    @property
    def num_ids(self) -> int:
        """How many ids were written."""
        return self._ids.length

    def append(self, lists: list[list[int]]) -> None:
        """Write these sequences after the others."""
        ends = self.num_ids + np.cumsum([len(ids) for ids in lists])
        self._ids.append(np.fromiter(chain.from_iterable(lists), np.int32))
        self._offsets.append(ends)

    def flush(self) -> None:
        """Leave nothing in this process's memory."""
        self._ids.file.flush()
        self._offsets.file.flush()

    def close(self) -> None:
        """Close both files."""
        self._ids.file.close()
        self._offsets.file.close()


class _GrowingArray:
    """An .npy file with one axis, written piece by piece."""

    def __init__(self, path: Path, dtype: str, length: int) -> None:
        self.length, self._dtype = length, np.dtype(dtype)
        end = _HEADER_BYTES + length * self._dtype.itemsize
        self.file = reopen(path, end if length else 0)
        if not length:
            self.file.write(bytes(_HEADER_BYTES))

    def append(self, values: np.ndarray) -> None:
        self.file.write(values.astype(self._dtype).tobytes())
        self.length += len(values)
        self.file.seek(0)
        header = {"descr": self._dtype.str, "fortran_order": False}
        header["shape"] = (self.length,)
        np.lib.format.write_array_header_1_0(self.file, header)
        assert self.file.tell() == _HEADER_BYTES
        self.file.seek(0, os.SEEK_END)


def reopen(path: Path, size: int) -> BinaryIO:
    """A file to write on in after its first `size` bytes; the rest is cut off.

    Raises:
        ValueError: It has fewer bytes than that.
    """
    file = path.open("r+b" if size else "w+b")
    if file.seek(0, os.SEEK_END) < size:
        file.close()
        raise ValueError(f"{path}: has lost its end; run `prepare` again")
    file.truncate(size)
    file.seek(size)
    return file
