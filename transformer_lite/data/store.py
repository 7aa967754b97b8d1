"""What `prepare` wrote, read back: a tokenizer, ids and text.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_store.py
"""

import json
from pathlib import Path

import numpy as np

from transformer_lite.batching import Sequences
from transformer_lite.tokenizer import Tokenizer

SIDES = ("src", "tgt")
IDS, OFFSETS = np.dtype("<i4"), np.dtype("<i8")
"""How ids, and where each sequence of them starts, stand in their files."""


def ids_path(folder: Path, split: str, side: str) -> Path:
    """Return where all ids of one side of a split lie, one sentence after the other."""
    return folder / f"{split}.{side}.ids"


def offsets_path(folder: Path, split: str, side: str) -> Path:
    """Return where the start of each sentence lies, and the end of the last."""
    return folder / f"{split}.{side}.offsets"


def text_path(folder: Path, split: str, side: str) -> Path:
    """Return where the sentences of one side of a split lie, one a line."""
    return folder / f"{split}.{side}.txt"


def load_sequences(folder: Path, split: str, side: str) -> Sequences:
    """Load one side of a split, its ids memory-mapped.

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


class SideWriter:
    """Writes one side of a split, sentence by sentence.

    Use it as a context manager, which closes the files.

    Args:
        folder: The folder of the corpus.
        split: The split's name.
        side: "src" or "tgt".
    """

    def __init__(self, folder: Path, split: str, side: str) -> None:
        self._ids, self._offsets, self._text = (
            path(folder, split, side).open("wb")
            for path in (ids_path, offsets_path, text_path)
        )
        self._num_ids = 0
        self._offsets.write(OFFSETS.type(0).tobytes())

    def __enter__(self) -> "SideWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._ids, self._offsets, self._text):
            file.close()

    def add(self, text: str, ids: list[int]) -> None:
        """Write a sentence and its ids."""
        self._num_ids += len(ids)
        self._ids.write(np.array(ids, IDS).tobytes())
        self._offsets.write(OFFSETS.type(self._num_ids).tobytes())
        self._text.write(f"{text}\n".encode())


class PreparedCorpus:
    """A folder that `prepare` wrote.

    Args:
        folder: The folder.

    Raises:
        ValueError: The folder is missing or incomplete.
    """

    def __init__(self, folder: Path) -> None:
        try:
            summary = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
            name, sizes = str(summary["corpus"]), dict(summary["pairs"])
            source, target = summary["languages"]
            left_out, fingerprint = dict(summary["left_out"]), summary["fingerprint"]
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
        self.fingerprint: str = fingerprint
        """A checksum of the training data's ids, equal for equal data."""
        self.tokenizer = Tokenizer.load(folder / "tokenizer.model")

    def ids(self, split: str) -> tuple[Sequences, Sequences]:
        """Return source and target ids of a split, memory-mapped.

        Raises:
            ValueError: There is no such split, or its files are damaged.
        """
        self._require(split)
        source, target = (self._sequences(split, side) for side in SIDES)
        return source, target

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """Return source and target sentences of a split.

        Raises:
            ValueError: There is no such split, or its files are damaged.
        """
        self._require(split)
        source, target = (self._lines(split, side) for side in SIDES)
        return source, target

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
        return sequences

    def _lines(self, split: str, side: str) -> list[str]:
        """Read the lines of a file; "\\n" alone ends a line."""
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
