"""Parse with probabilistic grammars: the yardsticks of chapter 6.3's parser.

    python -m results.grammar [OUT.json [FOLDER]]

The grammar is read off the training trees of our parser (after Klein and Manning 2003,
"Accurate Unlexicalized Parsing"). Labels and tags carry their parent's label, and the
children of a phrase follow one another by a Markov process. A word that is rare or new
gets the tags of its class, by its shape and its ending. CKY finds the likeliest tree. A
second grammar has whole rules and labels as they are, a third those labels that Klein
and Manning split. All parse 1,000 test sentences, drawn at random; our parser is scored
by its stored trees of the same ones, also after each round of its training but the
last. A grammar whose trees are stored is not run again.
FOLDER, data/results unless told otherwise, has the prepared corpus. The scores come
with the package: transformer_lite_book/grammar.json.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import tyro
from tyro.conf import Positional

from results.parsing_scores import ATTACHMENT_CORPUS, drawn_anew, interval, trees_of
from results.provenance import ROOT, checksums, conditions, require_clean
from results.storage import read_json, read_lines, write_json, write_lines
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.parsing.brackets import brackets, score_brackets
from transformer_lite.parsing.trees import Tree, linearized, tree_of

RECORDING = ROOT / "transformer_lite_book" / "grammar.json"
TREES = ROOT / "results" / "grammar"
PARSER = ROOT / "results" / "constrained" / "craft_gum_words_fourth_round-2"
FIRST_ROUND = PARSER.with_name("craft_gum_words-1.beam_4.txt.gz")
GRAMMARS = {"annotated": (1, 1), "as_it_is": (0, 1_000), "split": (1, 1)}
"""Whether labels carry their parent's, and on how many siblings a child depends.

With split labels, one sibling was better than two on 54 sentences of the validation
set, of at most 45 words (F1 75.7 and 74.4).
"""

FINITE = {"VBD", "VBP", "VBZ", "MD"}
BE = set("be is are was were been being am 's 're 'm".split())
HAVE = set("have has had having 've".split())
CONJUNCTIONS = set("that if whether because while although since".split())


def split(tree: Tree) -> Tree:
    """Split the labels of phrases and tags as Klein and Manning did.

    A mark after a ~ says of a phrase that it has one child (U), that it is an NP of
    words alone (B), with a possessive (P) or with an NP at its right end (R), which
    verb its VP has, and whether a verb is in it (v). Tags say that they are an only
    child, and of "be", "have", "of", "but" and conjunctions which word they are. Their
    marks of empty and functional nodes are missing: these trees have neither.
    """
    children = tuple(
        _split_tag(child, len(tree.children)) if child.is_tag else split(child)
        for child in tree.children
    )
    labels = [child.label.partition("~")[0] for child in tree.children]
    marks = "U" * (len(children) == 1)
    if tree.label == "NP":
        marks += "B" * all(child.is_tag for child in children)
        marks += "P" * (labels[-1] == "POS") + "R" * _ends_with_noun_phrase(tree)
    if tree.label == "VP":
        verbs = [x for x in labels if x in FINITE or x in ("TO", "VB", "VBG", "VBN")]
        first = verbs[0] if verbs else "VP"
        marks += "F" if first in FINITE else first
    elif tree.label not in ("S", "SINV", "SQ"):
        marks += "v" * _has_verb(tree)
    return Tree(f"{tree.label}~{marks}", children)


def _split_tag(tag: Tree, siblings: int) -> Tree:
    (word,) = tag.words()
    word, mark = word.lower(), ""
    if tag.label.startswith("VB"):
        mark = "be" if word in BE else "have" if word in HAVE else ""
    elif tag.label == "IN":
        mark = "of" if word == "of" else "that" if word in CONJUNCTIONS else ""
    elif tag.label == "CC":
        mark = word if word in ("but", "&") else ""
    elif tag.label in ("DT", "RB"):
        mark = "U" * (siblings == 1)
    return Tree(f"{tag.label}~{mark}", tag.children)


def _has_verb(tree: Tree) -> bool:
    if tree.is_tag:
        return tree.label.startswith("VB") or tree.label == "MD"
    return any(map(_has_verb, tree.children))


def _ends_with_noun_phrase(tree: Tree) -> bool:
    while not tree.is_tag:
        tree = tree.children[-1]
        if tree.label == "NP" and not tree.is_tag:
            return True
    return False


def rules_of(tree: Tree, parents: int, siblings: int) -> Iterator[tuple[str, tuple]]:
    """Yield the rules of a tree: a symbol, and its one or two parts, or "" and a word.

    With parents, (NP DT JJ NN) under S has the rules NP^S → DT^NP NP^S|DT and NP^S|DT →
    JJ^NP NN^NP. After the bar stand the siblings before.
    """
    stack = [(Tree("", (tree,)), "")]
    while stack:
        node, parent = stack.pop()
        left = phrase = f"{node.label}^{parent}" if parents else node.label
        if node.is_tag:
            yield left, ("", *node.children)
            continue
        outer = node.label.partition("~")[0]  # marks are of the symbols alone
        stack += [(child, outer) for child in node.children]
        symbols = [child.label for child in node.children]
        labels = [symbol.partition("~")[0] for symbol in symbols]
        symbols = [f"{symbol}^{outer}" if parents else symbol for symbol in symbols]
        for number, first in enumerate(symbols[:-2], start=1):
            rest = "|".join([phrase, *labels[max(0, number - siblings) : number]])
            yield left, (first, rest)
            left = rest
        yield left, tuple(symbols[-2:])


def classes_of(word: str) -> list[tuple]:
    """List ever coarser classes of a word, by its shape and its ending."""
    shape = re.sub("[0-9]+", "0", re.sub("[A-Z]+", "A", re.sub("[a-z]+", "a", word)))
    return [(shape, word[-3:]), (shape, word[-2:]), (shape,), ()]


class Grammar:
    """A grammar with the probabilities of these trees."""

    def __init__(self, trees: Sequence[Tree], *annotation: int) -> None:
        rules, lefts, self.tags = Counter(), Counter(), Counter()
        self.words, self.classes = defaultdict(Counter), defaultdict(Counter)
        for left, right in (r for tree in trees for r in rules_of(tree, *annotation)):
            if right[0]:
                rules[left, right] += 1
                lefts[left] += 1
            else:
                self.words[right[1]][left] += 1
        for word, tags in self.words.items():
            self.tags.update(tags)
            for name in classes_of(word) if tags.total() == 1 else ():
                self.classes[name].update(tags)
        self.names = [
            *dict.fromkeys(s for left, right in rules for s in (left, *right))
        ]
        self.ids = {name: number for number, name in enumerate(self.names)}
        tables = [], []
        for (left, right), count in rules.items():
            row = [self.ids[name] for name in (left, *right)]
            row.append(np.float32(np.log(count / lefts[left])))
            tables[len(right) - 1].append(row)
        self.one, self.two = ([*map(np.array, zip(*t, strict=True))] for t in tables)

    def tag_scores(self, word: str) -> np.ndarray:
        """Return log P(tag | word) / P(tag) for all symbols; -∞ where it is no tag."""
        scores = np.full(len(self.names), -np.inf, np.float32)
        counts = self.words.get(word, Counter())
        sizes = {name: self.classes[name].total() for name in classes_of(word)}
        name = next((name for name in sizes if sizes[name] >= 10), ())
        for tag in counts | self.classes[name]:
            share = counts[tag] + self.classes[name][tag] / max(1, sizes[name])
            share *= self.tags.total() / self.tags[tag] / (counts.total() + 1)
            scores[self.ids[tag]] = np.log(share)
        return scores


class Chart:
    """How likely a span of words is derived from a symbol, at best (CKY)."""

    def __init__(self, grammar: Grammar, words: Sequence[str]) -> None:
        self.grammar, self.words, size = grammar, words, len(words)
        self.tags = [grammar.tag_scores(word) for word in words]
        # By the place of the first word, that after the last, and the symbol.
        shape = size + 1, size + 1, len(grammar.names)
        self.scores = np.full(shape, -np.inf, np.float32)
        # The symbols of all spans that begin, and that end, at a place.
        self.begun = np.zeros((size + 1, len(grammar.names)), bool)
        self.ended = np.zeros((size + 1, len(grammar.names)), bool)
        above, below, scores = grammar.one
        for width in range(1, size + 1):
            for start in range(size - width + 1):
                cell = self.scores[start, start + width]
                rules, sums = self._pairs(start, start + width)
                np.maximum.at(cell, grammar.two[0][rules], sums.max(0, initial=-np.inf))
                np.maximum(cell, self.tags[start], out=cell, where=width == 1)
                while (cell[below] + scores > cell[above]).any():
                    np.maximum.at(cell, above, cell[below] + scores)
                self.begun[start] |= cell > -np.inf
                self.ended[start + width] |= cell > -np.inf

    def tree(self) -> Tree:
        """Return the likeliest tree, or a flat one where the grammar has none."""
        if self.scores[0, -1, 0] > -np.inf:  # the root is the first symbol
            return self._trees(0, len(self.words), 0)[0].children[0]
        return Tree("S", tuple(Tree("XX", (word,)) for word in self.words))

    def _pairs(self, start: int, end: int, symbol: int | None = None) -> tuple:
        """Return the rules that cut a span in two, and their scores for each cut."""
        parent, one, two, scores = self.grammar.two
        left = self.scores[start, start + 1 : end]
        right = self.scores[start + 1 : end, end]
        fits = self.begun[start][one] & self.ended[end][two]
        if symbol is not None:
            fits &= parent == symbol
        (rules,) = fits.nonzero()
        sums = left.take(one[rules], 1)
        sums += right.take(two[rules], 1)
        sums += scores[rules]
        return rules, sums

    def _trees(self, start: int, end: int, symbol: int) -> list[Tree]:
        """Return the trees that a symbol becomes: several for the rest of a phrase."""
        above, below, scores = self.grammar.one
        chains = np.where(
            above == symbol, self.scores[start, end, below] + scores, -np.inf
        )
        rules, sums = self._pairs(start, end, symbol)
        best = self.scores[start, end, symbol]
        if end == start + 1 and self.tags[start][symbol] == best:
            children = [self.words[start]]
        elif sums.max(initial=-np.inf) == best:
            cut, number = np.unravel_index(sums.argmax(), sums.shape)
            _, left, right, _ = (column[rules[number]] for column in self.grammar.two)
            children = self._trees(start, start + 1 + cut, left)
            children += self._trees(start + 1 + cut, end, right)
        else:
            children = self._trees(start, end, below[chains.argmax()])
        name, _, rest = self.grammar.names[symbol].partition("|")
        return children if rest else [Tree(re.split("[~^]", name)[0], tuple(children))]


def places(total: int) -> list[int]:
    """Return which of the test set's sentences are scored, in its order."""
    return sorted(Random(0).sample(range(total), 1_000))


def chosen(lines: Sequence[str]) -> list[str]:
    """Return those of the test set's lines that are scored."""
    return [lines[place] for place in places(len(lines))]


def _trees() -> dict[str, list[str]]:
    """Return the stored trees of the grammars and of the parser, linearized."""
    stored = {name: read_lines(TREES / f"{name}.txt.gz") for name in GRAMMARS}
    for name in ("test", "beam_4"):
        stored[f"parser_{name}"] = chosen(read_lines(Path(f"{PARSER}.{name}.txt.gz")))
    stored["parser_round_1"] = chosen(read_lines(FIRST_ROUND))
    for number in (2, 3):  # of the history's files, these sentences alone
        name = f"parser_round_{number}"
        stored[name] = read_lines(TREES / f"{name}.txt.gz")
    return stored


def scores_of(corpus: PreparedCorpus) -> dict[str, dict]:
    """Score the stored trees of the grammars and of the parser."""
    gold = [chosen(lines) for lines in corpus.text("test")]
    return {
        name: vars(score_brackets(*gold, trees)) for name, trees in _trees().items()
    }


def leads_of(corpus: PreparedCorpus) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return by how much the parser leads each grammar, with an interval.

    By grammar, parser and score, F1 or the trees that are entirely right. The articles
    are drawn anew 10,000 times, the same for both; between the second and the third
    number lie 95 % of the differences.
    """
    sentences, trees = corpus.text("test")
    gold = chosen(sentences), chosen(trees)
    golds = [tree_of(t.split(" "), s.split(" ")) for s, t in zip(*gold, strict=True)]
    scores = {}
    for name, outputs in _trees().items():
        rows = []
        for tree, output in zip(golds, outputs, strict=True):
            right = brackets(tree, tree)
            own = brackets(tree_of(output.split(" "), tree.words()), tree)
            both = 200 * (right & own).total()
            rows.append([both, right.total() + own.total(), 100 * (right == own), 1])
        sums = drawn_anew(rows, places(len(sentences)))
        scores[name] = {"f1": sums[:, 0] / sums[:, 1]}
        scores[name]["complete_match"] = sums[:, 2] / sums[:, 3]
    return {
        grammar: {
            parser: {
                kind: interval(scores[parser][kind] - scores[grammar][kind])
                for kind in scores[parser]
            }
            for parser in scores
            if parser not in GRAMMARS
        }
        for grammar in GRAMMARS
    }


def main(
    out: Positional[Path] = RECORDING,
    folder: Positional[Path] = Path("data/results"),
    /,
) -> None:
    """Parse with grammars whose trees are missing, and write all scores."""
    commit = require_clean()
    corpus = PreparedCorpus(folder / ATTACHMENT_CORPUS)
    result = read_json(RECORDING) if RECORDING.exists() else {}
    for name, settings in GRAMMARS.items():
        if (TREES / f"{name}.txt.gz").exists():
            continue
        trees = trees_of(corpus, "train")
        grammar = Grammar([*map(split, trees)] if name == "split" else trees, *settings)
        sentences = [line.split(" ") for line in chosen(corpus.text("test")[0])]
        tokens = (linearized(Chart(grammar, words).tree()) for words in sentences)
        write_lines(TREES / f"{name}.txt.gz", map(" ".join, tokens))
        size = {"symbols": len(grammar.names), "rules": len(grammar.two[0])}
        result[name] = {"commit": commit, **size}
    scores = {"scored_at": commit, "sha256": checksums(corpus)}
    scores["scores"] = scores_of(corpus)
    scores["leads"] = leads_of(corpus)
    write_json(out, {"commit": commit, **result, **conditions(), **scores})


if __name__ == "__main__":
    tyro.cli(main)
