"""What `prepare` wrote is read back as it was, or refused if it has changed."""

import json
from itertools import product

import numpy as np
import pytest

from transformer_lite.data.corpora import Corpus, SentencePair
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import SIDES, PreparedCorpus

FILES = map(".".join, product(("train", "valid"), SIDES, ("ids", "offsets", "txt")))


@pytest.fixture
def folder(tmp_path):
    pairs = [SentencePair("the dog", "der Hund"), SentencePair("a cat", "eine Katze")]
    corpus = Corpus("small", {"train": pairs * 5, "valid": pairs}, ("en", "de"))
    prepare(corpus, tmp_path / "out", 30, 20, skip_unusable=False)
    return tmp_path / "out"


def test_ids_are_memory_mapped_four_bytes_each(folder):
    source, _ = PreparedCorpus(folder).ids("train")
    assert isinstance(source[0], np.memmap)
    assert not source[0].flags.writeable
    assert (folder / "train.src.ids").stat().st_size == 4 * source.lengths.sum()


def flipped(content):
    half = len(content) // 2
    return content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]


def read(folder, split, kind):
    corpus = PreparedCorpus(folder)
    return corpus.text(split) if kind == "txt" else corpus.ids(split)


@pytest.mark.parametrize("change", [flipped, lambda content: content[:-1], None])
@pytest.mark.parametrize("name", [*FILES, "tokenizer.model"])
def test_a_file_that_is_not_as_it_was_written_is_named(folder, name, change):
    path, kind = folder / name, name.rpartition(".")[2]
    content = path.read_bytes()
    path.unlink()
    if change:
        path.write_bytes(change(content))
    split = name.partition(".")[0] if kind != "model" else "train"
    with pytest.raises(ValueError, match=rf"/{name}: .*`prepare`"):
        read(folder, split, kind)
    if kind != "model":
        read(folder, *({"train", "valid"} - {split}), kind)  # is not concerned


@pytest.mark.parametrize("content", [None, "", "{", "{}", "[]", "[" * 200_000])
def test_a_folder_that_is_no_prepared_corpus_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "corpus.json").write_text(content)
    with pytest.raises(ValueError, match=rf"{tmp_path}: not a prepared .*`prepare`"):
        PreparedCorpus(tmp_path)


def test_the_folder_of_a_run_is_not_taken_for_a_corpus(tmp_path):
    (tmp_path / "config.json").touch()
    with pytest.raises(ValueError, match=r": a run; with --data name the folder that"):
        PreparedCorpus(tmp_path)


@pytest.mark.parametrize("kind", ["ids", "offsets", "txt"])
def test_what_the_system_refuses_to_read_is_not_called_damaged(folder, kind):
    path = folder / f"valid.src.{kind}"
    path.unlink()
    path.mkdir()
    with pytest.raises(OSError, match=rf"Is a directory: .*src\.{kind}"):
        read(folder, "valid", kind)


@pytest.mark.parametrize(
    "change",
    [
        {"corpus": None},
        {"languages": [None, None]},
        {"languages": [["a"], {}]},
        {"languages": "ab"},
        {"pairs": {"train": "x"}},
        {"pairs": {}},
        {"left_out": []},
        {"fingerprint": 7},
        {"sha256": {}},
        {"sha256": None},
    ],
)
def test_data_with_another_record_is_to_be_prepared_again(folder, change):
    path = folder / "corpus.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=r"by an earlier version; run `prepare`"):
        PreparedCorpus(folder)
