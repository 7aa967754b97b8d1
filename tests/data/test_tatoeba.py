"""Tatoeba is split so that no two parts share a sentence; no server is asked here."""

import gzip
import hashlib
import re
import unicodedata
import zipfile
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.data import downloads
from transformer_lite.data.corpora import DATA_VARIABLE, load_corpus
from transformer_lite.data.tatoeba import LARGEST_GROUP, split_pairs

# Few letters, so that sentences meet again: in another case, with other spaces, in
# another form of Unicode.
sentences = st.text("abAé\u0301e ", min_size=1, max_size=4).filter(str.strip)
pairs_of = st.lists(st.tuples(sentences, sentences), max_size=25)
FRESH = [(f"one {i}", f"eins {i}") for i in range(97)]


def same(sentence):
    return " ".join(unicodedata.normalize("NFC", sentence.lower()).split())


def sentences_of(pairs):
    return {same(sentence) for pair in pairs for sentence in pair}


@settings(max_examples=100, deadline=None)
@given(pairs=pairs_of)
def test_no_sentence_is_in_two_parts(pairs):
    parts = split_pairs([*FRESH, *pairs], 23).values()
    for one, other in combinations(map(sentences_of, parts), 2):
        assert not one & other


@settings(max_examples=100, deadline=None)
@given(pairs=pairs_of, data=st.data())
def test_the_order_of_the_pairs_does_not_matter(pairs, data):
    pairs = [*FRESH[:41], *pairs]
    shuffled = data.draw(st.permutations(pairs))
    assert split_pairs(shuffled, 11) == split_pairs(pairs, 11)


@settings(max_examples=100, deadline=None)
@given(pairs=pairs_of, more=st.tuples(sentences, sentences))
def test_a_pair_more_changes_at_most_three_of_each_held_out_part(pairs, more):
    before = split_pairs([*FRESH, *pairs], 23)
    after = split_pairs([*FRESH, *pairs, more], 23)
    for part in ("valid", "test"):
        assert len(set(before[part]) - set(after[part])) <= 3
        assert len(set(after[part]) - set(before[part])) <= 3


def test_every_pair_is_somewhere_once_if_none_shares_a_sentence():
    parts = split_pairs([*FRESH, *FRESH[:5]], 23)
    sizes = {split: len(pairs) for split, pairs in parts.items()}
    assert sizes == {"train": 51, "valid": 23, "test": 23}
    assert sorted(pair for pairs in parts.values() for pair in pairs) == sorted(FRESH)


def groups_of(size):
    """Seven groups of pairs that share their first sentence."""
    return [(f"a {i}", f"b {i} {j}") for i in range(7) for j in range(size)]


def test_one_pair_of_a_small_group_is_held_out():
    parts = split_pairs(groups_of(LARGEST_GROUP), 3)
    held_out = [first for first, _ in parts["valid"] + parts["test"]]
    assert len(held_out) == len(set(held_out)) == 6
    assert len(parts["train"]) == LARGEST_GROUP


def test_a_large_group_is_trained_on():
    with pytest.raises(ValueError, match=r"only 0 groups .* 6 are to be held out"):
        split_pairs(groups_of(LARGEST_GROUP + 1), 3)


def test_pairs_that_others_connect_stay_together():
    chain = [("a", "x"), ("A", "y"), ("b", "Y "), ("b", "z"), ("c", "z")]
    parts = split_pairs([*FRESH, *chain], 48)
    assert set(chain) <= set(parts["train"])
    assert len(parts["train"]) == 1 + 5


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Stands in for the server; makes an archive and counts the requests."""
    asked = []

    def serve(one, other, lines, members=None):
        path = tmp_path / f"{one}-{other}.txt.zip"
        with zipfile.ZipFile(path, "w") as file:
            for side, code in enumerate(members or (one, other)):
                text = "".join(f"{pair[side]}\n" for pair in lines)
                file.writestr(f"Tatoeba.{one}-{other}.{code}", text)

        def retrieve(url, known_hash, fname, **_):
            asked.append(url)
            assert (known_hash, fname) == (None, path.name)
            return str(path)

        monkeypatch.delenv(DATA_VARIABLE, raising=False)
        monkeypatch.setattr(downloads.pooch, "retrieve", retrieve)
        return path

    serve.asked = asked
    return serve


LINES = [(f"Haus {i}", f"house {i}") for i in range(140)]


def test_a_version_that_does_not_change_is_downloaded(archive):
    archive("de", "en", LINES)
    load_corpus("tatoeba", "en", "de")
    (address,) = archive.asked
    assert re.search(r"/OPUS-Tatoeba/v[\d-]{10}/moses/de-en\.txt\.zip$", address)


def test_a_twentieth_validates_and_a_twentieth_tests(archive):
    archive("de", "en", LINES)
    splits = load_corpus("tatoeba", "de", "en").splits
    sizes = {split: len(pairs) for split, pairs in splits.items()}
    assert sizes == {"train": 126, "valid": 7, "test": 7}
    assert sorted(pair for pairs in splits.values() for pair in pairs) == sorted(LINES)


def test_both_directions_have_the_same_splits(archive):
    archive("de", "en", LINES)
    one, other = (load_corpus("tatoeba", *way) for way in (("de", "en"), ("en", "de")))
    for split, pairs in one.splits.items():
        assert other.splits[split] == [(english, german) for german, english in pairs]
    assert one.origin != other.origin
    assert other.languages == ("en", "de")


def test_the_origin_names_the_archive_by_its_checksum(archive):
    path = archive("de", "en", LINES)
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    origin = load_corpus("tatoeba", "en", "de").origin
    assert checksum in origin
    assert archive.asked[0] in origin


def test_chinese_is_mandarin_in_the_archive(archive):
    archive("cmn", "en", [(f"房子{i}", f"house {i}") for i in range(40)])
    corpus = load_corpus("tatoeba", "en", "zh")
    assert corpus.languages == ("en", "zh")
    assert all(source.startswith("house") for source, _ in corpus.splits["test"])


@pytest.mark.parametrize("side", ["", "  ", "a\u2581b", "x" * 251])
def test_a_pair_that_cannot_be_used_is_left_out(archive, side):
    archive("de", "en", [*LINES, ("Hund", side), (side, "dog")])
    splits = load_corpus("tatoeba", "de", "en").splits
    assert sum(map(len, splits.values())) == len(LINES)


@pytest.mark.parametrize(
    "languages", [("en", "en"), ("en", "de_AT"), ("en", "x"), ("../e", "de")]
)
def test_languages_are_two_codes(archive, languages):
    archive("de", "en", LINES)
    with pytest.raises(ValueError, match=r"tatoeba has no .*two languages by their"):
        load_corpus("tatoeba", *languages)
    assert archive.asked == []


def test_an_archive_that_cannot_be_had_is_named(monkeypatch):
    def retrieve(url, **_):
        raise ConnectionError("404 Client Error\nmore")

    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr(downloads.pooch, "retrieve", retrieve)
    with pytest.raises(
        ValueError, match=r"de-tlh\.txt\.zip could not .*Connection.* or put"
    ):
        load_corpus("tatoeba", "de", "tlh")


def test_a_damaged_archive_is_named(archive):
    path = archive("de", "en", LINES)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match=r"de-en\.txt\.zip: not the archive .*delete"):
        load_corpus("tatoeba", "de", "en")


def test_an_archive_that_cannot_be_decompressed_is_named(archive):
    path = archive("de", "en", LINES)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("Tatoeba.de-en.de", "".join(f"{i * i}\n" for i in range(999)))
    damaged = bytearray(path.read_bytes())
    damaged[46:60] = b"\xff" * 14  # after the header: the codes of the text
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"not the archive .*decompressing.*delete"):
        load_corpus("tatoeba", "de", "en")


def test_an_archive_without_one_of_the_languages_is_named(archive):
    archive("de", "en", LINES, members=("de", "nl"))
    with pytest.raises(ValueError, match=r"not the archive .*Tatoeba\.de-en\.en"):
        load_corpus("tatoeba", "de", "en")


def test_splits_of_the_folder_in_the_environment_stay_as_they_are(
    tmp_path, monkeypatch
):
    folder = tmp_path / "tatoeba-ko-en"
    folder.mkdir()
    for split in ("train", "valid", "test"):
        for code in ("ko", "en"):
            text = f"{split} {code}\nb\n".encode()
            (folder / f"{split}.{code}.gz").write_bytes(gzip.compress(text))
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    corpus = load_corpus("tatoeba", "en", "ko")
    assert list(corpus.splits["test"]) == [("test en", "test ko"), ("b", "b")]
    (folder / "valid.ko.gz").unlink()
    with pytest.raises(ValueError, match=rf"valid\.ko\.gz: no such .*{DATA_VARIABLE}"):
        load_corpus("tatoeba", "en", "ko")
