"""Many sequences of token ids in one flat array, on disk or in memory.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/test_sequences.py
"""

import io
import zlib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

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
                "delete the folder and run `prepare` again"
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
                "delete the folder and run `prepare` again"
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

    def checksum(self, start: int = 0) -> int:
        """The CRC-32 of all ids and of where each sequence begins."""
        return zlib.crc32(self._offsets, zlib.crc32(self._ids, start))

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> Int[np.ndarray, " tokens"]:
        """The ids of one sequence."""
        return self._ids[self._offsets[index] : self._offsets[index + 1]]


def append_sequences(
    stem: Path, length: int, num_ids: int, lists: list[list[int]]
) -> int:
    """Number of ids on disk after these sequences are written after the others.

    For those that would not all fit in memory. `Sequences.load` reads the files.

    Args:
        stem: Where: `stem`.ids.npy and `stem`.offsets.npy.
        length: How many of the sequences that are there stay; 0 makes new files.
        num_ids: How many ids these have.
        lists: More sequences.

    Raises:
        ValueError: There are fewer than `length`.
    """
    ids = np.fromiter(chain.from_iterable(lists), np.dtype("<i4"))
    ends = num_ids + np.cumsum([len(row) for row in lists], dtype=np.dtype("<i8"))
    _append(Path(f"{stem}.ids.npy"), num_ids, ids)
    if length:
        _append(Path(f"{stem}.offsets.npy"), length + 1, ends)
    else:
        _append(Path(f"{stem}.offsets.npy"), 0, np.insert(ends, 0, 0))
    return num_ids + len(ids)


def _append(path: Path, length: int, values: np.ndarray) -> None:
    """Write values after the first ones of an .npy file."""
    header = io.BytesIO()
    shape = (length + len(values),)
    np.lib.format.write_array_header_1_0(
        header, {"descr": values.dtype.str, "fortran_order": False, "shape": shape}
    )
    assert header.tell() == _HEADER_BYTES
    if length == 0:
        write_after(path, 0, header.getvalue())
    write_after(path, _HEADER_BYTES + length * values.itemsize, values.tobytes())
    with path.open("r+b") as file:
        file.write(header.getvalue())


def write_after(path: Path, size: int, content: bytes) -> None:
    """Write after the first `size` bytes of a file; what followed them is cut off.

    Raises:
        ValueError: The file has fewer bytes.
    """
    if size and (not path.exists() or path.stat().st_size < size):
        raise ValueError(
            f"{path}: has lost its end; delete the folder and run `prepare` again"
        )
    with path.open("r+b" if size else "wb") as file:
        file.truncate(size)
        file.seek(size)
        file.write(content)
