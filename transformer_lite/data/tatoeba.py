"""Tatoeba: short sentences in many languages, of which no two splits share one.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/package/data/test_tatoeba.py
"""

import hashlib
import unicodedata
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

HELD_OUT = 2000
"""Most pairs in each held-out split; of a small corpus, a twentieth of its pairs."""
LARGEST_GROUP = 4
"""Most pairs of a group from which one is held out; its others are left out."""
MAX_CHARACTERS = 250
"""Longest sentence: even cut into characters, it has fewer than 256 tokens."""

Pair = tuple[str, str]


def read_archive(path: Path, one: str, other: str) -> list[Pair]:
    """Read all pairs of an archive of OPUS but those that are too long.

    Raises:
        ValueError: The archive is damaged, or not of these languages in this order.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            texts = [
                archive.read(f"Tatoeba.{one}-{other}.{code}").decode("utf-8")
                for code in (one, other)
            ]
        lines = [text.removesuffix("\n").split("\n") for text in texts]
        pairs = list(zip(*lines, strict=True))
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError) as error:
        raise ValueError(
            f"{path}: not the archive as published ({error}); delete the file, and it "
            "is downloaded again"
        ) from error
    return [pair for pair in pairs if max(map(len, pair)) <= MAX_CHARACTERS]


def split_pairs(
    pairs: Sequence[Pair], held_out: int | None = None
) -> dict[str, list[Pair]]:
    """Return training, validation and test pairs that share no sentence.

    Pairs that have a sentence in common form a group, as do those that such pairs
    connect. Case and spaces do not distinguish sentences. A group is held out or
    trained on as a whole. Hashes of the sentences decide, so that the order of the
    pairs does not matter, and a pair more or less changes at most three pairs of each
    held-out split.

    Args:
        pairs: All pairs; those that repeat another count once.
        held_out: How many pairs validate, and how many test; by default by `HELD_OUT`.

    Raises:
        ValueError: There are too few small groups.
    """
    if held_out is None:
        held_out = min(HELD_OUT, len(pairs) // 20)
    sentences = {pair: tuple(map(_folded, pair)) for pair in pairs}
    ranked = sorted(sentences, key=lambda pair: (_hash(sentences[pair]), pair))
    pairs_with: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in ranked:
        for sentence in sentences[pair]:
            pairs_with[sentence].append(pair)

    small_groups, seen = [], set()
    for first in ranked:
        group = [] if first in seen else [first]
        for pair in group:  # the group grows while it is gone through
            seen.add(pair)
            neighbours = chain(*(pairs_with[text] for text in sentences[pair]))
            new = dict.fromkeys(n for n in neighbours if n not in seen)
            seen.update(new)
            group += new
        if 0 < len(group) <= LARGEST_GROUP:
            small_groups.append(group)
    if len(small_groups) < 2 * held_out:
        raise ValueError(
            f"only {len(small_groups):,} groups of pairs have no sentence in common "
            f"with others, and {2 * held_out:,} are to be held out; give more text"
        )
    valid, test = small_groups[:held_out], small_groups[held_out : 2 * held_out]
    left_out = set(chain(*valid, *test))
    return {
        "train": [pair for pair in ranked if pair not in left_out],
        "valid": [group[0] for group in valid],
        "test": [group[0] for group in test],
    }


def _folded(sentence: str) -> str:
    """Return a sentence without case, in NFC, with one space between words."""
    return " ".join(unicodedata.normalize("NFC", sentence.casefold()).split())


def _hash(sentences: Sequence[str]) -> str:
    return hashlib.sha256("\t".join(sentences).encode()).hexdigest()
