"""Labelled bracket F1: how close output trees come to a treebank's.

Brackets are counted as the program EVALB counts them with the parameters of Collins
(COLLINS.prm), by which parsers of English are compared.

Paper: §6.3, Table 4
Chapter: 06_3_english_constituency_parsing
Tests: tests/package/parsing/test_brackets.py
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from transformer_lite.parsing.trees import NotATreeError, Tree, linearized, tree_of

PUNCTUATION = {",", ":", "``", "''", "."}
"""Tags of the words that do not count, not even for where a bracket begins."""

UNCOUNTED = PUNCTUATION | {"TOP"}
"""Labels of brackets that do not count."""

EQUAL = {"PRT": "ADVP"}
"""Labels that count as another: a particle's bracket counts as an adverb's."""

Bracket = tuple[str, int, int]
"""A label, and the positions in the sentence where its bracket begins and ends."""


@dataclass(frozen=True, kw_only=True)
class BracketScores:
    """How close outputs come to a treebank's trees, in percent.

    Brackets of all sentences are counted together. As in EVALB, precision, recall, F1
    and complete match leave out the outputs that are no trees.
    """

    precision: float
    """The share of the outputs' brackets that are right."""
    recall: float
    """The share of the treebank's brackets that the outputs have."""
    f1: float
    """The harmonic mean of precision and recall."""
    complete_match: float
    """The share of trees whose brackets are exactly the treebank's."""
    well_formed: float
    """The share of outputs that are trees over their sentence's words."""
    f1_all: float
    """F1 of all outputs; an output that is no tree counts as one without brackets."""
    sentences: int
    """The number of outputs."""
    ill_formed: dict[str, int]
    """The number of outputs with each fault that makes them no trees."""


def score_brackets(
    sentences: Sequence[str],
    references: Sequence[str],
    outputs: Sequence[str],
    with_words: bool = False,
) -> BracketScores:
    """Return precision, recall and F1 of labelled brackets.

    Args:
        sentences: The words of each sentence, with spaces between them.
        references: The treebank's trees, linearized with tags: these tell what is
            punctuation.
        outputs: A model's trees, linearized. Their tags do not count.
        with_words: Whether outputs have words instead of tags.

    Raises:
        ValueError: A reference is no tree over its sentence.
    """
    correct = written = expected = expected_of_all = complete = scored = 0
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
        tree_brackets = brackets(tree, gold)
        correct += (gold_brackets & tree_brackets).total()
        written += tree_brackets.total()
        expected += gold_brackets.total()
        complete += tree_brackets == gold_brackets
        scored += 1
    return BracketScores(
        precision=_percent(correct, written),
        recall=_percent(correct, expected),
        f1=_percent(2 * correct, written + expected),
        complete_match=_percent(complete, scored),
        well_formed=_percent(len(outputs) - ill_formed.total(), len(outputs)),
        f1_all=_percent(2 * correct, written + expected_of_all),
        sentences=len(outputs),
        ill_formed=dict(ill_formed.most_common()),
    )


def brackets(tree: Tree, gold: Tree) -> Counter[Bracket]:
    """Count a tree's brackets but those that EVALB ignores, by the tags in `gold`."""
    counts = iter(_counting(gold))
    counted: Counter[Bracket] = Counter()
    starts: list[int] = []
    position = 0  # punctuation is not counted
    for token in linearized(tree):
        if token[:1] == "(":
            starts.append(position)
        elif token[:1] == ")":
            label, start = token[1:], starts.pop()
            if start < position and label not in UNCOUNTED:
                counted[EQUAL.get(label, label), start, position] += 1
        else:
            position += next(counts)
    return counted


def _counting(gold: Tree) -> list[bool]:
    """Return True for each word that counts: for all but punctuation."""
    return [tag.label not in PUNCTUATION for tag in gold.tags()]


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
