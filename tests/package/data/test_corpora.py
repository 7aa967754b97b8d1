"""Parallel text is read exactly, or refused with file, line and remedy."""

import gzip
import hashlib
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pooch
import pytest

from transformer_lite.data import corpora
from transformer_lite.data.corpora import (
    DATA_VARIABLE,
    MULTI30K_MIRRORS,
    MULTI30K_SHA256,
    TextFiles,
    UnusablePair,
    corpus_of_files,
    load_corpus,
)


def files(folder, source, target):
    """Two files with these bytes."""
    paths = folder / "corpus.en", folder / "corpus.de"
    for path, content in zip(paths, (source, target), strict=True):
        path.write_bytes(content)
    return TextFiles(paths)


def texts(entries):
    """The text of each pair, without its place."""
    return [entry[:2] for entry in entries]


def test_pairs_are_the_lines_of_both_files(tmp_path):
    pairs = files(tmp_path, b"one\r\ntwo\n", "eins\r\nzwölf".encode())
    assert texts(pairs) == [("one", "eins"), ("two", "zwölf")]
    where = f"{pairs.paths[0]} and {pairs.paths[1]}, line"
    assert [pair.place for pair in pairs] == [f"{where} 1", f"{where} 2"]


@pytest.mark.parametrize("inside", ["\u2028", "\u0085", "\x0b", "\x1c", "\r", "\t  "])
def test_only_a_line_feed_ends_a_line(tmp_path, inside):
    text = f" one{inside}two "
    assert texts(files(tmp_path, f"{text}\n".encode(), b"eins\n")) == [(text, "eins")]


@pytest.mark.parametrize("short", ["en", "de"])
def test_files_of_unequal_length_are_refused(tmp_path, short):
    contents = [b"a\nb\n", b"a\nb\nc\n"]
    pairs = files(tmp_path, *(contents if short == "en" else contents[::-1]))
    with pytest.raises(ValueError, match=rf"corpus\.{short}: ends before line 3"):
        list(pairs)


def test_a_line_that_is_not_utf8_is_an_unusable_pair(tmp_path):
    good, unusable = files(tmp_path, b"a\nb\n", "a\nfür\n".encode("latin-1"))
    assert good[:2] == ("a", "a")
    assert isinstance(unusable, UnusablePair)
    assert "corpus.de, line 2, byte 2: not UTF-8; convert the file" in str(unusable)


WHOLE = gzip.compress(b"(S (NN line) (NN long) (JJ enough))\n" * 30)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "empty; give a file with"),
        ("a.txt", None, "no such file; check the path"),
        (".", None, "a folder; give a text file"),
        ("a.gz", b"not compressed\n", "cannot be read .*; give a text file"),
        ("a.gz", WHOLE[:-9], "cannot be read .*; give a text file"),
        ("a.gz", WHOLE[:10] + b"\xff" * 5 + WHOLE[15:], "cannot be read .*; give"),
        ("a.gz", WHOLE[:-6] + bytes(6), "cannot be read .*; give a text file"),
    ],
    ids=["empty", "missing", "folder", "plain", "short", "overwritten", "checksum"],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    for pairs in (TextFiles((path, path)), TextFiles((path,))):
        with pytest.raises(ValueError, match=f"^{path}: {message}"):
            list(pairs)


@pytest.mark.parametrize(("name", "pack"), [("a.tsv", bytes), ("a.gz", gzip.compress)])
def test_a_file_of_pairs_has_a_tab_between_the_sides(tmp_path, name, pack):
    text = "\ufeff one \t zwölf \r\nlast\tletzte"  # begins with a byte order mark
    (tmp_path / name).write_bytes(pack(text.encode()))
    pairs = TextFiles((tmp_path / name,))
    assert texts(pairs) == [(" one ", " zwölf "), ("last", "letzte")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"one", ": not source, tab, target; it has no tab; name the file of tr"),
        (b"1\tone\t2\teins", ": not source, tab, target; it has 4 columns"),
        (b"one\tf\xfcnf", ", byte 6: not UTF-8; convert the file"),
    ],
)
def test_a_line_that_is_no_pair_is_unusable_and_has_a_place(tmp_path, line, message):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"a\tb\n" + line + b"\nc\td\n")
    first, unusable, last = TextFiles((path,))
    assert str(unusable).startswith(f"{path}, line 2{message}")
    assert texts([first, last]) == [("a", "b"), ("c", "d")]


def test_a_split_has_one_file_or_two(tmp_path):
    with pytest.raises(ValueError, match="--test has 3 files; give source and target"):
        corpus_of_files({"test": [tmp_path / name for name in "abc"]})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("nothing en de", "take one of toy, multi30k, tatoeba, wmt14; for your own"),
        ("toy de en", "toy has no de–en; give --source en --target de"),
        ("multi30k en en", "multi30k has no en–en; take two of en, de, fr"),
        ("wmt14 de fr", "wmt14 has no de–fr; take en, and one of de, fr"),
        ("wmt14 en cs", "wmt14 has no en–cs; take en, and one of de, fr"),
    ],
)
def test_a_corpus_that_does_not_exist_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_corpus(*arguments.split())


def no_network(*_, **__):
    raise AssertionError("nothing is to be downloaded here")


@pytest.fixture
def multi30k(tmp_path, monkeypatch):
    """A folder that the environment names, with as good as the published text."""
    folder = tmp_path / "data" / "multi30k"
    folder.mkdir(parents=True)
    text = {name: f"{name}\nb\n".encode() for name in MULTI30K_SHA256}
    for name in text:
        (folder / f"{name}.gz").write_bytes(gzip.compress(text[name]))
    sums = {name: hashlib.sha256(text[name]).hexdigest() for name in text}
    monkeypatch.setattr(corpora, "MULTI30K_SHA256", sums)
    monkeypatch.setenv(DATA_VARIABLE, str(folder.parent))
    monkeypatch.setattr(pooch, "retrieve", no_network)
    return folder


def test_multi30k_is_read_from_the_folder_that_the_environment_names(multi30k):
    corpus = load_corpus("multi30k", "fr", "en")
    assert corpus.languages == ("fr", "en")
    assert set(corpus.splits) == {"train", "valid", "test_2016_flickr"}
    assert texts(corpus.splits["valid"]) == [("val.fr", "val.en"), ("b", "b")]


def test_a_file_that_is_not_the_published_one_is_named(multi30k):
    path = multi30k / "val.de.gz"
    path.write_bytes(gzip.compress(b"changed\nb\n"))
    with pytest.raises(ValueError, match=f"^{path}: not the published.*checksum"):
        load_corpus("multi30k")
    path.unlink()
    with pytest.raises(ValueError, match=f"^{path}: no such .*{DATA_VARIABLE}"):
        load_corpus("multi30k")


@pytest.fixture
def server(multi30k, tmp_path, monkeypatch):
    """A stand-in for the network; `answers` holds what each address gives."""
    answers, asked = {}, []

    def retrieve(url, fname, path, **_):
        asked.append(url)
        if url not in answers:
            raise ConnectionError("no network here")
        (tmp_path / fname).write_bytes(answers[url])
        return str(tmp_path / fname)

    monkeypatch.delenv(DATA_VARIABLE)
    monkeypatch.setattr(pooch, "retrieve", retrieve)
    return SimpleNamespace(answers=answers, asked=asked, text=multi30k)


def test_a_download_tries_every_mirror_and_then_says_so(server, tmp_path):
    addresses = [f"{mirror}train.en.gz" for mirror in MULTI30K_MIRRORS]
    server.answers[addresses[0]] = b"\n<!DOCTYPE html><html>Please sign in</html>"
    message = (
        r"^train\.en\.gz could not be downloaded \(.*: a web page instead of the file; "
        rf".*: ConnectionError\); .* put the corpus under multi30k/ .*{DATA_VARIABLE}"
    )
    with pytest.raises(ValueError, match=message) as caught:
        load_corpus("multi30k")
    assert server.asked == addresses
    assert all(mirror in str(caught.value) for mirror in MULTI30K_MIRRORS)
    assert not (tmp_path / "train.en.gz").exists()  # the page is not kept


def test_where_no_mirror_has_a_file_the_languages_are_in_doubt(server, monkeypatch):
    error = OSError("404 Client Error")
    error.response = SimpleNamespace(status_code=404)
    monkeypatch.setattr(pooch, "retrieve", Mock(side_effect=error))
    with pytest.raises(ValueError, match=r"OSError 404\); check the languages' codes"):
        load_corpus("tatoeba", "en", "xx")


def test_a_download_takes_the_next_mirror_when_one_fails(server):
    for path in server.text.iterdir():
        server.answers[f"{MULTI30K_MIRRORS[1]}{path.name}"] = path.read_bytes()
    train = load_corpus("multi30k", "en", "de").splits["train"]
    assert texts(train)[0] == ("train.en", "train.de")
    assert len(server.asked) == 2 * 6


WMT14 = {
    (f"{code}-en", split): [(f"{code} {split} {i}", f"en {split} {i}") for i in "ab"]
    for code in ("de", "fr")
    for split in ("train", "validation", "test")
}


class Rows(list):
    """As much of `datasets.Dataset` as is used."""

    def iter(self, batch_size):
        for start in range(0, len(self), batch_size):
            yield {"translation": self[start : start + batch_size]}


@pytest.fixture
def library(monkeypatch):
    def load_dataset(path, name, *, split):
        assert path == "wmt/wmt14"
        keys = name.split("-")
        return Rows(dict(zip(keys, pair, strict=True)) for pair in WMT14[name, split])

    fake = SimpleNamespace(load_dataset=load_dataset)
    monkeypatch.setitem(sys.modules, "datasets", fake)
    return fake


@pytest.mark.parametrize("other", ["de", "fr"])
def test_wmt14_has_the_published_splits_in_both_directions(library, other):
    given = load_corpus("wmt14", other, "en").splits
    assert {split: texts(pairs) for split, pairs in given.items()} == {
        "train": WMT14[f"{other}-en", "train"],
        "valid": WMT14[f"{other}-en", "validation"],  # newstest2013
        "test": WMT14[f"{other}-en", "test"],  # newstest2014
    }
    swapped = load_corpus("wmt14", "en", other).splits
    assert texts(swapped["test"]) == [pair[::-1] for pair in texts(given["test"])]


def test_without_the_library_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"root: pip install '\.\[wmt14\]'$"):
        load_corpus("wmt14")


def test_a_failed_download_of_wmt14_is_one_line_with_a_remedy(library):
    def fail(*_, **__):
        raise ConnectionError("no network\nand a long story")

    library.load_dataset = fail
    with pytest.raises(ValueError, match=r"wmt14 could not .*\(no network\); try"):
        load_corpus("wmt14")
