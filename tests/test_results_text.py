"""What is counted of real text is what a reader of chapter 5.1 would count."""

import hashlib
import json

import numpy as np
import pytest

from results import text
from transformer_lite.data.corpora import Corpus

LINES = [
    f"the {word} sees {word}{n}" for n in range(7) for word in ("cat", "dog", "ox")
]
TRAIN = (LINES, [line.upper() for line in LINES])
TEST = (["the cat sees a yak"], ["THE CAT SEES A YAK"])


def test_padding_is_what_the_rectangles_have_beside_the_tokens():
    src, tgt = np.array([2, 4, 6]), np.array([1, 1, 9])
    found = text.padding_counts(src, tgt, [np.array([0, 1]), np.array([2])])
    # Sources 3 + 5 in 2 rows of 5, targets 2 + 2 in 2 rows of 2; the third fits.
    assert found["padding"] == pytest.approx(
        1 - (8 + 4 + 7 + 10) / (10 + 4 + 7 + 10), abs=1e-4
    )
    assert found["largest"] == 10
    assert found["tokens"] == pytest.approx((4 + 10) / 2)


def test_unseen_words_are_counted_as_they_run():
    found = text.side_counts(*(side[0] for side in (TRAIN, TEST)))
    assert found["unseen_words"] == pytest.approx(2 / 5)  # "a" and "yak"
    assert found["words"] == 5
    assert (
        found["sha256"]["test"] == hashlib.sha256(b"the cat sees a yak\n").hexdigest()
    )


def test_a_leaking_vocabulary_knows_what_it_was_never_trained_on():
    found = text.leak_counts(TRAIN, TEST, 50)
    assert found["honest"]["unknown"] > 0 == found["leaking"]["unknown"]
    assert found["leaking"]["untrained"] > 0


def test_languages_without_a_common_letter_share_punctuation_alone():
    found = text.sharing_counts(TRAIN, TEST, 60)
    assert found["long_types_in_both"] == 0
    assert found["types_in_both"] <= 8  # the mark of a space, and digits


def test_every_order_and_budget_is_counted_with_every_seed(monkeypatch):
    monkeypatch.setattr(text, "BUDGETS", (100, 500))
    lengths = np.random.default_rng(3).integers(1, 23, (2, 301))
    found = text.batch_counts(*lengths)
    assert len(found) == 2 + 2 * len(text.BUDGETS)
    assert all(len(runs) == len(text.SEEDS) for runs in found.values())
    for budget in text.BUDGETS:
        by_length = [run["padding"] for run in found[f"{budget} tokens, by length"]]
        at_random = [run["padding"] for run in found[f"{budget} tokens, random"]]
        assert max(by_length) < min(at_random)


def test_the_stored_counts_have_all_that_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "require_clean", lambda: None)
    stored = json.loads(text.RECORDING.read_text(encoding="utf-8"))
    splits = {
        "train": list(zip(*TRAIN, strict=True)),
        "test": list(zip(*TEST, strict=True)),
    }
    splits["test_2016_flickr"] = splits["test"]
    monkeypatch.setattr(text, "load_corpus", lambda *_: Corpus("a", splits))
    monkeypatch.setattr(text, "SIZES", (50, 60))
    for name, value in {"SIZE": 60, "PAIRS": 20, "TEST_PAIRS": 1}.items():
        monkeypatch.setattr(text, name, value)
    text.main(tmp_path / "out.json")
    made = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert structure(made) == structure(stored)


def structure(value):
    """The names in a tree of JSON; of a list, its first entry's."""
    if isinstance(value, dict):
        return {name: structure(entry) for name, entry in value.items()}
    return structure(value[0]) if isinstance(value, list) and value else None
