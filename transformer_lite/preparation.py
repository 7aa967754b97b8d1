"""A corpus turned into what training reads: a tokenizer and arrays of ids.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/test_preparation.py
"""

import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from transformer_lite.corpora import Corpus, SentencePair
from transformer_lite.sequences import Sequences
from transformer_lite.tokenizer import Tokenizer


def prepare(
    corpus: Corpus, out: Path, vocab_size: int, max_length: int, skip_long: bool
) -> None:
    """Train a tokenizer on the training split, and write every split as ids.

    Writes `tokenizer.model`, `corpus.json`, and for each split the ids of both sides
    (`<split>.src.ids.npy`, …) and its text (`<split>.src.txt`, …). The folder appears
    when all of it is written.

    Args:
        corpus: Parallel text.
        out: The folder to make.
        vocab_size: Size of the vocabulary that both languages share.
        max_length: Most tokens of a sentence, EOS not counted.
        skip_long: Leave out longer training pairs; otherwise they are an error.

    Raises:
        ValueError: `out` exists, the text is faulty, a sentence is too long, or the
            vocabulary does not fit the corpus.
    """
    with new_folder(out) as partial:
        _write(corpus, partial, vocab_size, max_length, skip_long)


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill inside the block; afterwards it is `out`, or gone if it failed.

    Raises:
        ValueError: `out` exists.
    """
    if out.exists():
        raise ValueError(f"{out}: already there; delete it or give another --out")
    partial = out.with_name(out.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        partial.rename(out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(
    corpus: Corpus, folder: Path, vocab_size: int, max_length: int, skip_long: bool
) -> None:
    training_text = (line for pair in corpus.splits["train"] for line in pair)
    tokenizer = Tokenizer.train(training_text, vocab_size)
    tokenizer.save(folder / "tokenizer.model")
    sizes = {}
    for split, pairs in corpus.splits.items():
        skip = skip_long and split == "train"
        kept = list(_encode(pairs, tokenizer, max_length, skip, split))
        if not kept:
            raise ValueError(
                f"{split}: every pair is longer than --max-length {max_length}; "
                "give a larger one"
            )
        sizes[split] = len(kept)
        for side, name in enumerate(("src", "tgt")):
            sequences = Sequences.from_lists(ids[side] for ids, _ in kept)
            sequences.save(folder / f"{split}.{name}")
            text = "".join(pair[side] + "\n" for _, pair in kept)
            (folder / f"{split}.{name}.txt").write_text(
                text, encoding="utf-8", newline="\n"
            )
    summary = {"corpus": corpus.name, "vocab_size": vocab_size, "pairs": sizes}
    (folder / "corpus.json").write_text(json.dumps(summary, indent=2) + "\n")


def _encode(
    pairs: Iterable[SentencePair],
    tokenizer: Tokenizer,
    max_length: int,
    skip_long: bool,
    split: str,
) -> Iterator[tuple[tuple[list[int], list[int]], SentencePair]]:
    """Each pair's ids, with the pair itself."""
    for number, pair in enumerate(
        tqdm(pairs, desc=split, unit="pair", disable=None), start=1
    ):
        source, target = (tokenizer.encode(text) for text in pair)
        length = max(len(source), len(target))
        if length <= max_length:
            yield (source, target), pair
        elif not skip_long:
            other = ", or --skip-long" if split == "train" else ""
            raise ValueError(
                f"{split}, line {number}: {length} tokens are more than --max-length "
                f"{max_length}; give a larger one{other}"
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
            sizes = dict(summary["pairs"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{folder}: not a prepared corpus; run `prepare` with --out {folder}"
            ) from error
        self.folder = folder
        self.sizes: dict[str, int] = sizes
        """Number of pairs in each split."""
        self.tokenizer = Tokenizer.load(folder / "tokenizer.model")

    def ids(self, split: str) -> tuple[Sequences, Sequences]:
        """Source and target ids of a split, memory-mapped.

        Raises:
            ValueError: There is no such split, or its files are damaged.
        """
        self._require(split)
        sides = tuple(
            Sequences.load(self.folder / f"{split}.{side}") for side in ("src", "tgt")
        )
        if {len(side) for side in sides} != {self.sizes[split]}:
            raise ValueError(
                f"{self.folder}: {split} has {len(sides[0]):,} sources and "
                f"{len(sides[1]):,} targets, not {self.sizes[split]:,} each; "
                "run `prepare` again"
            )
        return sides

    def text(self, split: str) -> tuple[list[str], list[str]]:
        """Source and target sentences of a split.

        Raises:
            ValueError: There is no such split.
        """
        self._require(split)
        sides = tuple(
            _read_lines(self.folder / f"{split}.{side}.txt") for side in ("src", "tgt")
        )
        if {len(side) for side in sides} != {self.sizes[split]}:
            raise ValueError(
                f"{self.folder}: the text of {split} has not the "
                f"{self.sizes[split]:,} lines it should have; run `prepare` again"
            )
        return sides

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
        raise ValueError(f"{path}: cannot be read; run `prepare` again") from error
    return text.removesuffix("\n").split("\n")
