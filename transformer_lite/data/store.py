"""What `prepare` wrote, read back: a tokenizer, ids and text.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/package/data/test_store.py
"""

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TypeVar

import numpy as np

from transformer_lite.batching import Sequences
from transformer_lite.runs.files import require_readable
from transformer_lite.tokenizer import Tokenizer

SIDES = ("src", "tgt")
IDS, OFFSETS = np.dtype("<i4"), np.dtype("<i8")
"""Number formats of ids, and of the offsets at which each sequence starts."""

Side = TypeVar("Side", Sequences, list[str])


def side_file(folder: Path, split: str, side: str, kind: str) -> Path:
    """Return where one side of a split lies.

    Args:
        side: "src" or "tgt".
        kind: "ids" of all sentences, one after the other; "offsets" at which each
            sentence begins and the last one ends; or "txt", one sentence a line.
    """
    return folder / f"{split}.{side}.{kind}"


@contextmanager
def side_writer(
    folder: Path, split: str, side: str
) -> Iterator[Callable[[str, list[int]], None]]:
    """Yield a function that writes a sentence and its ids to one side of a split."""
    end = 0
    with (
        side_file(folder, split, side, "ids").open("wb") as ids_file,
        side_file(folder, split, side, "offsets").open("wb") as offsets_file,
        side_file(folder, split, side, "txt").open("wb") as text_file,
    ):

        def add(text: str, ids: list[int]) -> None:
            nonlocal end
            end += len(ids)
            ids_file.write(np.array(ids, IDS).tobytes())
            offsets_file.write(OFFSETS.type(end).tobytes())
            text_file.write(f"{text}\n".encode())

        offsets_file.write(OFFSETS.type(0).tobytes())
        yield add


def load_sequences(folder: Path, split: str, side: str) -> Sequences:
    """Load the ids of one side of a split, memory-mapped.

    They take no memory until they are read, and processes on one machine share them.

    Raises:
        ValueError: The files are missing or damaged.
        OSError: A file cannot be read.
    """
    path, places = (side_file(folder, split, side, kind) for kind in ("ids", "offsets"))
    try:
        for file in (path, places):
            require_readable(file)
        ids = np.memmap(path, IDS, mode="r")
        offsets = np.fromfile(places, OFFSETS)
    except (FileNotFoundError, ValueError) as error:
        raise _damaged(path, str(error)) from error
    bounds = [*offsets[:1], *offsets[-1:]]
    if bounds != [0, len(ids)] or (np.diff(offsets) < 0).any():
        raise _damaged(path, "it does not fit its .offsets")
    return Sequences(ids, offsets)


def load_lines(folder: Path, split: str, side: str) -> list[str]:
    r"""Load one side's sentences, divided by "\n"; errors as for `load_sequences`."""
    path = side_file(folder, split, side, "txt")
    try:
        require_readable(path)
        text = path.read_bytes().decode("utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from error
    return text.removesuffix("\n").split("\n")


def fingerprint_of(folder: Path) -> str:
    """Return a checksum of the training data's ids, equal for equal data."""
    checksum = 0
    for side, kind in product(SIDES, ("ids", "offsets")):
        with side_file(folder, "train", side, kind).open("rb") as file:
            while content := file.read(2**20):
                checksum = zlib.crc32(content, checksum)
    return f"{checksum:08x}"


class PreparedCorpus:
    """A folder that `prepare` wrote.

    Raises:
        ValueError: The folder is missing or incomplete.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vocabulary = folder / "tokenizer.model"
        """The file of the vocabulary."""
        try:
            summary = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
            source, target = summary["languages"]
            self.name = str(summary["corpus"])
            """What corpus it is."""
            self.sizes: dict[str, int] = dict(summary["pairs"])
            """Number of pairs in each split."""
            self.left_out: dict[str, int] = dict(summary["left_out"])
            """Number of training pairs that were left out, for each problem."""
            self.languages: tuple[str, str] = (source, target)
            """Codes of the source's and the target's language; empty if unknown."""
            self.fingerprint: str = summary["fingerprint"]
            """A checksum of the training data's ids, equal for equal data."""
        except (OSError, ValueError, KeyError, TypeError) as error:
            if (folder / "config.json").exists():
                problem = "a run; with --data name the folder that `prepare` wrote"
            elif not folder.exists():
                here = "" if folder.is_absolute() else f" in {Path.cwd()}"
                problem = f"no such folder{here}; make it with `prepare`, or name "
                problem += "another one with --data"
            else:
                problem = "not a prepared corpus; run `prepare` with a new --out, or "
                problem += "name another one with --data"
            raise ValueError(f"{folder}: {problem}") from error
        self.tokenizer = Tokenizer.load(self.vocabulary)

    def ids(self, split: str) -> tuple[Sequences, Sequences]:
        """Return source and target ids of a split, memory-mapped.

        Raises:
            ValueError: There is no such split, or its files are damaged.
        """
        return self._both_sides(split, load_sequences)

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """Return source and target sentences of a split; errors are those of `ids`."""
        return self._both_sides(split, load_lines)

    def require_intact(self) -> None:
        """Check what was stored against what is there, which reads all ids once.

        Raises:
            ValueError: The training data is not what `prepare` wrote, or a split has an
                id that is not in the vocabulary.
        """
        for split in self.sizes:
            for side, sentences in zip(SIDES, self.ids(split), strict=True):
                ids, size = sentences.ids, self.tokenizer.vocab_size
                if ids.min() < 0 or ids.max() >= size:
                    raise _damaged(
                        side_file(self.folder, split, side, "ids"),
                        f"has ids from {ids.min()} to {ids.max()}, the vocabulary from "
                        f"0 to {size - 1}",
                    )
        if fingerprint_of(self.folder) != self.fingerprint:
            raise _damaged(
                self.folder,
                "the training data's checksum is not the fingerprint in corpus.json",
            )

    def _both_sides(
        self, split: str, load: Callable[[Path, str, str], Side]
    ) -> tuple[Side, Side]:
        if split not in self.sizes:
            known = ", ".join(self.sizes)
            raise ValueError(f'{self.folder}: no split "{split}"; name one of {known}')
        source, target = (load(self.folder, split, side) for side in SIDES)
        for side, sentences in zip(SIDES, (source, target), strict=True):
            if len(sentences) != self.sizes[split]:
                raise _damaged(
                    self.folder / f"{split}.{side}",
                    f"has {len(sentences):,} sentences and not {self.sizes[split]:,}",
                )
        return source, target


def _damaged(path: Path, reason: str) -> ValueError:
    return ValueError(
        f"{path}: damaged ({reason}); delete the folder and run `prepare` again"
    )
