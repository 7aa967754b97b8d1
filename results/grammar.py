"""Parse with a probabilistic grammar: the yardstick of chapter 6.3's parser.

    python -m results.grammar [OUT.json [FOLDER]]

The grammar is read off the training trees of our parser (after Klein and Manning 2003,
"Accurate Unlexicalized Parsing"). Labels and tags carry their parent's label, and the
children of a phrase follow one another by a Markov process. A word that is rare or new
gets the tags of its class, by its shape and its ending. CKY finds the likeliest tree. A
second grammar has whole rules and labels as they are. Both parse 1,000 test sentences,
drawn at random; our parser is scored by its stored trees of the same ones. FOLDER,
data/results unless told otherwise, has the prepared corpus. The scores come with the
package: transformer_lite_book/grammar.json.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import tyro
from tyro.conf import Positional

from results.parsing_scores import ATTACHMENT_CORPUS, trees_of
from results.provenance import ROOT, checksums, conditions, require_clean
from results.storage import read_lines, write_json, write_lines
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.parsing.brackets import score_brackets
from transformer_lite.parsing.trees import Tree, linearized

RECORDING = ROOT / "transformer_lite_book" / "grammar.json"
TREES = ROOT / "results" / "grammar"
PARSER = ROOT / "results" / "constrained" / "craft_gum_words_fourth_round-2"
GRAMMARS = {"annotated": (1, 1), "as_it_is": (0, 1_000)}
"""Whether labels carry their parent's, and on how many siblings a child depends."""


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
        stack += [(child, node.label) for child in node.children]
        labels = [child.label for child in node.children]
        symbols = [f"{label}^{node.label}" if parents else label for label in labels]
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
        above, below, scores = grammar.one
        for width in range(1, size + 1):
            for start in range(size - width + 1):
                cell = self.scores[start, start + width]
                rules, sums = self._pairs(start, start + width)
                np.maximum.at(cell, grammar.two[0][rules], sums.max(0, initial=-np.inf))
                np.maximum(cell, self.tags[start], out=cell, where=width == 1)
                while (cell[below] + scores > cell[above]).any():
                    np.maximum.at(cell, above, cell[below] + scores)

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
        fits = (left > -np.inf).any(0)[one] & (right > -np.inf).any(0)[two]
        if symbol is not None:
            fits &= parent == symbol
        (rules,) = fits.nonzero()
        return rules, left[:, one[rules]] + right[:, two[rules]] + scores[rules]

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
        return children if rest else [Tree(name.split("^")[0], tuple(children))]


def chosen(lines: Sequence[str]) -> list[str]:
    """Return those of the test set's lines that are scored, in its order."""
    return [lines[i] for i in sorted(Random(0).sample(range(len(lines)), 1_000))]


def scores_of(corpus: PreparedCorpus) -> dict[str, dict]:
    """Score the stored trees of the grammars and of the parser."""
    stored = {name: read_lines(TREES / f"{name}.txt.gz") for name in GRAMMARS}
    for name in ("test", "beam_4"):
        stored[f"parser_{name}"] = chosen(read_lines(Path(f"{PARSER}.{name}.txt.gz")))
    gold = [chosen(lines) for lines in corpus.text("test")]
    return {name: vars(score_brackets(*gold, trees)) for name, trees in stored.items()}


def main(
    out: Positional[Path] = RECORDING,
    folder: Positional[Path] = Path("data/results"),
    /,
) -> None:
    """Parse with both grammars, and write all scores with what they depend on."""
    result = {"commit": require_clean(), **conditions()}
    corpus = PreparedCorpus(folder / ATTACHMENT_CORPUS)
    for name, settings in GRAMMARS.items():
        grammar = Grammar(trees_of(corpus, "train"), *settings)
        sentences = [line.split(" ") for line in chosen(corpus.text("test")[0])]
        tokens = (linearized(Chart(grammar, words).tree()) for words in sentences)
        write_lines(TREES / f"{name}.txt.gz", map(" ".join, tokens))
        result[name] = {"symbols": len(grammar.names), "rules": len(grammar.two[0])}
    result |= {"sha256": checksums(corpus), "scores": scores_of(corpus)}
    write_json(out, result)


if __name__ == "__main__":
    tyro.cli(main)
