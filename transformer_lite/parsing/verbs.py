"""The verb that turns trees into ids, `prepare-trees` (Section 6.3).

Paper: §6.3
Chapter: 06_3_english_constituency_parsing
Tests: tests/package/parsing/test_parsing.py
"""

from pathlib import Path
from typing import Literal

from tyro.conf import OmitArgPrefixes

from transformer_lite.data.verbs import Preparation
from transformer_lite.parsing.treebank import corpus_of_trees
from transformer_lite.parsing.trees import TreeForm

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
