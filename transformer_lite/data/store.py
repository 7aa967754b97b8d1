"""What `prepare` wrote, read back: a tokenizer, ids and text.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_store.py
"""

import hashlib
import json
import zlib
from itertools import product
from pathlib import Path

import numpy as np

from transformer_lite.batching import Sequences
from transformer_lite.tokenizer import UNK, Tokenizer

SIDES = ("src", "tgt")
IDS, OFFSETS = np.dtype("<i4"), np.dtype("<i8")
"""How ids, and where each sequence of them starts, stand in their files."""

BLOCK_IDS = 1 << 20
"""Ids that are checked at a time; a processor's cache has room for them."""


def ids_path(folder: Path, split: str, side: str) -> Path:
    """Where all ids of one side of a split lie, one sentence after the other."""
    return folder / f"{split}.{side}.ids"


def offsets_path(folder: Path, split: str, side: str) -> Path:
    """Where it is written at which id each sentence starts, and the last one ends."""
    return folder / f"{split}.{side}.offsets"


def text_path(folder: Path, split: str, side: str) -> Path:
    """Where the sentences of one side of a split lie, one a line."""
    return folder / f"{split}.{side}.txt"


def load_sequences(folder: Path, split: str, side: str) -> Sequences:
    """One side of a split, its ids memory-mapped.

    They take no memory until they are read, and processes on one machine share them.

    Raises:
        ValueError: The files are missing or damaged.
    """
    path = ids_path(folder, split, side)
    try:
        ids = np.memmap(path, IDS, mode="r")
        offsets = np.fromfile(offsets_path(folder, split, side), OFFSETS)
    except (OSError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    if not (
        len(offsets)
        and offsets[0] == 0
        and offsets[-1] == len(ids)
        and (np.diff(offsets) >= 0).all()
    ):
        raise _damaged(path, "it does not fit its .offsets")
    return Sequences(ids, offsets)


class PreparedCorpus:
    """What `prepare` wrote.

    Args:
        folder: The folder that it wrote.

    Raises:
        ValueError: The folder is missing or incomplete.
    """

    def __init__(self, folder: Path) -> None:
        try:
            summary = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
            name, sizes = str(summary["corpus"]), dict(summary["pairs"])
            source, target = summary.get("languages", ("", ""))
            left_out = dict(summary.get("left_out", {}))
        except (OSError, ValueError, KeyError, TypeError) as error:
            if (folder / "config.json").exists():
                raise ValueError(
                    f"{folder}: a run; with --data name the folder that `prepare` wrote"
                ) from error
            raise ValueError(
                f"{folder}: not a prepared corpus; run `prepare` with --out {folder}, "
                "or name another one with --data"
            ) from error
        self.folder = folder
        self.name = name
        """What corpus it is."""
        self.sizes: dict[str, int] = sizes
        """Number of pairs in each split."""
        self.left_out: dict[str, int] = left_out
        """Number of training pairs that were left out, by what was wrong with them."""
        self.languages: tuple[str, str] = (source, target)
        """Codes of the source's and the target's language; empty if unknown."""
        self.tokenizer = Tokenizer.load(folder / "tokenizer.model")

    def ids(self, split: str) -> tuple[Sequences, Sequences]:
        """Source and target ids of a split, memory-mapped.

        Raises:
            ValueError: There is no such split, or its files are damaged.
        """
        self._require(split)
        source, target = (self._sequences(split, side) for side in SIDES)
        return source, target

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """Source and target sentences of a split.

        Raises:
            ValueError: There is no such split, or its files are damaged.
        """
        self._require(split)
        source, target = (self._lines(split, side) for side in SIDES)
        return source, target

    def fingerprint(self) -> str:
        """A checksum of the training data's ids, equal for equal data."""
        checksum = 0
        for side in SIDES:
            sequences = load_sequences(self.folder, "train", side)
            checksum = zlib.crc32(sequences.ids, checksum)
            checksum = zlib.crc32(sequences.offsets, checksum)
        return f"{checksum:08x}"

    def checksums(self) -> dict[str, str]:
        """The SHA-256 of each side of each split ("train.src"), and of "tokenizer".

        Raises:
            ValueError: A file is missing.
        """
        files = {
            f"{split}.{side}": text_path(self.folder, split, side)
            for split, side in product(self.sizes, SIDES)
        }
        files["tokenizer"] = self.folder / "tokenizer.model"
        found = {}
        for name, path in files.items():
            try:
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256")
            except OSError as error:
                raise _damaged(path, str(error)) from error
            found[name] = digest.hexdigest()
        return found

    def _require(self, split: str) -> None:
        if split not in self.sizes:
            known = ", ".join(self.sizes)
            raise ValueError(f'{self.folder}: no split "{split}"; name one of {known}')

    def _sequences(self, split: str, side: str) -> Sequences:
        sequences = load_sequences(self.folder, split, side)
        path = ids_path(self.folder, split, side)
        if len(sequences) != self.sizes[split]:
            raise _damaged(
                path, f"has {len(sequences):,} sentences and not {self.sizes[split]:,}"
            )
        # In blocks, so that no id is read from disk twice: a gigabyte in a second.
        starts = range(0, len(sequences.ids), BLOCK_IDS)
        blocks = (sequences.ids[start : start + BLOCK_IDS] for start in starts)
        extremes = [int(f(block)) for block in blocks for f in (np.min, np.max)]
        least, greatest = min(extremes), max(extremes)
        if not UNK <= least <= greatest < self.tokenizer.vocab_size:
            raise _damaged(
                path,
                f"has ids from {least} to {greatest}, but the text's begin at {UNK} "
                f"and end below {self.tokenizer.vocab_size}",
            )
        return sequences

    def _lines(self, split: str, side: str) -> list[str]:
        """The lines of a file; "\\n" alone ends a line."""
        path = text_path(self.folder, split, side)
        try:
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise _damaged(path, str(error)) from error
        lines = text.removesuffix("\n").split("\n")
        if len(lines) != self.sizes[split]:
            raise _damaged(
                path, f"has {len(lines):,} lines and not {self.sizes[split]:,}"
            )
        return lines


def _damaged(path: Path, reason: str) -> ValueError:
    return ValueError(
        f"{path}: damaged ({reason}); delete the folder and run `prepare` again"
    )
