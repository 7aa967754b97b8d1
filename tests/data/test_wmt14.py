"""WMT 2014 as the `datasets` library gives it, by a stand-in: no hub is asked here."""

import json
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from transformer_lite.data.corpora import load_corpus
from transformer_lite.data.pairs import Fault
from transformer_lite.data.prepare import prepare
from transformer_lite.tokenizer import RESERVED

ROOT = Path(__file__).resolve().parents[2]
TEXT = {
    "de-en": {
        "train": [("Hund", "dog"), ("Katze", "cat")],
        "validation": [("Haus", "house")],
        "test": [("Baum", "tree")],
    },
    "fr-en": {
        "train": [("chien", "dog")],
        "validation": [("maison", "house")],
        "test": [("arbre", "tree")],
    },
}


class Rows:
    """As much of `datasets.Dataset` as is used."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def iter(self, batch_size):
        for start in range(0, len(self.rows), batch_size):
            yield {"translation": self.rows[start : start + batch_size]}


@pytest.fixture
def library(monkeypatch):
    """A stand-in for the library, with its list of what was asked for."""
    asked = []

    def load_dataset(path, name, *, split):
        asked.append((path, name, split))
        keys = name.split("-")
        pairs = TEXT[name][split]
        return Rows([dict(zip(keys, pair, strict=True)) for pair in pairs])

    fake = SimpleNamespace(load_dataset=load_dataset, asked=asked)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    return fake


def answer(monkeypatch, library, pairs):
    """Let the library hold these German–English pairs in every split."""
    monkeypatch.setitem(TEXT, "de-en", dict.fromkeys(TEXT["de-en"], pairs))


def test_the_published_splits_are_asked_for(library):
    load_corpus("wmt14", "en", "de")
    names = "train", "validation", "test"
    assert library.asked == [("wmt/wmt14", "de-en", name) for name in names]


def test_newstest2013_validates_and_newstest2014_tests(library):
    splits = load_corpus("wmt14", "de", "en").splits
    found = {name: list(pairs) for name, pairs in splits.items()}
    assert found["valid"] == TEXT["de-en"]["validation"]
    assert found["test"] == TEXT["de-en"]["test"]
    assert found["train"] == TEXT["de-en"]["train"]


@pytest.mark.parametrize(
    ("source", "target", "pair"),
    [
        ("en", "de", ("dog", "Hund")),
        ("de", "en", ("Hund", "dog")),
        ("en", "fr", ("dog", "chien")),
        ("fr", "en", ("chien", "dog")),
    ],
)
def test_both_languages_have_both_directions(library, source, target, pair):
    assert next(iter(load_corpus("wmt14", source, target).splits["train"])) == pair


@pytest.mark.parametrize("pair", [("de", "fr"), ("en", "en"), ("en", "cs")])
def test_other_languages_are_refused(library, pair):
    with pytest.raises(ValueError, match=f"wmt14 has no {pair[0]}–{pair[1]}; take en"):
        load_corpus("wmt14", *pair)


def test_a_split_can_be_read_twice(library):
    train = load_corpus("wmt14", "en", "de").splits["train"]
    assert list(train) == list(train)


@pytest.mark.parametrize("bad", ["", "  ", "a\nb", *(f"a{c}b" for c in RESERVED)])
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_pairs_that_are_no_text_are_named_by_their_row(
    library, monkeypatch, bad, split
):
    answer(monkeypatch, library, [("eins", "one"), ("zwei", bad), ("drei", "three")])
    first, fault, last = load_corpus("wmt14", "en", "de").splits[split]
    assert (first, last) == (("one", "eins"), ("three", "drei"))
    assert isinstance(fault, Fault)
    assert fault.place == f"wmt14, {split}, row 2"
    assert last.place == f"wmt14, {split}, row 3"


def test_what_is_left_out_is_counted(library, monkeypatch, tmp_path):
    pairs = [("", "one"), ("zwei drei", "two three"), ("vier", "four " * 40)]
    answer(monkeypatch, library, [*pairs, *20 * [("fünf", "five")]])
    corpus = load_corpus("wmt14", "en", "de")
    valid = 3 * [("five", "fünf")]
    corpus = replace(corpus, splits={"train": corpus.splits["train"], "valid": valid})
    with pytest.raises(ValueError, match="wmt14, train, row 1: empty; prepare files"):
        prepare(corpus, tmp_path / "all", 40, 30, skip_unusable=False)
    prepare(corpus, tmp_path / "usable", 40, 30, skip_unusable=True)
    made = json.loads((tmp_path / "usable" / "corpus.json").read_text(encoding="utf-8"))
    assert made["left_out"] == {"empty": 1, "more tokens than --max-length 30": 1}


def test_without_the_library_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    message = r"needs the library datasets; pip install datasets$"
    with pytest.raises(ValueError, match=message):
        load_corpus("wmt14", "en", "de")


def test_the_extra_installs_the_library():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "datasets" in project["project"]["optional-dependencies"]["wmt14"][0]


def test_a_failed_download_is_one_line_with_a_remedy(library):
    def fail(*_, **__):
        raise ConnectionError("no network\nand a long story")

    library.load_dataset = fail
    with pytest.raises(ValueError, match=r"wmt14 could not .*\(no network\); try"):
        load_corpus("wmt14", "en", "de")


def test_directions_are_different_corpora(library):
    one, two = (load_corpus("wmt14", *pair) for pair in (("en", "de"), ("de", "en")))
    assert one.origin != two.origin
    assert one.origin == load_corpus("wmt14", "en", "de").origin
