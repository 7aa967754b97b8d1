"""Treebanks as corpora, and the verb that prepares one, `prepare-trees`.

Paper: §6.3
Chapter: 06_3_english_constituency_parsing
Tests: tests/package/parsing/test_treebank.py, tests/package/parsing/test_parsing.py
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

from tyro.conf import OmitArgPrefixes

from transformer_lite.data.corpora import (
    Corpus,
    SentencePair,
    UnusablePair,
    lines_of,
    require_file,
)
from transformer_lite.data.verbs import Preparation
from transformer_lite.parsing.trees import TreeForm, linearized, normalized, read_trees


@dataclass(frozen=True)
class TreeFiles:
    """UTF-8 files of trees in brackets, plain or gzipped, one after the other."""

    paths: tuple[Path, ...]

    def __iter__(self) -> Iterator[SentencePair | UnusablePair]:
        """Yield the words of each tree and its tokens with tags."""
        for path in self.paths:
            number = 0
            for number, tree in read_trees(_text_of(path), str(path)):
                place, tree = f"{path}, line {number}", normalized(tree)
                if tree is None:
                    yield UnusablePair("no word", place, "remove this tree")
                else:
                    words = " ".join(tree.words())
                    yield SentencePair(words, " ".join(linearized(tree)), place)
            if number == 0:
                raise ValueError(f"{path}: no tree; give a file with trees")


def _text_of(path: Path) -> Iterator[str]:
    """Yield the lines of a file, all of which have to be UTF-8."""
    for line in lines_of(path):
        if isinstance(line, UnusablePair):
            raise ValueError(str(line))
        yield line


@dataclass(frozen=True)
class TreeCorpus(Corpus):
    """Sentences and their trees, which the model writes in one form."""

    form: TreeForm = field(default_factory=TreeForm)

    def encodable(self, pair: SentencePair) -> tuple[str, str]:
        """Return the sentence, and its tree written in the corpus's form."""
        return pair.source, " ".join(self.form.tokens(pair.source, pair.target))

    def symbols(self, pair: SentencePair) -> Iterable[str]:
        """Return the brackets of a tree, and its tags where they are its leaves."""
        return self.form.symbols(self.form.tokens(pair.source, pair.target))


def corpus_of_trees(
    given: Mapping[str, Sequence[Path]],
    language: str = "",
    form: TreeForm | None = None,
) -> TreeCorpus:
    """Make a corpus of one's own files of trees in brackets (Section 6.3).

    Args:
        given: For each split any number of files.
        form: How a model writes the trees; by default with tags, as the authors' code.

    Raises:
        ValueError: A file cannot be read.
    """
    for path in chain.from_iterable(given.values()):
        require_file(path)
    form = form or TreeForm()
    splits = {split: TreeFiles(tuple(paths)) for split, paths in given.items()}
    return TreeCorpus("trees", splits, (language, form.language), form)


_OPTIONS = Preparation(max_length=2000)


def prepare_trees(
    *,
    out: Path,
    train: tuple[Path, ...],
    valid: tuple[Path, ...],
    test: tuple[Path, ...] = (),
    source: str = "",
    leaves: Literal["tags", "words"] = "tags",
    preparation: OmitArgPrefixes[Preparation] = _OPTIONS,
) -> None:
    """Prepare trees of your own, in brackets, to train a parser.

    Every word stands in a bracket of its own, with its tag, as in the Penn treebank:
    (S (NP (DT The) (NN dog)) (VP (VBZ sleeps)) (. .)). A tree may go over many lines.

    Args:
        out: Folder to make.
        train: Any number of training files.
        valid: Validation files.
        test: Test files, if you have any.
        source: Code of the words' language.
        leaves: What stands for a word in the model's trees: its tag, or the word.
        preparation: The vocabulary, and which trees are used.
    """
    given = {"train": train, "valid": valid, "test": test}
    given = {split: paths for split, paths in given.items() if paths}
    form = TreeForm(leaves)
    preparation.write(out, lambda: corpus_of_trees(given, source, form))
