"""WMT 2014, German–English and French–English, through the `datasets` library.

Paper: §5.1
Chapter: 05_1_training_data_and_batching
Tests: tests/data/test_wmt14.py
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from transformer_lite.data.pairs import Fault, PlacedPair, fault_of

REPOSITORY = "wmt/wmt14"
SPLITS = {"train": "train", "valid": "validation", "test": "test"}
"""Our names and the library's: newstest2013 validates, newstest2014 tests."""


@dataclass(frozen=True)
class Wmt14Split:
    """Sentence pairs of one split, read from disk as they are asked for."""

    name: str
    source: str
    target: str
    size: int
    """Rows of the published data."""
    rows: Any = field(repr=False)

    def __iter__(self) -> Iterator[PlacedPair | Fault]:
        """The pairs, in order, or what is wrong with them."""
        batches = self.rows.iter(batch_size=1000)  # fifty times as fast as row by row
        rows = (row for batch in batches for row in batch["translation"])
        for number, row in enumerate(rows, start=1):
            place = f"wmt14, {self.name}, row {number}"
            pair = PlacedPair.at(place, (row[self.source], row[self.target]))
            faults = (
                fault_of(text, place, "prepare files of your own") for text in pair
            )
            yield next(filter(None, faults), pair)


def wmt14_splits(source: str, target: str) -> dict[str, Wmt14Split]:
    """Training data, newstest2013 and newstest2014, which are downloaded once.

    Args:
        source: "en", "de" or "fr".
        target: Likewise; one of the two is "en".

    Raises:
        ValueError: There is no such pair of languages, the library `datasets` is not
            installed, or the data cannot be had.
    """
    foreign = {source, target} - {"en"}
    if source == target or len(foreign) != 1 or not foreign <= {"de", "fr"}:
        raise ValueError(f"wmt14 has no {source}–{target}; take en, and one of de, fr")
    try:
        import datasets  # an extra, and slow to import
    except ImportError:
        raise ValueError(
            "wmt14 needs the library datasets; pip install datasets"
        ) from None
    splits = {}
    for name, published in SPLITS.items():
        try:
            # Not streamed from the hub: preparation reads the text twice and resumes
            # where it stopped. The library keeps it on disk and maps it into memory.
            rows = datasets.load_dataset(
                REPOSITORY, f"{min(foreign)}-en", split=published
            )
        except OSError as error:
            reason = str(error).split("\n")[0]
            raise ValueError(
                f"{REPOSITORY} could not be downloaded ({reason}); try again later"
            ) from error
        splits[name] = Wmt14Split(name, source, target, len(rows), rows)
    return splits
