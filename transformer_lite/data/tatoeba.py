"""Tatoeba: short sentences in many languages, of which no two splits share one.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_tatoeba.py
"""

import hashlib
import re
import unicodedata
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from transformer_lite.data.downloads import published_file
from transformer_lite.tokenizer import RESERVED

RELEASE = "https://object.pouta.csc.fi/OPUS-Tatoeba/v2023-04-12/moses/"
"""A release of OPUS stays as it is; Tatoeba's own exports change every week."""

HELD_OUT = 2000
"""Most pairs that validate, and most that test; of few pairs, a twentieth each."""
LARGEST_GROUP = 4
"""Most pairs of a group from which one is held out; its others are left out."""
MAX_CHARACTERS = 250
"""Longest sentence: even cut into characters, it has fewer than 256 tokens."""

_RESERVED = re.compile(f"[{RESERVED}]")


def tatoeba_splits(source: str, target: str) -> dict[str, list[tuple[str, str]]]:
    """Return training, validation and test pairs; their archive is downloaded once.

    Both directions have the same pairs in each split.

    Args:
        source: Code of the source language, such as "en", "de", "ko" or "zh".
        target: Code of the target language.

    Raises:
        ValueError: There is no such pair of languages, or the archive cannot be had or
            is damaged.
    """
    for code in (source, target):
        if source == target or not re.fullmatch("[a-z]{2,4}", code):
            raise ValueError(
                f"tatoeba has no {source}–{target}; take two languages by their codes, "
                "such as en and de"
            )
    # OPUS has the codes in the order of the alphabet, and Mandarin under its own.
    codes = {code: "cmn" if code == "zh" else code for code in (source, target)}
    one, other = sorted(codes.values())
    archive = f"{one}-{other}.txt.zip"
    path = published_file(folder_of(source, target), archive, [RELEASE])
    pairs = [pair for pair in _pairs(path, one, other) if _is_usable(pair)]
    splits = split_pairs(pairs, min(HELD_OUT, len(pairs) // 20))
    if codes[source] != one:
        splits = {
            split: [(second, first) for first, second in pairs]
            for split, pairs in splits.items()
        }
    return splits


def folder_of(source: str, target: str) -> str:
    """Return two languages' folder, English last: tatoeba-de-en in both directions."""
    one, other = sorted((source, target), key=lambda code: (code == "en", code))
    return f"tatoeba-{one}-{other}"


def split_pairs(
    pairs: Iterable[tuple[str, str]], held_out: int
) -> dict[str, list[tuple[str, str]]]:
    """Return training, validation and test pairs that share no sentence.

    Pairs that have a sentence in common, up to case and spaces, form a group, as do
    those that such pairs connect. A group is held out or trained on as a whole. Hashes
    of the sentences decide, so that the order of the pairs does not matter, and a pair
    more or less changes at most three pairs of each held-out split.

    Args:
        pairs: All pairs; those that repeat another count once.
        held_out: How many pairs validate, and how many test.

    Raises:
        ValueError: There are too few small groups.
    """
    folded = {pair: tuple(map(_folded, pair)) for pair in pairs}
    pairs_of = defaultdict(list)  # the pairs of each sentence
    ranked = sorted(folded, key=lambda pair: (_hash("\t".join(folded[pair])), pair))
    for pair in ranked:
        for sentence in folded[pair]:
            pairs_of[sentence].append(pair)

    small, seen = [], set()
    for first in ranked:
        group = []
        reached = [] if first in seen else [first]
        seen.add(first)
        while reached:  # every pair that sentences in common connect with the first
            pair = reached.pop()
            group.append(pair)
            for neighbour in chain(*(pairs_of[text] for text in folded[pair])):
                if neighbour not in seen:
                    seen.add(neighbour)
                    reached.append(neighbour)
        if 0 < len(group) <= LARGEST_GROUP:
            small.append(group)
    if len(small) < 2 * held_out:
        raise ValueError(
            f"only {len(small):,} groups of pairs have no sentence in common with "
            f"others, and {2 * held_out:,} are to be held out; give more text"
        )
    valid, test = small[:held_out], small[held_out : 2 * held_out]
    left_out = set(chain(*valid, *test))
    return {
        "train": [pair for pair in ranked if pair not in left_out],
        "valid": [group[0] for group in valid],
        "test": [group[0] for group in test],
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _folded(sentence: str) -> str:
    """Return a sentence without case, in NFC, with one space between words."""
    return " ".join(unicodedata.normalize("NFC", sentence.casefold()).split())


def _is_usable(pair: tuple[str, str]) -> bool:
    """Return whether the tokenizer can read both sides, and neither is too long."""
    return all(
        line.strip() and len(line) <= MAX_CHARACTERS and not _RESERVED.search(line)
        for line in pair
    )


def _pairs(path: Path, one: str, other: str) -> list[tuple[str, str]]:
    """Read the pairs of an archive, in the order of its name's languages."""
    try:
        with zipfile.ZipFile(path) as archive:
            texts = [
                archive.read(f"Tatoeba.{one}-{other}.{code}").decode("utf-8")
                for code in (one, other)
            ]
        lines = [text.removesuffix("\n").split("\n") for text in texts]
        return list(zip(*lines, strict=True))
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError) as error:
        raise ValueError(
            f"{path}: not the archive as published ({error}); delete the file, and it "
            "is downloaded again"
        ) from error
