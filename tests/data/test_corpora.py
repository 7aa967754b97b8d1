"""Parallel text is read exactly, or refused with file, line and remedy."""

import codecs
import gzip
import hashlib
import io
import os
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace

import pytest

from transformer_lite.data import corpora, downloads
from transformer_lite.data.corpora import (
    MULTI30K_MIRRORS,
    MULTI30K_SHA256,
    PairsFile,
    ParallelFiles,
    ToySplit,
    corpus_of_files,
    load_corpus,
)
from transformer_lite.data.downloads import DATA_VARIABLE
from transformer_lite.data.pairs import Fault


def files(folder, source, target):
    """Two files with these bytes."""
    paths = folder / "corpus.en", folder / "corpus.de"
    for path, content in zip(paths, (source, target), strict=True):
        path.write_bytes(content)
    return ParallelFiles(*paths)


def fault(entries):
    """What is wrong with the first entry that is no pair."""
    return next(str(entry) for entry in entries if isinstance(entry, Fault))


def test_a_disk_that_fails_is_no_fault_of_the_text(monkeypatch):
    class Failing(io.BytesIO):
        def __next__(self):
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", lambda *_: Failing())
    with pytest.raises(OSError, match=r"^t\.en: cannot be read \(Input/output error\)"):
        list(corpora.lines_of(Path("t.en")))


@pytest.mark.parametrize("path", ["t.en", "t.en/below"])
def test_a_path_that_is_no_file_is_named(tmp_path, path):
    (tmp_path / "t.en").mkdir() if path == "t.en" else (tmp_path / "t.en").touch()
    with pytest.raises(
        ValueError, match=f"{path}: cannot be read .*; give a text file"
    ):
        list(corpora.lines_of(tmp_path / path))


def test_pairs_are_the_lines_of_both_files(tmp_path):
    pairs = files(tmp_path, b"one\ntwo\n", "eins\nzwölf\n".encode())
    assert list(pairs) == [("one", "eins"), ("two", "zwölf")]


def test_a_split_can_be_read_again(tmp_path):
    pairs = files(tmp_path, b"one\ntwo\n", b"eins\nzwei\n")
    assert list(pairs) == list(pairs)


def test_the_last_line_needs_no_line_end(tmp_path):
    assert list(files(tmp_path, b"one", b"eins\n")) == [("one", "eins")]


def test_windows_line_ends_do_not_belong_to_the_text(tmp_path):
    assert list(files(tmp_path, b"one\r\n", b"eins\r\n")) == [("one", "eins")]


@pytest.mark.parametrize(
    "separator", ["\u2028", "\u0085", "\x0b", "\x0c", "\x1c", "\r"]
)
def test_only_a_line_feed_ends_a_line(tmp_path, separator):
    text = f"one{separator}two"
    assert list(files(tmp_path, f"{text}\n".encode(), b"eins\n")) == [(text, "eins")]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_byte_order_mark_does_not_belong_to_the_text(tmp_path, compress):
    path = tmp_path / ("a.gz" if compress is gzip.compress else "a")
    path.write_bytes(compress(codecs.BOM_UTF8 + b"one\ntwo\n"))
    assert list(ParallelFiles(path, path)) == [("one", "one"), ("two", "two")]


def test_a_file_of_a_byte_order_mark_alone_is_empty(tmp_path):
    pairs = files(tmp_path, codecs.BOM_UTF8, b"a\n")
    assert fault(pairs) == f"{pairs.source}, line 1: empty; remove this pair"


@pytest.mark.parametrize("number", [0x0000, 0x2581, 0x2585])
def test_characters_that_the_tokenizer_needs_are_refused(tmp_path, number):
    line = f"a\nb{chr(number)}c\n".encode()
    shown = fault(files(tmp_path, b"a\nb\n", line))
    assert f"corpus.de, line 2: has the character U+{number:04X}, which" in shown
    assert "; remove it" in shown


def test_spaces_are_part_of_the_text(tmp_path):
    assert list(files(tmp_path, b"  a  b \n", b"c\t\n")) == [("  a  b ", "c\t")]


def test_compressed_files_are_read_too(tmp_path):
    paths = tmp_path / "corpus.en.gz", tmp_path / "corpus.de"
    paths[0].write_bytes(gzip.compress(b"one\n"))
    paths[1].write_bytes(b"eins\n")
    assert list(ParallelFiles(*paths)) == [("one", "eins")]


@pytest.mark.parametrize("short", ["en", "de"])
def test_files_of_unequal_length_are_refused(tmp_path, short):
    contents = [b"a\nb\n", b"a\nb\nc\n"] if short == "en" else [b"a\nb\nc\n", b"a\nb\n"]
    with pytest.raises(ValueError, match=rf"corpus\.{short}: ends before line 3"):
        list(files(tmp_path, *contents))


@pytest.mark.parametrize("bad", ["en", "de"])
def test_text_that_is_not_utf8_is_refused(tmp_path, bad):
    good, broken = b"a\nb\n", "a\nfür\n".encode("latin-1")
    contents = [broken, good] if bad == "en" else [good, broken]
    shown = fault(files(tmp_path, *contents))
    assert f"corpus.{bad}, line 2: not UTF-8; see byte 2 of it; convert" in shown


@pytest.mark.parametrize("blank", [b"", b"  ", b"\t", "\u3000".encode(), b"\r"])
def test_an_empty_line_is_refused(tmp_path, blank):
    pairs = list(files(tmp_path, b"a\nb\nc\n", b"a\n" + blank + b"\nc\n"))
    assert "corpus.de, line 2: empty; remove" in fault(pairs)
    assert [pairs[0], pairs[2]] == [("a", "a"), ("c", "c")]


@pytest.mark.parametrize(
    ("line", "pair"),
    [
        ("one two\teins zwei", ("one two", "eins zwei")),
        ("one\teins\tCC-BY 2.0 (France)", ("one", "eins")),
        ("1276\tone\t77\teins", ("one", "eins")),
        ("\ufeffone\teins\r", ("one", "eins")),
        (" one \t zwölf ", (" one ", " zwölf ")),
    ],
    ids=["two columns", "with a licence", "with numbers", "windows", "spaces"],
)
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_file_of_pairs_has_a_tab_between_the_sides(tmp_path, line, pair, compress):
    path = tmp_path / ("pairs.tsv.gz" if compress is gzip.compress else "pairs.tsv")
    path.write_bytes(compress(f"{line}\nlast\tletzte\n".encode()))
    assert list(PairsFile(path)) == [pair, ("last", "letzte")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"one", "not source, tab, target; it has 1 columns"),
        (b"", "not source, tab, target; it has 1 columns"),
        (b"a\tb\tc\td", "not source, tab, target; it has 4 columns"),
        (b"one\teins\tun", "not source, tab, target; it has 3 columns"),
        (b"1\tone\teins", "a number before two more columns; leave only source"),
        (b"2\tcmn\tone", "a number before two more columns; leave only source"),
        (b"one\t", "empty; remove this pair"),
        (b"one\tf\xfcnf", "not UTF-8; see byte 2"),
    ],
)
def test_a_line_that_is_no_pair_is_a_fault(tmp_path, line, message):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"a\tb\n" + line + b"\nc\td\n")
    entries = list(PairsFile(path))
    assert fault(entries).startswith(f"{path}, line 2: {message}")
    assert [entries[0], entries[2]] == [("a", "b"), ("c", "d")]


def test_an_empty_file_of_pairs_is_refused(tmp_path):
    (tmp_path / "pairs.tsv").write_bytes(b"")
    with pytest.raises(ValueError, match=r"pairs\.tsv: empty; give"):
        list(PairsFile(tmp_path / "pairs.tsv"))


def test_a_split_of_ones_own_may_be_a_file_of_pairs(tmp_path):
    (tmp_path / "pairs.tsv").write_bytes(b"one\teins\n")
    train = (tmp_path / "pairs.tsv",)
    corpus = corpus_of_files(train, (tmp_path / "a", tmp_path / "b"))
    assert list(corpus.splits["train"]) == [("one", "eins")]
    assert isinstance(corpus.splits["valid"], ParallelFiles)


def test_empty_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"corpus\.en: empty; give"):
        list(files(tmp_path, b"", b""))


def test_one_empty_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"corpus\.de: ends before line 1"):
        list(files(tmp_path, b"a\n", b""))


def test_a_missing_file_is_refused(tmp_path):
    pairs = files(tmp_path, b"a\n", b"a\n")
    pairs.target.unlink()
    with pytest.raises(ValueError, match=r"corpus\.de: no such file; check"):
        list(pairs)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match="give a text file"):
        list(ParallelFiles(tmp_path, tmp_path))


WHOLE = gzip.compress(b"a line that is long enough\n" * 30)


@pytest.mark.parametrize(
    "content",
    [
        b"not compressed\n",
        WHOLE[:-9],
        WHOLE[:20],
        WHOLE[:10] + b"\xff" * 5 + WHOLE[15:],
        WHOLE[:-6] + bytes(6),
    ],
    ids=["plain", "cut short", "cut shorter", "overwritten", "wrong checksum"],
)
def test_a_damaged_compressed_file_is_refused(tmp_path, content):
    path = tmp_path / "corpus.gz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"corpus\.gz: cannot be read .*; give"):
        list(ParallelFiles(path, path))


def test_a_corpus_of_ones_own_has_the_splits_given(tmp_path):
    pair = (tmp_path / "a", tmp_path / "b")
    assert set(corpus_of_files(pair, pair).splits) == {"train", "valid"}
    assert set(corpus_of_files(pair, pair, pair).splits) == {"train", "valid", "test"}


@pytest.mark.parametrize(
    ("source", "target", "languages"),
    [
        ("train.en", "train.ko.gz", ("en", "ko")),
        ("news.zh_CN", "news.pt-BR", ("zh", "pt")),
        ("train.src", "train.txt", ("", "")),
        ("a", "b.fr", ("", "fr")),
        ("news.en.txt", "news.zh-Hant-TW.txt.gz", ("en", "zh")),
        ("corpus.eng", "corpus.KOR", ("eng", "kor")),
        ("a.txt.gz", "b.txt.gz", ("", "")),
        ("a.clean.gz", "b.csv", ("", "")),
        ("a.py", "b.md", ("", "")),
        ("one.en", "other.en", ("", "")),
        ("a.log", "b.log", ("", "")),
    ],
)
def test_the_languages_are_what_the_files_names_end_in(source, target, languages):
    pair = Path(source), Path(target)
    assert corpus_of_files(pair, pair).languages == languages
    given = corpus_of_files(pair, pair, languages=("ja", None)).languages
    assert given == ("ja", languages[1])


def test_a_corpus_by_name_knows_its_languages():
    assert load_corpus("toy").languages == ("en", "de")


def test_a_changed_file_makes_another_corpus(tmp_path):
    pairs = files(tmp_path, b"one\n", b"eins\n")
    pair = pairs.source, pairs.target
    before = corpus_of_files(pair, pair).origin
    assert corpus_of_files(pair, pair).origin == before
    os.utime(pairs.source, ns=(7, 7))
    assert corpus_of_files(pair, pair).origin != before


def test_the_other_direction_is_another_corpus(tmp_path):
    pairs = files(tmp_path, b"one\n", b"eins\n")
    one, two = (pairs.source, pairs.target), (pairs.target, pairs.source)
    assert corpus_of_files(one, one).origin != corpus_of_files(two, two).origin


@pytest.fixture
def numbered(monkeypatch):
    """The toy corpus with numbers in place of sentences, which take longer."""

    def generate(seed):
        return (SimpleNamespace(source=f"{seed} {i}", target=f"{i}") for i in count())

    monkeypatch.setattr(corpora, "generate_pairs", generate)
    return {name: list(pairs) for name, pairs in load_corpus("toy").splits.items()}


def test_the_toy_corpus_has_the_sizes_promised(numbered):
    sizes = {name: len(pairs) for name, pairs in numbered.items()}
    assert sizes == {"train": 10_000, "valid": 500, "test": 500}


def test_splits_of_the_toy_corpus_share_no_sentence(numbered):
    assert len(set().union(*numbered.values())) == 11_000


def test_the_toy_corpus_is_always_the_same():
    one, two = (list(islice(load_corpus("toy").splits["train"], 29)) for _ in range(2))
    assert len(set(one)) == 29
    assert one == two


def test_toy_splits_are_stretches_of_one_stream():
    pairs = list(ToySplit(0, 29))
    assert list(ToySplit(7, 11)) == pairs[7:18]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], 'no corpus "nothing"; take "toy", "multi30k"'),
        (["toy", "de", "en"], "toy has no de–en; it is en–de"),
        (["multi30k", "en", "ko"], "multi30k has no en–ko; take two of en, de, fr"),
        (["multi30k", "en", "en"], "multi30k has no en–en; take two of en, de, fr"),
    ],
)
def test_a_corpus_that_does_not_exist_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_corpus(*arguments)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A small folder that the environment says holds Multi30k."""
    folder = tmp_path / "data" / "multi30k"
    folder.mkdir(parents=True)
    for name in MULTI30K_SHA256:
        (folder / f"{name}.gz").write_bytes(gzip.compress(f"{name}\nb\n".encode()))
    monkeypatch.setenv(DATA_VARIABLE, str(folder.parent))
    monkeypatch.setattr(downloads.pooch, "retrieve", no_network)
    return folder


def no_network(*_, **__):
    raise AssertionError("nothing is to be downloaded here")


@pytest.fixture
def published(fake, monkeypatch):
    """The same folder, as if its text were the published one."""
    sums = {
        name: hashlib.sha256(f"{name}\nb\n".encode()).hexdigest()
        for name in MULTI30K_SHA256
    }
    monkeypatch.setattr(corpora, "MULTI30K_SHA256", sums)
    return fake


def test_there_is_a_checksum_for_every_file_of_multi30k():
    splits = "train", "val", "test_2016_flickr"
    names = {
        f"{split}.{language}" for split in splits for language in ("en", "de", "fr")
    }
    assert set(MULTI30K_SHA256) == names
    assert {len(value) for value in MULTI30K_SHA256.values()} == {64}
    assert len(set(MULTI30K_SHA256.values())) == 9


def test_multi30k_is_read_from_the_folder_that_the_environment_names(published):
    splits = load_corpus("multi30k", "en", "de").splits
    assert set(splits) == {"train", "valid", "test_2016_flickr"}
    assert list(splits["valid"]) == [("val.en", "val.de"), ("b", "b")]


def test_multi30k_has_every_direction(published):
    pairs = load_corpus("multi30k", "fr", "en").splits["train"]
    assert next(iter(pairs)) == ("train.fr", "train.en")


def test_it_does_not_matter_how_multi30k_is_compressed(published):
    path = published / "train.en.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), 1, mtime=7))
    assert load_corpus("multi30k").splits


@pytest.mark.parametrize("name", ["train.en", "val.de", "test_2016_flickr.en"])
def test_text_that_is_not_the_published_is_named(published, name):
    (published / f"{name}.gz").write_bytes(gzip.compress(b"changed\nb\n"))
    with pytest.raises(ValueError, match=rf"{name}\.gz: not the published.*checksum"):
        load_corpus("multi30k")


def test_any_other_text_is_not_the_published(fake):
    with pytest.raises(ValueError, match=r"train\.en\.gz: not the published text"):
        load_corpus("multi30k")


def test_a_file_that_the_folder_lacks_is_named(published):
    (published / "val.de.gz").unlink()
    with pytest.raises(ValueError, match=rf"val\.de\.gz: no such .*{DATA_VARIABLE}"):
        load_corpus("multi30k")


def test_a_download_tries_every_mirror_and_then_says_so(monkeypatch):
    tried = []

    def retrieve(url, **_):
        tried.append(url)
        raise ConnectionError("no network here")

    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.setattr(downloads.pooch, "retrieve", retrieve)
    message = (
        rf"train\.en\.gz could not be downloaded .*put the corpus.*{DATA_VARIABLE}"
    )
    with pytest.raises(ValueError, match=message) as caught:
        load_corpus("multi30k")
    assert tried == [f"{mirror}train.en.gz" for mirror in MULTI30K_MIRRORS]
    assert all(mirror in str(caught.value) for mirror in MULTI30K_MIRRORS)
    assert "\n" not in str(caught.value)


def test_a_download_takes_the_next_mirror_when_one_fails(published, monkeypatch):
    asked = []

    def retrieve(url, fname, progressbar, **_):
        asked.append(url)
        assert progressbar
        if url.startswith(MULTI30K_MIRRORS[0]):
            raise ConnectionError
        return str(published / fname)

    monkeypatch.delenv(DATA_VARIABLE)
    monkeypatch.setattr(downloads.pooch, "retrieve", retrieve)
    assert next(iter(load_corpus("multi30k").splits["train"])) == (
        "train.en",
        "train.de",
    )
    assert len(asked) == 2 * 6


def test_a_download_that_is_not_the_published_text_is_refused(fake, monkeypatch):
    def retrieve(fname, **_):
        return str(fake / fname)

    monkeypatch.delenv(DATA_VARIABLE)
    monkeypatch.setattr(
        downloads.pooch, "retrieve", lambda url, **rest: retrieve(**rest)
    )
    with pytest.raises(ValueError, match=r"train\.en\.gz: not the published.*delete"):
        load_corpus("multi30k")


def test_mirrors_are_pinned_to_one_version():
    assert len(MULTI30K_MIRRORS) >= 2
    assert all(
        "a3d2e0d26b56f3846f66a952536ffed4e401d05a" in m for m in MULTI30K_MIRRORS
    )
    assert all(Path(mirror).name == "raw" for mirror in MULTI30K_MIRRORS)
