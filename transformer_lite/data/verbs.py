"""The verbs that turn text into ids, `prepare` and `prepare-files`.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/package/data/test_verbs.py
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Literal

from tyro.conf import OmitArgPrefixes, Positional

from transformer_lite.data.corpora import Corpus, corpus_of_files, load_corpus
from transformer_lite.runs.console import tell
from transformer_lite.runs.files import require_new
from transformer_lite.runs.folder import find_run
from transformer_lite.tokenizer import Tokenizer

VOCAB_SIZE = 8000
VOCAB_SIZES = {"toy": 500, "multi30k": 4000, "wmt14": 37_000}
"""Sizes of the vocabulary that are not `VOCAB_SIZE`."""


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The vocabulary, and which pairs are used."""

    vocab_size: int | None = None
    """Size of the vocabulary: 8000, for toy 500, multi30k 4000, wmt14 37000, or as many
    tokens as little text gives."""
    vocabulary: str | None = None
    """A run or trained model, whose vocabulary is taken, to score or train it on."""
    max_length: int = 256
    """Most tokens of a sentence."""
    skip_unusable: bool = False
    """Leave out and count training pairs that are empty, damaged or too long."""

    def write(self, out: Path, get: Callable[[], Corpus]) -> None:
        """Prepare a corpus, and say what was written.

        Args:
            get: Gets the text. It is called when everything else is known to be right.

        Raises:
            ValueError: As for `data.prepare.prepare`; or there is no such vocabulary.
        """
        require_new(out)
        tokenizer = None
        if self.vocabulary:
            if self.vocab_size is not None:
                raise ValueError("--vocabulary has a size already; remove --vocab-size")
            run = find_run(self.vocabulary)
            run.recipe()  # raises an error where there is no run
            checksum = run.training_data().get("tokenizer_sha256")
            tokenizer = Tokenizer.load(run.tokenizer, checksum)
        corpus = get()
        from transformer_lite.data.prepare import prepare as write_corpus
        from transformer_lite.data.store import PreparedCorpus

        vocab_size, allow_smaller = self.vocab_size, self.vocab_size is None
        if allow_smaller:
            vocab_size = VOCAB_SIZES.get(corpus.name, VOCAB_SIZE)
        options = (self.max_length, self.skip_unusable, tokenizer, allow_smaller)
        write_corpus(corpus, out, vocab_size, *options)
        written = PreparedCorpus(out)
        sizes = ", ".join(f"{size:,} {split}" for split, size in written.sizes.items())
        learned = written.tokenizer.vocab_size
        print(f"{out}: {sizes} pairs, {learned:,} tokens in the vocabulary")
        if not tokenizer and learned < vocab_size:
            print(f"the text is too little for {vocab_size:,} tokens: these are all")
        if written.left_out:
            counts = (f"{n:,} {problem}" for problem, n in written.left_out.items())
            print(f"training pairs left out: {', '.join(counts)}")


def prepare(
    corpus: Positional[Literal["toy", "multi30k", "tatoeba", "wmt14"]],
    /,
    *,
    out: Path,
    source: str = "en",
    target: str = "de",
    preparation: OmitArgPrefixes[Preparation] = Preparation(),
) -> None:
    """Get a published corpus, learn its vocabulary, write its sentences as ids.

    Multi30k and wmt14 have the languages en, de and fr; tatoeba has many more, such as
    ko and zh.

    Args:
        corpus: The corpus; toy is generated, the others are downloaded once.
        out: Folder to make.
        source: Code of the source language.
        target: Code of the target language.
        preparation: The vocabulary, and which pairs are used.
    """
    preparation.write(out, lambda: load_corpus(corpus, source, target))


def prepare_files(
    *,
    out: Path,
    source: str,
    target: str,
    train: tuple[Path, ...],
    valid: tuple[Path, ...],
    test: tuple[Path, ...] = (),
    preparation: OmitArgPrefixes[Preparation] = Preparation(),
) -> None:
    """Prepare files of your own, one sentence a line.

    Give source and target of each split; or one file with source, tab and target on
    each line.

    Args:
        out: Folder to make.
        source: Code of the source language, such as en: BLEU needs to know it.
        target: Code of the target language, such as ko.
        train: Your training files.
        valid: Your validation files.
        test: Your test files, if you have any.
        preparation: The vocabulary, and which pairs are used.
    """
    given = {"train": train, "valid": valid, "test": test}
    given = {split: paths for split, paths in given.items() if paths}

    def get() -> Corpus:
        corpus = corpus_of_files(given, (source, target))
        for note in _doubts(given, source, target):
            tell(f"note: {note}")
        return corpus

    preparation.write(out, get)


def _doubts(
    given: dict[str, tuple[Path, ...]], source: str, target: str
) -> Iterator[str]:
    """Yield what is possible and hardly meant about files that are all there."""
    for split, (one, *others) in given.items():
        if others and one.samefile(others[0]):
            yield f"--{split} has {one} as source and as target"
        codes = [path.name.removesuffix(".gz").split(".")[-1] for path in given[split]]
        if codes == [target, source]:
            yield (
                f"--{split} names the {target} file before the {source} file; the "
                "source comes first"
            )
    for (split, paths), (other, others) in combinations(given.items(), 2):
        for path in dict.fromkeys(paths):
            if any(map(path.samefile, others)):
                yield f"{path} is in --{split} and --{other}: --{other} tests nothing"
