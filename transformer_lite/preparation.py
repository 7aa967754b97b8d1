"""A corpus turned into what training reads: a tokenizer and arrays of ids.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/test_preparation.py
"""

import json
import shutil
from itertools import islice
from pathlib import Path

from tqdm import tqdm

from transformer_lite.corpora import Corpus
from transformer_lite.sequences import Sequences
from transformer_lite.tokenizer import UNK, VOCAB_SENTENCES, Tokenizer
from transformer_lite.unfinished import SIDES, Journal, append_pairs, only_one

CHUNK_PAIRS = 10_000
"""Pairs that are in memory at a time."""


def prepare(
    corpus: Corpus,
    out: Path,
    vocab_size: int,
    max_length: int,
    skip_long: bool,
    vocab_sentences: int = VOCAB_SENTENCES,
) -> None:
    """Train a tokenizer on the training split, and write every split as ids.

    Writes `tokenizer.model`, `corpus.json`, and for each split the ids of both sides
    (`<split>.src.ids.npy`, …) and its text (`<split>.src.txt`, …). The corpus is
    never held in memory. The folder appears when all of it is written. Until then
    the work lies in `<out>.partial`; if it is interrupted, the same call goes on
    from there. For a changed corpus or another option it begins anew.

    Args:
        corpus: Parallel text.
        out: The folder to make.
        vocab_size: Size of the vocabulary that both languages share.
        max_length: Most tokens of a sentence, EOS not counted.
        skip_long: Leave out longer training pairs; otherwise they are an error.
        vocab_sentences: Most sentences that the vocabulary is learned from.

    Raises:
        ValueError: `out` exists or is being made, the text is faulty, a sentence is
            too long, or the vocabulary does not fit the corpus.
    """
    options = {
        "vocab_size": vocab_size,
        "max_length": max_length,
        "skip_long": skip_long,
        "vocab_sentences": vocab_sentences,
    }
    with only_one(out):
        if out.exists():
            raise ValueError(f"{out}: already there; delete it or give another --out")
        partial = out.with_name(out.name + ".partial")
        request = {"corpus": corpus.origin, **options} if corpus.origin else None
        journal = Journal(partial, request)
        try:
            tokenizer = _tokenizer(
                corpus, partial, journal, vocab_size, vocab_sentences
            )
            for split in corpus.splits:
                skip = skip_long and split == "train"
                _write_split(corpus, split, tokenizer, journal, max_length, skip)
        except ValueError:  # the same call would come to the same end
            shutil.rmtree(partial, ignore_errors=True)
            raise
        sizes = {split: journal[split].kept for split in corpus.splits}
        summary = {"corpus": corpus.name, "vocab_size": vocab_size, "pairs": sizes}
        (partial / "corpus.json").write_text(json.dumps(summary, indent=2) + "\n")
        journal.remove()
        partial.rename(out)


def _tokenizer(
    corpus: Corpus,
    folder: Path,
    journal: Journal,
    vocab_size: int,
    vocab_sentences: int,
) -> Tokenizer:
    """The tokenizer, trained unless it was before."""
    path = folder / "tokenizer.model"
    if not journal.begun:
        pairs = tqdm(
            corpus.splits["train"], desc="vocabulary", unit="pair", disable=None
        )
        text = (line for pair in pairs for line in pair)
        Tokenizer.train(text, vocab_size, vocab_sentences).save(path)
        journal.begin()
    return Tokenizer.load(path)


def _write_split(
    corpus: Corpus,
    split: str,
    tokenizer: Tokenizer,
    journal: Journal,
    max_length: int,
    skip_long: bool,
) -> None:
    """Write what is missing of a split's ids and text."""
    done = journal[split]
    if done.whole:
        return
    pairs = tqdm(corpus.splits[split], desc=split, unit="pair", disable=None)
    rest = islice(pairs, done.read, None)
    while chunk := list(islice(rest, CHUNK_PAIRS)):
        text = [list(side) for side in zip(*chunk, strict=True)]
        ids = [tokenizer.encode_all(side) for side in text]
        lengths = [max(map(len, pair)) for pair in zip(*ids, strict=True)]
        kept = [i for i, length in enumerate(lengths) if length <= max_length]
        if len(kept) < len(chunk):
            if not skip_long:
                _refuse(split, done.read, lengths, max_length)
            ids, text = ([[side[i] for i in kept] for side in x] for x in (ids, text))
        done = append_pairs(journal.folder / split, done, ids, text, len(chunk))
        journal[split] = done
    if not done.kept:
        raise ValueError(
            f"{split}: every pair is longer than --max-length {max_length}; "
            "give a larger one"
        )
    journal[split] = done._replace(whole=True)


def _refuse(split: str, read: int, lengths: list[int], max_length: int) -> None:
    """Name the first pair that is too long."""
    number = next(i for i, length in enumerate(lengths) if length > max_length)
    other = ", or --skip-long" if split == "train" else ""
    raise ValueError(
        f"{split}, line {read + number + 1}: {lengths[number]} tokens are more than "
        f"--max-length {max_length}; give a larger one{other}"
    )


class PreparedCorpus:
    """What `prepare` wrote, read back.

    Args:
        folder: The folder that it wrote.

    Raises:
        ValueError: The folder is missing or incomplete.
    """

    def __init__(self, folder: Path) -> None:
        try:
            summary = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
            name, sizes = str(summary["corpus"]), dict(summary["pairs"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{folder}: not a prepared corpus; run `prepare` with --out {folder}"
            ) from error
        self.folder = folder
        self.name = name
        """What corpus it is."""
        self.sizes: dict[str, int] = sizes
        """Number of pairs in each split."""
        self.tokenizer = Tokenizer.load(folder / "tokenizer.model")

    def ids(self, split: str) -> tuple[Sequences, Sequences]:
        """Source and target ids of a split, memory-mapped.

        Raises:
            ValueError: There is no such split, or its files are damaged.
        """
        self._require(split)
        sides = tuple(Sequences.load(self.folder / f"{split}.{side}") for side in SIDES)
        if {len(side) for side in sides} != {self.sizes[split]}:
            raise ValueError(
                f"{self.folder}: {split} has {len(sides[0]):,} sources and "
                f"{len(sides[1]):,} targets, not {self.sizes[split]:,} each; "
                "delete the folder and run `prepare` again"
            )
        for side, sequences in zip(SIDES, sides, strict=True):
            least, greatest = sequences.extremes
            if not UNK <= least <= greatest < self.tokenizer.vocab_size:
                raise ValueError(
                    f"{self.folder / split}.{side}.ids.npy: damaged, has ids from "
                    f"{least} to {greatest}, but the text's begin at {UNK} and end "
                    f"below {self.tokenizer.vocab_size}; delete the folder and run "
                    "`prepare` again"
                )
        return sides

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """Source and target sentences of a split.

        Raises:
            ValueError: There is no such split.
        """
        self._require(split)
        sides = tuple(
            _read_lines(self.folder / f"{split}.{side}.txt") for side in SIDES
        )
        if {len(side) for side in sides} != {self.sizes[split]}:
            raise ValueError(
                f"{self.folder}: the text of {split} has not the "
                f"{self.sizes[split]:,} lines it should have; delete the folder and "
                "run `prepare` again"
            )
        return sides

    def fingerprint(self) -> str:
        """What tells this training data from any other under the same vocabulary."""
        checksum = 0
        for sequences in self.ids("train"):
            checksum = sequences.checksum(checksum)
        return f"{checksum:08x}"

    def _require(self, split: str) -> None:
        if split not in self.sizes:
            known = ", ".join(self.sizes)
            raise ValueError(
                f'{self.folder}: no split "{split}"; it has {known}, name one of them'
            )


def _read_lines(path: Path) -> list[str]:
    """The lines of a file that `prepare` wrote; "\\n" alone ends a line."""
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path}: cannot be read; delete the folder and run `prepare` again"
        ) from error
    return text.removesuffix("\n").split("\n")
