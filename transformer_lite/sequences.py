"""Many sequences of token ids in one flat array, on disk or in memory.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/test_sequences.py
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from jaxtyping import Int


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

    def __len__(self) -> int:
        """Number of sequences."""
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> Int[np.ndarray, " tokens"]:
        """The ids of one sequence."""
        return self._ids[self._offsets[index] : self._offsets[index + 1]]
