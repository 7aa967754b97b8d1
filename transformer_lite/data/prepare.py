"""A corpus turned into what training reads: a tokenizer and files of ids.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/package/data/test_prepare.py
"""

import json
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path

from transformer_lite.data.corpora import Corpus, SentencePair, UnusablePair
from transformer_lite.data.store import SIDES, fingerprint_of, side_writer
from transformer_lite.runs.console import Progress
from transformer_lite.runs.files import renamed_when_whole, sha256_of
from transformer_lite.tokenizer import Tokenizer

TOO_LONG = "too long"

CHUNK_PAIRS = 10_000
"""Pairs that are in memory at a time."""


def prepare(
    corpus: Corpus,
    out: Path,
    vocab_size: int,
    max_length: int,
    skip_unusable: bool,
    tokenizer: Tokenizer | None = None,
    allow_smaller: bool = False,
) -> None:
    """Train a tokenizer on the training split, and write every split as ids.

    Writes `tokenizer.model`, `corpus.json`, and for each split the ids of both sides
    (`<split>.src.ids`, …) and its text (`<split>.src.txt`, …). The corpus is never
    held in memory. The folder appears when all of it is written.

    Args:
        max_length: Most tokens of a sentence, EOS not counted.
        skip_unusable: Leave out training pairs that cannot be used or are too long, and
            count them in `corpus.json`; otherwise they are an error.
        tokenizer: One that is taken instead, with its own size.
        allow_smaller: Learn a smaller vocabulary where there is too little text.

    Raises:
        ValueError: `out` exists, a pair cannot be used or is too long, or the
            vocabulary does not fit the corpus.
    """
    with renamed_when_whole(out) as folder:
        too_long: set[int] = set()
        if tokenizer is None:
            tokenizer, too_long = _learned_vocabulary(
                corpus, vocab_size, max_length, skip_unusable, allow_smaller
            )
        tokenizer.save(folder / "tokenizer.model")
        summary = {"corpus": corpus.name, "languages": corpus.languages}
        summary |= {"vocab_size": tokenizer.vocab_size, "pairs": {}, "left_out": {}}
        for split in corpus.splits:
            pairs = _UsablePairs(corpus, split, split, skip_unusable, too_long)
            size = _write_split(pairs, tokenizer, folder, max_length)
            summary["pairs"][split] = size
            summary["left_out"] |= pairs.left_out
        summary["fingerprint"] = fingerprint_of(folder)
        summary["sha256"] = {p.name: sha256_of(p) for p in sorted(folder.iterdir())}
        (folder / "corpus.json").write_text(json.dumps(summary, indent=2) + "\n")


class _UsablePairs:
    """The pairs of a split that can be used; the others are counted, or an error."""

    def __init__(
        self,
        corpus: Corpus,
        split: str,
        task: str,
        skip_unusable: bool,
        too_long: Set[int] = frozenset(),
    ) -> None:
        self.corpus, self.split, self._task = corpus, split, task
        self._skip = skip_unusable and split == "train"
        self._too_long = too_long if split == "train" else frozenset()
        self.left_out = Counter[str]()

    def __iter__(self) -> Iterator[SentencePair]:
        return (pair for _, pair in self.numbered())

    def numbered(self) -> Iterator[tuple[int, SentencePair]]:
        """Yield the pairs with their numbers in the corpus."""
        pairs = self.corpus.splits[self.split]
        pairs = Progress(pairs, desc=self._task, unit="pair")
        for number, pair in enumerate(pairs, start=1):
            if isinstance(pair, UnusablePair):
                self.leave_out(pair)
            elif number in self._too_long:
                self.left_out[TOO_LONG] += 1
            elif problem := pair.problem():
                place = pair.place or f"{self.split}, pair {number}"
                kind, remedy = problem
                self.leave_out(UnusablePair(kind, place, remedy))
            else:
                yield number, pair

    def leave_out(self, pair: UnusablePair) -> None:
        """Count a pair that cannot be used, or raise it as a ValueError."""
        if not self._skip:
            hint = ", or give --skip-unusable" if self.split == "train" else ""
            raise ValueError(f"{pair}{hint}")
        self.left_out[pair.problem] += 1

    def all_left_out(self) -> ValueError:
        """Return the error for a split without any pair that can be used."""
        reasons = ", ".join(f"{n:,} {problem}" for problem, n in self.left_out.items())
        return ValueError(
            f"{self.split}: every pair was left out ({reasons or 'it is empty'}); give "
            "other text"
        )


def _learned_vocabulary(
    corpus: Corpus,
    vocab_size: int,
    max_length: int,
    skip_unusable: bool,
    allow_smaller: bool,
) -> tuple[Tokenizer, set[int]]:
    """Learn the vocabulary from the training pairs that are used.

    Which pairs are too long depends on the vocabulary, and the vocabulary on them. So
    it is learned again until no further pair is too long. Returned with it are the
    numbers of those that are.
    """
    too_long: set[int] = set()
    while True:
        pairs = _UsablePairs(corpus, "train", "symbols", skip_unusable, too_long)
        # Deviation D14: the brackets of trees share the vocabulary of their words.
        symbols, any_pair = set[str](), False
        for pair in pairs:
            symbols.update(corpus.symbols(pair))
            any_pair = True
        if not any_pair:
            raise pairs.all_left_out()
        pairs = _UsablePairs(corpus, "train", "vocabulary", skip_unusable, too_long)
        text = chain.from_iterable(map(corpus.encodable, pairs))
        tokenizer = Tokenizer.train(
            text, vocab_size, symbols=sorted(symbols), allow_smaller=allow_smaller
        )
        if not skip_unusable:  # a pair that is too long will be an error
            return tokenizer, too_long
        pairs = _UsablePairs(corpus, "train", "lengths", skip_unusable, too_long)
        longer, any_shorter = set(), False
        for number, pair in pairs.numbered():
            # A sentence has no more tokens than characters, and one for a space.
            if any(
                len(text) >= max_length and len(tokenizer.encode(text)) > max_length
                for text in corpus.encodable(pair)
            ):
                longer.add(number)
            else:
                any_shorter = True
        too_long |= longer
        if not (longer and any_shorter):
            return tokenizer, too_long


def _write_split(
    pairs: _UsablePairs, tokenizer: Tokenizer, folder: Path, max_length: int
) -> int:
    size, split, rest = 0, pairs.split, iter(pairs)
    with ExitStack() as files:
        writers = [files.enter_context(side_writer(folder, split, s)) for s in SIDES]
        while chunk := list(islice(rest, CHUNK_PAIRS)):
            texts = zip(*map(pairs.corpus.encodable, chunk), strict=True)
            ids = [tokenizer.encode_all(list(side)) for side in texts]
            for pair, *sides in zip(chunk, *ids, strict=True):
                length = max(map(len, sides))
                if length <= max_length:
                    size += 1
                    for write, text, side in zip(writers, pair, sides, strict=False):
                        write(text, side)
                else:
                    place = pair.place or f"{split}: {pair.source!r}"
                    remedy = f"give --max-length {length} or more"
                    pairs.leave_out(UnusablePair(TOO_LONG, place, remedy))
    if not size:
        raise pairs.all_left_out()
    return size
