"""Sentence pairs as they are read, and what stands where one cannot be used.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_corpora.py
"""

import re
from typing import NamedTuple

from transformer_lite.tokenizer import RESERVED

SentencePair = tuple[str, str]


class PlacedPair(SentencePair):
    """A pair of which it is known where it stands."""

    place: str
    """Such as a file and a line."""

    @classmethod
    def at(cls, place: str, pair: SentencePair) -> "PlacedPair":
        """The pair that stands at this place."""
        placed = cls(pair)
        placed.place = place
        return placed


class Fault(NamedTuple):
    """Stands in a split where a pair cannot be used."""

    kind: str
    """What is wrong, in words that can be counted: "empty"."""
    place: str
    """Where, such as a file and a line."""
    remedy: str
    """What to do about it."""

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}; {self.remedy}"


_RESERVED = re.compile(f"[{RESERVED}]")


def fault_of(text: str, place: str, remedy: str) -> Fault | None:
    """What is wrong with a sentence at this place, if anything is."""
    if not text.strip():
        return Fault("empty", place, remedy)
    if "\n" in text:
        return Fault("has more than one line", place, remedy)
    if found := _RESERVED.search(text):
        return Fault(
            f"has the character U+{ord(found[0]):04X}, which the tokenizer needs",
            place,
            f"remove it, or {remedy}",
        )
    return None
