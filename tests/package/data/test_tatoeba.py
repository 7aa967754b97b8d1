"""Tatoeba is split so that no two parts share a sentence; no server is asked here."""

import gzip
import re
import unicodedata
import zipfile
from itertools import combinations, product

import pooch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.data.corpora import DATA_VARIABLE, load_corpus
from transformer_lite.data.tatoeba import LARGEST_GROUP, split_pairs

# Few letters, so that sentences meet again: in another case, with other spaces, in
# another form of Unicode.
sentences = st.text("abAé\u0301e ", min_size=1, max_size=4).filter(str.strip)
pairs_of = st.lists(st.tuples(sentences, sentences), max_size=25)
FRESH = [(f"one {i}", f"eins {i}") for i in range(97)]


def same(sentence):
    return " ".join(unicodedata.normalize("NFC", sentence.lower()).split())


@settings(max_examples=50, deadline=None)
@given(pairs=pairs_of)
def test_no_sentence_is_in_two_parts(pairs):
    parts = [
        {same(sentence) for pair in part for sentence in pair}
        for part in split_pairs([*FRESH, *pairs], 23).values()
    ]
    assert not any(one & other for one, other in combinations(parts, 2))


@settings(max_examples=50, deadline=None)
@given(pairs=pairs_of, data=st.data())
def test_the_order_of_the_pairs_does_not_matter(pairs, data):
    pairs = [*FRESH[:41], *pairs]
    shuffled = data.draw(st.permutations(pairs))
    assert split_pairs(shuffled, 11) == split_pairs(pairs, 11)


@settings(max_examples=50, deadline=None)
@given(pairs=pairs_of, more=st.tuples(sentences, sentences))
def test_a_pair_more_changes_at_most_three_of_each_held_out_part(pairs, more):
    before = split_pairs([*FRESH, *pairs], 23)
    after = split_pairs([*FRESH, *pairs, more], 23)
    for part in ("valid", "test"):
        assert len(set(before[part]) - set(after[part])) <= 3
        assert len(set(after[part]) - set(before[part])) <= 3


def groups_of(size):
    """Seven groups of pairs that share their first sentence."""
    return [(f"a {i}", f"b {i} {j}") for i in range(7) for j in range(size)]


def test_one_pair_of_a_small_group_is_held_out_and_none_of_a_large_one():
    parts = split_pairs(groups_of(LARGEST_GROUP), 3)
    held_out = [first for first, _ in parts["valid"] + parts["test"]]
    assert len(held_out) == len(set(held_out)) == 6
    assert len(parts["train"]) == LARGEST_GROUP
    with pytest.raises(ValueError, match=r"only 0 groups .* 6 are to be held out"):
        split_pairs(groups_of(LARGEST_GROUP + 1), 3)


LINES = [(f"Haus {i}", f"house {i}") for i in range(140)]


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Make an archive that stands in for the server's, and note what is asked for."""
    asked = []

    def serve(lines=LINES, codes=("de", "en"), members=None):
        path = tmp_path / f"{codes[0]}-{codes[1]}.txt.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for side, code in enumerate(members or codes):
                text = "".join(f"{pair[side]}\n" for pair in lines)
                file.writestr(f"Tatoeba.{codes[0]}-{codes[1]}.{code}", text)
        return path

    def retrieve(url, fname, **_):
        asked.append(url)
        return str(tmp_path / fname)

    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr(pooch, "retrieve", retrieve)
    serve.asked = asked
    return serve


def test_a_release_that_does_not_change_is_downloaded(serve):
    serve()
    splits = load_corpus("tatoeba", "en", "de").splits
    (address,) = serve.asked
    assert re.search(r"/OPUS-Tatoeba/v[\d-]{10}/moses/de-en\.txt\.zip$", address)
    assert [len(pairs) for pairs in splits.values()] == [126, 7, 7]  # a twentieth


def splits_of(source, target):
    """All pairs of each split, without their places."""
    splits = load_corpus("tatoeba", source, target).splits
    return {split: [pair[:2] for pair in pairs] for split, pairs in splits.items()}


def test_both_directions_have_the_same_splits_of_all_pairs(serve):
    serve([*LINES, *LINES[:5]])  # those that come again count once
    one, other = splits_of("de", "en"), splits_of("en", "de")
    assert sorted(pair for pairs in one.values() for pair in pairs) == sorted(LINES)
    for split, pairs in one.items():
        assert other[split] == [(english, german) for german, english in pairs]


def test_chinese_is_mandarin_in_the_archive(serve):
    serve([(f"房子{i}", f"house {i}") for i in range(40)], ("cmn", "en"))
    assert splits_of("en", "zh")["test"][0][0].startswith("house")


@pytest.mark.parametrize("side", ["", "  ", "a\u2581b", "x" * 251])
def test_a_pair_that_cannot_be_used_is_left_out(serve, side):
    serve([*LINES, ("Hund", side), (side, "dog")])
    assert sum(map(len, splits_of("en", "de").values())) == len(LINES)


@pytest.mark.parametrize(
    "languages", [("en", "en"), ("en", "de_AT"), ("en", "x"), ("../e", "de")]
)
def test_languages_are_two_codes(serve, languages):
    with pytest.raises(ValueError, match=r"tatoeba has no .*two languages by their"):
        load_corpus("tatoeba", *languages)
    assert not serve.asked


@pytest.mark.parametrize("fault", ["cut short", "overwritten", "another language"])
def test_a_damaged_archive_is_named(serve, fault):
    path = serve(members=("de", "nl") if fault == "another language" else None)
    content = bytearray(path.read_bytes())
    if fault == "cut short":
        path.write_bytes(content[:-30])
    elif fault == "overwritten":
        content[46:60] = b"\xff" * 14  # after the header: the codes of the text
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"de-en\.txt\.zip: not the archive .*delete"):
        load_corpus("tatoeba", "de", "en")


def test_splits_of_a_folder_of_ones_own_stay_as_they_are(tmp_path, monkeypatch):
    (tmp_path / "tatoeba-ko-en").mkdir()
    for name in map(".".join, product(("train", "valid", "test"), ("ko", "en"))):
        path = tmp_path / "tatoeba-ko-en" / f"{name}.gz"
        path.write_bytes(gzip.compress(f"{name}\n".encode()))
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    (pair,) = load_corpus("tatoeba", "en", "ko").splits["test"]
    assert pair[:2] == ("test.en", "test.ko")
