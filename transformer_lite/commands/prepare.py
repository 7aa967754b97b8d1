"""`transformer-lite prepare`: text becomes ids.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/test_cli.py
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tyro.conf import FlagCreatePairsOff, Positional

from transformer_lite.commands.arguments import Verb
from transformer_lite.tokenizer import VOCAB_SENTENCES


@dataclass(frozen=True, kw_only=True)
class Prepare(Verb):
    """Get a corpus, learn its vocabulary, write its sentences as ids."""

    corpus: Positional[str]
    """"toy", "multi30k", "tatoeba", "wmt14", or "files" for files of your own."""
    out: Path
    """Folder to make."""
    source: str | None = None
    """Source language. Multi30k and wmt14 have en, which is the default, de and fr, and
    tatoeba has many more, such as ko and zh; of your own files, the names of --train
    say it if they end in it, as train.ko does."""
    target: str | None = None
    """Target language, likewise; the default is de."""
    train: tuple[Path, ...] | None = None
    """Your training files: source and target, one sentence a line; or one file with a
    tab between source and target."""
    valid: tuple[Path, ...] | None = None
    """Your validation files."""
    test: tuple[Path, ...] | None = None
    """Your test files, if you have any."""
    vocab_size: int | None = None
    """Size of the shared vocabulary; by default 500 for toy, 37000 for wmt14, otherwise
    8000."""
    vocab_sentences: int = VOCAB_SENTENCES
    """Most sentences that the vocabulary is learned from, drawn at random."""
    max_length: int = 256
    """Most tokens of a sentence."""
    skip_unusable: FlagCreatePairsOff[bool] = False
    """Leave out training pairs that are empty, damaged or too long, and say how many,
    instead of stopping at them."""

    def run(self) -> None:
        """Write the folder, or say that it is there."""
        from transformer_lite.data.prepare import prepare
        from transformer_lite.data.store import PreparedCorpus

        vocab_size = self.vocab_size
        if vocab_size is None:
            vocab_size = {"toy": 500, "wmt14": 37_000}.get(self.corpus, 8000)
        new = prepare(
            self._text(),
            self.out,
            vocab_size,
            self.max_length,
            self.skip_unusable,
            self.vocab_sentences,
        )
        corpus = PreparedCorpus(self.out)
        pairs = ", ".join(f"{size:,} {split}" for split, size in corpus.sizes.items())
        done = "" if new else "already prepared: "
        print(
            f"{self.out}: {done}{pairs} pairs, {vocab_size:,} tokens in the vocabulary"
        )
        if corpus.left_out:
            reasons = [f"{n:,} {kind}" for kind, n in corpus.left_out.items()]
            print(f"training pairs left out: {', '.join(reasons)}")

    def _text(self) -> Any:
        from transformer_lite.data.corpora import corpus_of_files, load_corpus

        given = {"train": self.train, "valid": self.valid, "test": self.test}
        given = {split: paths for split, paths in given.items() if paths}
        form = (
            "prepare files --train SOURCE TARGET --valid SOURCE TARGET, or instead of "
            "two files one with a tab between source and target"
        )
        if self.corpus != "files":
            if given and self.corpus in ("toy", "multi30k", "tatoeba", "wmt14"):
                raise ValueError(
                    f'"{self.corpus}" has its own text; for yours, write {form}'
                )
            return load_corpus(self.corpus, self.source or "en", self.target or "de")
        for split, paths in given.items():
            if len(paths) > 2:
                raise ValueError(
                    f"--{split} has {len(paths)} files; give source and target, or one "
                    "file with a tab between them"
                )
        for split in ("train", "valid"):
            if split not in given:
                raise ValueError(f"--{split} is missing; write {form}")
        return corpus_of_files(**given, languages=(self.source, self.target))
