"""Score stored trees once more, for chapter 6.3: brackets, and attached phrases.

In "saw the man with the telescope", the phrase after the object belongs to the verb or
to the object. In CRAFT's test trees a case is a verb (a tag VB…), directly followed by
an NP that is its sister, directly followed by a PP. The NP is a base one: none begins
it. In the treebank the PP hangs from the object (an NP around the base one) or from the
verb (a VP around the verb). A tree decides by the smallest of its constituents that
holds both the preposition and the word before it: by an NP that begins after the verb
for the object, by a VP around the verb for the verb, by any other for neither.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from results.provenance import ROOT
from results.runs import RUNS, Run
from results.storage import read_json, read_lines
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.parsing.trees import (
    TREES_WITH_WORDS,
    NotATreeError,
    Tree,
    linearized,
    tree_of,
)

CONSTRAINED = ROOT / "transformer_lite_book" / "constrained.json"
"""Scores of searches that may write nothing but trees."""
ATTACHMENT = ROOT / "transformer_lite_book" / "attachment.json"
ATTACHMENT_CORPUS = "craft_gum_words"  # all of CRAFT's have one test set
ATTACHMENT_PARSER = "parsing/craft_gum_words_fourth_round-2"


def constrained_outputs(run: Run, search: str) -> Path:
    """Return the file of the test set's trees, with XX for a word in a tree.

    Args:
        search: "test" is greedy, "beam_4" has a beam of 4 and α = 0.6.
    """
    return Path("results/constrained") / f"{run.result.stem}.{search}.txt.gz"


INTERVAL_DRAWS = 10_000
ARTICLES = (
    *(288, 196, 393, 347, 369, 121, 305, 448, 284, 137, 258, 290, 221, 295, 428),
    *(227, 266, 381, 251, 124, 303, 337, 435, 292, 332, 358, 419, 344, 330, 320),
)
"""How many sentences each article of CRAFT's test set has, in the set's order.

They are the trees of the files that `treebank_files.craft_files` gets.
"""

Answer = Literal["object", "verb"]


class Case(NamedTuple):
    """A prepositional phrase that stands after a verb and its object."""

    verb: int
    """The verb's place among the words, from 0."""
    preposition: int
    """The place of the phrase's first word."""
    answer: Answer
    """What the treebank attaches it to."""


class Join(NamedTuple):
    """The smallest constituent that holds a word and the one before it."""

    label: str
    start: int
    """The place of its first word."""
    child: str
    """The label of its child that begins with the word; empty for the word itself."""


def joins(tree: Tree) -> list[Join]:
    """Return for each word what joins it to the one before; nothing for the first."""
    found, stack = [], []
    shared = 0  # brackets that were open before the last word, and still are
    for token in linearized(tree):
        if token[:1] == "(":
            stack.append((token[1:], len(found)))
        elif token[:1] == ")":
            stack.pop()
            shared = min(shared, len(stack))
        else:
            label, start = stack[shared - 1] if shared else ("", 0)
            child = stack[shared][0] if len(stack) > shared else ""
            found.append(Join(label, start, child))
            shared = len(stack)
    return found


def attachment(join: Join, verb: int) -> Answer | None:
    """Return what a phrase is attached to, by what joins it to the word before it."""
    if join.label == "NP" and join.start > verb:
        return "object"
    return "verb" if join.label == "VP" and join.start <= verb else None


def cases(gold: Tree) -> list[Case]:
    """Return the cases of a treebank's tree, in the order of their verbs."""
    found, joined = [], joins(gold)
    for verb, base in _objects(gold):
        preposition = verb + 1 + len(base.words())
        if preposition < len(joined) and joined[preposition].child == "PP":
            answer = attachment(joined[preposition], verb)
            if answer:
                found.append(Case(verb, preposition, answer))
    return sorted(found)


def _objects(tree: Tree) -> Iterator[tuple[int, Tree]]:
    """Yield the place of each verb that has an object, with the object's base NP."""
    stack = [(tree, 0)]
    while stack:
        node, start = stack.pop()
        begun = []
        for child in node.children:
            begun.append((child, start))
            start += len(child.words())
        stack += [(child, place) for child, place in begun if not child.is_tag]
        for (before, verb), (base, _) in pairwise(begun):
            if (
                before.is_tag
                and before.label.startswith("VB")
                and _is_noun_phrase(base)
            ):
                while _is_noun_phrase(base.children[0]):
                    base = base.children[0]
                yield verb, base


def _is_noun_phrase(tree: Tree) -> bool:
    return tree.label == "NP" and not tree.is_tag


def drawn_anew(counts: Sequence[Sequence[float]], places: Sequence[int]) -> np.ndarray:
    """Return the sums of each count: of all articles, then of articles drawn anew.

    Sentences of one article are alike, so whole articles are drawn, as many as have
    sentences, `INTERVAL_DRAWS` times and each time the same ones.

    Args:
        counts: One row for each sentence.
        places: Where these sentences stand in CRAFT's test set.
    """
    numbers = np.repeat(np.arange(len(ARTICLES)), ARTICLES)[list(places)]
    names, articles = np.unique(numbers, return_inverse=True)
    rows = np.array(counts, float)
    sums = np.zeros((len(names), rows.shape[1]))
    np.add.at(sums, articles, rows)
    chances = np.full(len(names), 1 / len(names))
    draws = np.random.default_rng(0)
    times = draws.multinomial(len(names), chances, INTERVAL_DRAWS)
    return np.vstack([sums.sum(0), times @ sums])


def interval(values: np.ndarray) -> list[float]:
    """Return the first value, and the ends between which 95 % of the others lie."""
    found = [values[0], *np.quantile(values[1:], [0.025, 0.975])]
    return [round(float(value), 2) for value in found]


def score(
    golds: Sequence[Tree], outputs: Sequence[str], with_words: bool = False
) -> dict[str, float]:
    """Return how often outputs attach as the treebank does, or to the other word.

    Both are in percent of the cases; the rest are attached to neither word.

    Args:
        golds: The treebank's trees.
        outputs: What a model made of their sentences, linearized. One that is no tree
            attaches nothing.
        with_words: Whether they hold words in the place of tags.
    """
    right = wrong = in_trees = total = 0
    for gold, output in zip(golds, outputs, strict=True):
        found = cases(gold)
        total += len(found)
        try:
            tree = tree_of(output.split(), gold.words(), with_words)
        except NotATreeError:
            continue
        joined, in_trees = joins(tree), in_trees + len(found)
        for verb, preposition, answer in found:
            attached = attachment(joined[preposition], verb)
            right += attached == answer
            wrong += attached not in (answer, None)
    return {
        "right": percent(right, total),
        "wrong": percent(wrong, total),
        "right_in_trees": percent(right, in_trees),
        "in_trees": in_trees,
    }


class Words(NamedTuple):
    """The words of a case, in lower case and with 0 for digits."""

    verb: str
    noun: str
    """The last of the object."""
    preposition: str
    second: str
    """The last of the base NP in the phrase; without one, the word after the first."""


def words_of_cases(gold: Tree) -> list[Words]:
    """Return the words of each case, in the order of `cases`."""
    words = [re.sub("[0-9]+", "0", word.lower()) for word in gold.words()]
    ends, stack = {}, [(gold, 0)]  # of the base NP that begins at a place
    while stack:
        node, start = stack.pop()
        for child in node.children if not node.is_tag else ():
            stack.append((child, start))
            start += len(child.words())
            if _is_noun_phrase(child) and not _is_noun_phrase(child.children[0]):
                ends[start - len(child.words())] = start
    return [
        Words(
            words[verb],
            words[at - 1],
            words[at],
            words[min(ends.get(at + 1, at + 2), len(words)) - 1],
        )
        for verb, at, _ in cases(gold)
    ]


STEPS = (
    ((0, 1, 2, 3),),
    ((0, 1, 2), (0, 2, 3), (1, 2, 3)),
    ((0, 2), (1, 2), (2, 3)),
    ((2,),),
)
"""Which of the four words are looked at, until training cases have them."""


def backed_off(
    train: Sequence[Tree], test: Sequence[Tree], steps: Sequence = STEPS
) -> list[list[Answer]]:
    """Answer the cases of each test tree by counting words of the training cases.

    As Collins and Brooks (1995) do: all four words decide, else the triples with the
    preposition together, else the pairs, else the preposition. A draw is the object's,
    and so is a preposition that the training cases do not have.
    """
    counts = Counter()
    for gold in train:
        for words, case in zip(words_of_cases(gold), cases(gold), strict=True):
            for places in chain(*steps):
                seen = tuple(words[place] for place in places)
                counts[places, seen, case.answer] += 1

    def answer(words: Words) -> Answer:
        for step in steps:
            seen = [(places, tuple(words[i] for i in places)) for places in step]
            of_object, of_verb = (
                sum(counts[*one, name] for one in seen) for name in ("object", "verb")
            )
            if of_object + of_verb:
                return "object" if of_object >= of_verb else "verb"
        return "object"

    return [[*map(answer, words_of_cases(gold))] for gold in test]


def baselines(
    train: Sequence[Tree], test: Sequence[Tree], outputs: Sequence[str]
) -> dict[str, Any]:
    """Count the cases, and score answers that look at no words, at one, or at four.

    Args:
        train: The trees that say which answer is frequent, in all and for each
            preposition; for one that they do not have, that in all.
        test: The trees whose cases are answered.
        outputs: What a parser made of their sentences. Answers are also compared with
            its own in the cases that it attaches to the verb or to the object.
    """
    seen = [case.answer for gold in train for case in cases(gold)]
    asked = [case.answer for gold in test for case in cases(gold)]
    ((usual, _),) = Counter(seen).most_common(1)
    answers = {
        "frequent": [usual] * len(asked),
        "preposition": [*chain(*backed_off(train, test, STEPS[-1:]))],
        "four_words": [*chain(*backed_off(train, test))],
        "parser": [],
    }
    for gold, output in zip(test, outputs, strict=True):
        joined = joins(tree_of(output.split(), gold.words()))
        answers["parser"] += [attachment(joined[c[1]], c[0]) for c in cases(gold)]

    def right(name: str, chosen: Sequence[bool]) -> float:
        found = zip(answers[name], asked, chosen, strict=True)
        return percent(sum(a == b for a, b, is_it in found if is_it), sum(chosen))

    every = [True] * len(asked)
    attached = [one is not None for one in answers["parser"]]
    sentences = [place for place, gold in enumerate(test) for _ in cases(gold)]
    gains = [
        (100 * ((a == right_one) - (b == right_one)), 1, place)
        for a, b, right_one, place in zip(
            answers["four_words"], answers["parser"], asked, sentences, strict=True
        )
        if b is not None
    ]
    sums = drawn_anew([gain[:2] for gain in gains], [gain[2] for gain in gains])
    return {
        "cases": {"train": len(seen), "test": len(asked)},
        "frequent": usual,
        **{f"right_by_{name}": right(name, every) for name in [*answers][:3]},
        "attached_by_parser": {
            "cases": sum(attached),
            **{f"right_by_{name}": right(name, attached) for name in answers},
            # With an interval that holds 95 % of it, when articles are drawn anew.
            "four_words_ahead_of_parser": interval(sums[:, 0] / sums[:, 1]),
        },
    }


def percent(part: int, whole: int) -> float:
    """Return a share in percent, rounded; of nothing 0."""
    return round(100 * part / whole, 2) if whole else 0.0


def trees_of(corpus: PreparedCorpus, split: str) -> list[Tree]:
    """Return the treebank's trees of a split."""
    return [
        tree_of(tree.split(" "), sentence.split(" "))
        for sentence, tree in zip(*corpus.text(split), strict=True)
    ]


def score_all(corpus: PreparedCorpus, names: Collection[str]) -> dict[str, Any]:
    """Score the baselines, and those parsers of CRAFT whose outputs are stored."""
    golds, scores = trees_of(corpus, "test"), {}
    for run in RUNS:
        if run.name not in names or not run.outputs("test").exists():
            continue
        languages = read_json(ROOT / run.result)["corpus"]["languages"]
        with_words = languages[1] == TREES_WITH_WORDS
        found = {"free": score(golds, read_lines(run.outputs("test")), with_words)}
        for search, name in (("greedy", "test"), ("beam", "beam_4")):
            path = constrained_outputs(run, name)
            if path.exists():
                found[f"constrained_{search}"] = score(golds, read_lines(path))
        scores[run.name] = found
    (run,) = (run for run in RUNS if run.name == ATTACHMENT_PARSER)
    trees = read_lines(constrained_outputs(run, "beam_4"))
    made = baselines(trees_of(corpus, "train"), golds, trees)
    return {**made, "scores": scores}
