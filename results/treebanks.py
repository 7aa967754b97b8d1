"""Count in the treebanks what chapter 6.3 tells of them.

    python -m results.treebanks [OUT.json [FOLDER]]

The corpora are those that `python -m results.make` has prepared in FOLDER. Counts are
kept and no text; the file comes with the package: transformer_lite_book/treebanks.json.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from tyro.conf import Positional

from results.conditions import ROOT, checksums, conditions, require_clean
from results.files import write_json
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.parsing.brackets import brackets, score_brackets
from transformer_lite.parsing.trees import Tree, linearized, tree_of

RECORDING = ROOT / "transformer_lite_book" / "treebanks.json"
CORPORA = ("penn_treebank_sample", "craft")
BIN = 10
"""Width of a bar, in tokens."""


def percent(part: int, whole: int) -> float:
    """Return a share in percent, rounded."""
    return round(100 * part / whole, 2)


def length_counts(source: np.ndarray, target: np.ndarray) -> dict[str, Any]:
    """Count by how many tokens a tree is longer than its sentence.

    Args:
        source: Tokens of each sentence, as a search counts them.
        target: Tokens of each linearized tree.
    """
    more = target - source
    bars = Counter((more // BIN * BIN).tolist())
    return {
        "source_tokens": round(float(source.mean()), 2),
        "target_tokens": round(float(target.mean()), 2),
        "longest": int(more.max()),
        "bars": [[start, bars[start]] for start in sorted(bars)],
        "over_50": int((more > 50).sum()),
        "over_300": int((more > 300).sum()),
    }


def right_branching(tags: Sequence[Tree], label: str) -> Tree:
    """Make a tree that knows nothing: each bracket holds a word and the next one."""
    *before, last = tags
    tree = Tree(label if before else "S", (last,))
    for number, tag in reversed(list(enumerate(before))):
        tree = Tree(label if number else "S", (tag, tree))
    return tree


def baseline_counts(golds: Sequence[Tree], label: str) -> dict[str, Any]:
    """Score right-branching trees, as EVALB does and in two ways that it does not."""
    guesses = [right_branching(gold.tags(), label) for gold in golds]
    pairs = [
        (brackets(gold, gold), brackets(guess, gold), len(gold.words()))
        for gold, guess in zip(golds, guesses, strict=True)
    ]
    matching = [(gold & own).total() for gold, own, _ in pairs]
    both = [gold.total() + own.total() for gold, own, _ in pairs]
    words = [number for *_, number in pairs]
    scores = score_brackets(
        [" ".join(gold.words()) for gold in golds],
        [" ".join(linearized(gold)) for gold in golds],
        [" ".join(linearized(guess)) for guess in guesses],
    )
    single = [200 * m / b for m, b in zip(matching, both, strict=True) if b]
    return {
        "label": label,
        "f1": round(scores.f1, 2),
        "f1_mean_of_sentences": round(sum(single) / len(single), 2),
        # The tags are the treebank's, so every one of these brackets is right.
        "f1_with_tags": percent(
            2 * (sum(matching) + sum(words)), sum(both) + 2 * sum(words)
        ),
    }


def treebank_counts(corpus: PreparedCorpus) -> dict[str, Any]:
    """Count all that the chapter reads of one treebank."""
    counts: dict[str, Any] = {}
    train = [text.split(" ") for text in corpus.text("train")[1]]
    labels = Counter(token for tokens in train for token in tokens if token[0] == "(")
    (most, _), *_ = labels.most_common()
    for split in ("train", "test"):
        sentences, trees = corpus.text(split)
        source, target = corpus.ids(split)
        counts[split] = {
            "sentences": len(sentences),
            "words": round(sum(len(s.split(" ")) for s in sentences) / len(trees), 2),
            **length_counts(source.lengths, target.lengths),
        }
    sentences, trees = corpus.text("test")
    golds = [
        tree_of(tree.split(" "), sentence.split(" "))
        for sentence, tree in zip(sentences, trees, strict=True)
    ]
    counts["right_branching"] = baseline_counts(golds, most[1:])
    return counts


def main(
    out: Positional[Path] = RECORDING,
    folder: Positional[Path] = Path("data/results"),
    /,
) -> None:
    """Count, and write what was counted with what it depends on."""
    result = {"commit": require_clean(), **conditions()}
    for name in CORPORA:
        corpus = PreparedCorpus(folder / name)
        result[name] = {"sha256": checksums(corpus), **treebank_counts(corpus)}
    write_json(out, result)


if __name__ == "__main__":
    tyro.cli(main)
