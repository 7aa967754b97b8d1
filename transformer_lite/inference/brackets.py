"""Labelled bracket F1: how close output trees come to a treebank's.

The brackets are counted as the program EVALB counts them, with the parameters of
Collins (COLLINS.prm), by which parsers of English are compared.

Paper: §6.3, Table 4
Chapter: 06_3_english_constituency_parsing
Tests: tests/inference/test_brackets.py
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from transformer_lite.data.trees import (
    NotATreeError,
    Tree,
    linearized,
    tree_of,
)

PUNCTUATION = {",", ":", "``", "''", "."}
"""Tags of the words that do not count, not even for where a bracket begins."""

UNCOUNTED = PUNCTUATION | {"TOP"}
"""Labels of brackets that do not count."""

EQUAL = {"PRT": "ADVP"}
"""Labels that count as others: a particle's bracket as an adverb's."""

Bracket = tuple[str, int, int]


@dataclass(frozen=True, kw_only=True)
class BracketScores:
    """How close outputs come to a treebank's trees; everything but counts in percent.

    Brackets of all sentences are counted together. Precision, recall, F1 and complete
    match are those of the outputs that are trees, as EVALB gives them.
    """

    precision: float
    """Of the outputs' brackets, how many are right."""
    recall: float
    """Of the treebank's brackets, how many were found."""
    f1: float
    """The harmonic mean of precision and recall."""
    complete_match: float
    """Trees all of whose brackets are right, and that lack none."""
    well_formed: float
    """Outputs that are trees over their sentence's words."""
    f1_all: float
    """F1 of all outputs: one that is no tree has no bracket, and lacks all."""
    sentences: int
    ill_formed: dict[str, int]
    """What is wrong with outputs that are no trees, and with how many."""


def score_brackets(
    sentences: Sequence[str],
    references: Sequence[str],
    outputs: Sequence[str],
    with_words: bool = False,
) -> BracketScores:
    """Return precision, recall and F1 of labelled brackets.

    Args:
        sentences: The words of each sentence, with spaces between them.
        references: The treebank's trees, linearized, with their tags, which say what is
            punctuation.
        outputs: What a model made of the sentences, linearized. Its tags do not count.
        with_words: Whether outputs hold words in the place of tags.

    Raises:
        ValueError: A reference is no tree over its sentence.
    """
    correct = found = expected = expected_of_all = complete = scored = 0
    ill_formed: Counter[str] = Counter()
    for sentence, reference, output in zip(sentences, references, outputs, strict=True):
        words = sentence.split(" ")
        gold = tree_of(reference.split(" "), words)
        gold_brackets = brackets(gold, gold)
        expected_of_all += gold_brackets.total()
        try:
            tree = tree_of(output.split(), words, with_words)
        except NotATreeError as error:
            ill_formed[error.kind] += 1
            continue
        if not any(_counting(gold)):  # nothing but punctuation: EVALB skips it
            continue
        own = brackets(tree, gold)
        correct += (gold_brackets & own).total()
        found, expected = found + own.total(), expected + gold_brackets.total()
        complete, scored = complete + (own == gold_brackets), scored + 1
    return BracketScores(
        precision=_percent(correct, found),
        recall=_percent(correct, expected),
        f1=_percent(2 * correct, found + expected),
        complete_match=_percent(complete, scored),
        well_formed=_percent(len(outputs) - ill_formed.total(), len(outputs)),
        f1_all=_percent(2 * correct, found + expected_of_all),
        sentences=len(outputs),
        ill_formed=dict(ill_formed.most_common()),
    )


def brackets(tree: Tree, gold: Tree) -> Counter[Bracket]:
    """Return the brackets that count, each with the words it is around, as a multiset.

    Args:
        tree: Whose brackets they are.
        gold: The treebank's tree of the same sentence, whose tags say which words are
            punctuation.
    """
    counts = iter(_counting(gold))
    found: Counter[Bracket] = Counter()
    starts: list[int] = []
    position = 0  # as if there were no punctuation
    for token in linearized(tree):
        if token[:1] == "(":
            starts.append(position)
        elif token[:1] == ")":
            label, start = token[1:], starts.pop()
            if start < position and label not in UNCOUNTED:
                found[EQUAL.get(label, label), start, position] += 1
        else:
            position += next(counts)
    return found


def _counting(gold: Tree) -> list[bool]:
    """Return for each word whether it counts, that is, whether it is no punctuation."""
    return [tag.label not in PUNCTUATION for tag in gold.tags()]


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
