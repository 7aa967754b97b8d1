"""What `prepare` wrote, read back: a tokenizer, ids and text.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/package/data/test_store.py
"""

import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np

from transformer_lite.batching import Sequences
from transformer_lite.runs.files import read_json, require_readable, sha256_of
from transformer_lite.runs.folder import RunFolder, require_folder
from transformer_lite.tokenizer import Tokenizer

SIDES = ("src", "tgt")
IDS, OFFSETS = np.dtype("<i4"), np.dtype("<i8")
"""Number formats of ids, and of the offsets at which each sequence starts."""


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


def fingerprint_of(folder: Path) -> str:
    """Return a checksum of the training data's ids, equal for equal data."""
    checksum = 0
    for side, kind in product(SIDES, ("ids", "offsets")):
        with side_file(folder, "train", side, kind).open("rb") as file:
            while content := file.read(2**20):
                checksum = zlib.crc32(content, checksum)
    return f"{checksum:08x}"


class PreparedCorpus:
    """A folder that `prepare` wrote; each file's checksum is compared when it is read.

    Raises:
        ValueError: The folder is missing or incomplete, or its vocabulary has changed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        require_folder(folder)
        try:
            match read_json(folder / "corpus.json"):
                case {
                    "corpus": str(name),
                    "languages": [str(source), str(target)],
                    "pairs": {"train": int()} as sizes,
                    "left_out": dict(left_out),
                    "fingerprint": str(fingerprint),
                    "sha256": {"tokenizer.model": str(checksum)} as sha256,
                }:
                    self.name = name
                    """What corpus it is."""
                    self.sizes: dict[str, int] = sizes
                    """Number of pairs in each split."""
                    self.left_out: dict[str, int] = left_out
                    """Number of training pairs that were left out, for each problem."""
                    self.languages: tuple[str, str] = (source, target)
                    """Codes of source and target language; empty if unknown."""
                    self.fingerprint = fingerprint
                    """A checksum of the training data's ids, equal for equal data."""
                    self.sha256: dict[str, str] = sha256
                    """Of every other file."""
                case _:
                    raise ValueError("a field is missing, or of another type")
        except (FileNotFoundError, NotADirectoryError, ValueError) as error:
            if (folder / "config.json").exists():
                problem = "a run; with --data name the folder that `prepare` wrote"
            else:
                problem = "not a prepared corpus, or by an earlier version; run "
                problem += "`prepare` with a new --out, or name another with --data"
            raise ValueError(f"{folder}: {problem}") from error
        self._intact: set[Path] = set()
        self.vocabulary = folder / "tokenizer.model"
        """The file of the vocabulary."""
        self.tokenizer = Tokenizer.load(self.vocabulary, checksum)

    def ids(self, split: str) -> tuple[Sequences, Sequences]:
        """Return source and target ids of a split.

        They are memory-mapped: they take no memory until they are used, and processes
        on one machine share them.

        Raises:
            ValueError: There is no such split, or a file is not as it was written.
            OSError: A file cannot be read.
        """

        def load(side: str) -> Sequences:
            ids, offsets = (
                self._side(split, side, kind) for kind in ("ids", "offsets")
            )
            return Sequences(np.memmap(ids, IDS, "r"), np.fromfile(offsets, OFFSETS))

        source, target = map(load, SIDES)
        return source, target

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """Return source and target sentences of a split; errors are those of `ids`."""
        paths = (self._side(split, side, "txt") for side in SIDES)
        texts = (path.read_bytes().decode().removesuffix("\n") for path in paths)
        source, target = (text.split("\n") for text in texts)
        return source, target

    def require_vocabulary_of(self, run: RunFolder) -> None:
        """Check that a run's model knows the tokens of this corpus.

        Raises:
            ValueError: The run has another vocabulary, or none.
        """
        try:
            require_readable(run.tokenizer)
        except FileNotFoundError as error:
            raise ValueError(
                f"{run.tokenizer}: missing; copy it from the data that the run trained "
                "on"
            ) from error
        Tokenizer.load(run.tokenizer, run.training_data().get("tokenizer_sha256"))
        if run.tokenizer.read_bytes() != self.vocabulary.read_bytes():
            raise ValueError(
                f"{self.folder}: has another vocabulary than {run.path}; prepare the "
                f"text with --vocabulary {run.path}"
            )

    def _side(self, split: str, side: str, kind: str) -> Path:
        """Return where a side of a split lies, if it is as it was written."""
        if split not in self.sizes:
            known = ", ".join(self.sizes)
            raise ValueError(f'{self.folder}: no split "{split}"; name one of {known}')
        path = side_file(self.folder, split, side, kind)
        if os.path.lexists(path):
            require_readable(path)
            if path in self._intact or sha256_of(path) == self.sha256.get(path.name):
                self._intact.add(path)
                return path
        raise ValueError(
            f"{path}: missing, or changed since `prepare` wrote it; delete the folder "
            "and run `prepare` again"
        )
