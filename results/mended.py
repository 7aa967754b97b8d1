"""Mend the outputs of free parsers: the rival of the constraints of chapter 6.3.

    python -m results.mended

Stored outputs of searches without constraints are repaired by ever more of these means,
and scored by all sentences of the test set: copying the i-th word of the sentence over
the i-th that was written; giving each closing bracket the label of the one that it
closes; and `mended`, which makes a tree of everything. As many articles are drawn anew
for the interval of the difference to the constrained search. The released parser then
searches 1,000 sentences without constraints and with a beam of 4, and this is mended.
The prepared corpus is in data/results.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np

from results.grammar import chosen, places
from results.parsing_scores import ATTACHMENT_CORPUS, drawn_anew, interval, trees_of
from results.provenance import ROOT, checksums, conditions, require_clean
from results.storage import read_lines, write_json
from transformer_lite import Translator
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.parsing.brackets import brackets
from transformer_lite.parsing.trees import NotATreeError, Tree, tree_of

RECORDING = ROOT / "transformer_lite_book" / "mended.json"
LAST = "craft_gum_words_fourth_round-2"
RUNS = ("craft_gum_words-1", "craft_gum_plain-1", LAST)


def copied(output: str, sentence: str) -> str:
    """Replace the i-th word of the output by the i-th of the sentence."""
    words = iter(sentence.split(" "))
    return " ".join(
        token if token[:1] in ("(", ")") else next(words, token)
        for token in output.split(" ")
    )


def matched(output: str, _sentence: str = "") -> str:
    """Give each closing bracket the label of the bracket that it closes."""
    tokens, stack = [], []
    for token in output.split(" "):
        if token[:1] == "(":
            stack.append(token[1:])
        elif token[:1] == ")" and stack:
            token = f"){stack.pop()}"
        tokens.append(token)
    return " ".join(tokens)


def mended(output: str, sentence: str) -> str:
    """Make a tree over the sentence of any output.

    The words that were written are aligned with the sentence's. Those that stand for
    none are dropped, and those that are missing stand before the next one. A closing
    bracket closes the innermost open phrase of its label, and all phrases within; one
    that closes nothing is dropped. The outermost phrase ends last.
    """
    words, tokens = sentence.split(" "), output.split()
    tree, stack, used = [], [], 0

    def close() -> None:
        label = stack.pop()
        if tree[-1] == f"({label}":
            tree.pop()  # it is empty
        else:
            tree.append(f"){label}")

    def put(end: int) -> None:
        if not stack:
            stack.append("S")
            tree.append("(S")
        tree.extend(words[used:end])

    written = [token for token in tokens if token[0] not in "()"]
    aligned = iter(_aligned(written, words))
    for token in tokens:
        label = token[1:]
        if token[0] == "(":
            if used < len(words):
                stack.append(label)
                tree.append(token)
        elif token[0] == ")":
            if not label and len(stack) > 1:
                close()
            elif label in stack[1:]:
                while stack[-1] != label:
                    close()
                close()
        elif (place := next(aligned)) is not None:
            put(place + 1)
            used = place + 1
    put(len(words))
    while stack:
        close()
    return " ".join(tree)


def _aligned(written: Sequence[str], words: Sequence[str]) -> list[int | None]:
    """Return for each written word the place of the one that it stands for, or None."""
    found: list[int | None] = [None] * len(written)
    matcher = SequenceMatcher(None, written, words, autojunk=False)
    for kind, begin, end, first, last in matcher.get_opcodes():
        if kind in ("equal", "replace"):
            for offset in range(min(end - begin, last - first)):
                found[begin + offset] = first + offset
    return found


def scores_of(
    golds: Sequence[Tree], outputs: Iterable[str], at: Sequence[int], with_words: bool
) -> dict[str, np.ndarray]:
    """Return F1 and the share of trees that are entirely right, as `drawn_anew` does.

    Args:
        at: Where the sentences stand in the test set.
    """
    rows = []
    for gold, output in zip(golds, outputs, strict=True):
        right = brackets(gold, gold)
        try:
            own = brackets(tree_of(output.split(), gold.words(), with_words), gold)
        except NotATreeError:
            own = None
        both, size = (
            (right & own, own.total()) if own is not None else (right - right, 0)
        )
        row = [200 * both.total(), right.total() + size, 100 * (right == own), 1]
        rows.append(row)
    sums = drawn_anew(rows, at)
    return {"f1": sums[:, 0] / sums[:, 1], "complete_match": sums[:, 2] / sums[:, 3]}


def _first(scores: dict[str, np.ndarray]) -> dict[str, float]:
    return {kind: round(float(values[0]), 2) for kind, values in scores.items()}


def _behind(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> dict:
    return {kind: interval(other[kind] - one[kind]) for kind in one}


MEANS: dict[str, Callable[[str, str], str]] = {
    "as_written": lambda output, _: output,
    "matched": matched,
    "copied": copied,
    "both": lambda output, sentence: copied(matched(output), sentence),
    "mended": mended,
}


def stored_scores(corpus: PreparedCorpus) -> dict[str, dict]:
    """Score stored outputs: constrained, and free ones mended in several ways."""
    sentences, golds = corpus.text("test")[0], trees_of(corpus, "test")
    at, result = range(len(golds)), {}
    for run in RUNS:
        trees = read_lines(ROOT / f"results/constrained/{run}.test.txt.gz")
        rules = scores_of(golds, trees, at, with_words=False)
        result[run] = {"constrained": _first(rules)}
        free = read_lines(ROOT / f"results/parsing/{run}.test.txt.gz")
        for name, mend in MEANS.items():
            if run != LAST and name not in ("as_written", "mended"):
                continue
            outputs = map(mend, free, sentences)
            found = scores_of(golds, outputs, at, with_words=True)
            result[run][name] = _first(found)
        # The last is `mended`.
        result[run]["constrained_ahead"] = _behind(found, rules)
    return result


def beam_scores(corpus: PreparedCorpus) -> dict[str, dict]:
    """Search 1,000 sentences freely with a beam of 4; score it mended."""
    sentences, trees = corpus.text("test")
    at = places(len(sentences))
    gold = chosen(sentences), chosen(trees)
    golds = [tree_of(t.split(" "), s.split(" ")) for s, t in zip(*gold, strict=True)]
    translator = Translator.load("craft_parser", device="cpu")
    search = replace(translator.search, beam_size=4, alpha=0.6)
    order = sorted(range(len(at)), key=lambda number: len(gold[0][number]))
    found = translator.translate([gold[0][number] for number in order], search)
    outputs = [found[order.index(number)] for number in range(len(at))]
    repaired = map(mended, outputs, gold[0])
    free = scores_of(golds, outputs, at, with_words=True)
    repaired = scores_of(golds, repaired, at, with_words=True)
    name = ROOT / f"results/constrained/{LAST}.beam_4.txt.gz"
    rules = scores_of(golds, chosen(read_lines(name)), at, with_words=False)
    return {
        "constrained": _first(rules),
        "as_written": _first(free),
        "mended": _first(repaired),
        "constrained_ahead": _behind(repaired, rules),
    }


def main() -> None:
    """Mend, score and write down."""
    result = {"commit": require_clean(), **conditions()}
    corpus = PreparedCorpus(Path("data/results", ATTACHMENT_CORPUS))
    result |= {"sha256": checksums(corpus), "greedy": stored_scores(corpus)}
    write_json(RECORDING, result)
    result["beam_of_4"] = beam_scores(corpus)
    write_json(RECORDING, result)


if __name__ == "__main__":
    main()
