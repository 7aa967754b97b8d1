"""What `prepare` wrote is read back as it was, or refused if it is damaged."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.data.corpora import Corpus, SentencePair
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import PreparedCorpus, load_sequences, side_writer

ids = st.integers(0, 99_999)
AGAIN = "run `prepare` again"


def loaded(folder, rows):
    """The rows of ids, written as a side of a split and read back."""
    with side_writer(folder, "train", "src") as write:
        for row in rows:
            write("", row)
    return load_sequences(folder, "train", "src")


@settings(max_examples=20, deadline=None)
@given(rows=st.lists(st.lists(ids, max_size=5), max_size=7).filter(any))
def test_ids_come_back_from_disk(tmp_path_factory, rows):
    sequences = loaded(tmp_path_factory.mktemp("sequences"), rows)
    assert [sequences[i].tolist() for i in range(len(sequences))] == rows


def test_ids_are_memory_mapped_four_bytes_each(tmp_path):
    row = loaded(tmp_path, [[7] * 5003])[0]
    assert isinstance(row, np.memmap)
    assert not row.flags.writeable
    assert (tmp_path / "train.src.ids").stat().st_size == 4 * 5003


@pytest.mark.parametrize("file", ["train.src.ids", "train.src.offsets"])
def test_a_file_cut_short_anywhere_is_refused(tmp_path, file):
    loaded(tmp_path, [[5, 7, 11], [], [13], [17, 19, 23, 29, 31]])
    whole = (tmp_path / file).read_bytes()
    for length in range(len(whole) - 1):
        # What is left of a number at the end of a file of offsets is not read.
        (tmp_path / file).write_bytes(whole[:length])
        with pytest.raises(ValueError, match=rf"train\.src\.ids: .*{AGAIN}"):
            load_sequences(tmp_path, "train", "src")


@pytest.fixture
def folder(tmp_path):
    pairs = [SentencePair("the dog", "der Hund"), SentencePair("a cat", "eine Katze")]
    corpus = Corpus("small", {"train": pairs * 5, "valid": pairs}, ("en", "de"))
    prepare(corpus, tmp_path / "out", 30, 20, skip_unusable=False)
    return tmp_path / "out"


def read_all(folder):
    corpus = PreparedCorpus(folder)
    corpus.ids("valid")
    corpus.text("valid")


@pytest.mark.parametrize(
    "name", ["valid.src.txt", "valid.tgt.txt", "valid.src.ids", "tokenizer.model"]
)
def test_a_missing_file_is_named_with_a_remedy(folder, name):
    (folder / name).unlink()
    with pytest.raises(ValueError, match=rf"{name}.*`prepare`"):
        read_all(folder)


@pytest.mark.parametrize("parts", [["ids", "offsets"], ["txt"]])
def test_files_of_another_split_are_refused(folder, parts):
    for part in parts:
        (folder / f"train.tgt.{part}").replace(folder / f"valid.tgt.{part}")
    with pytest.raises(ValueError, match=rf"has 10 \w+ and not 2\); .*{AGAIN}"):
        read_all(folder)


@pytest.mark.parametrize("content", [None, "", "{", "{}", "[]", '{"pairs": 3}'])
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
    corpus = PreparedCorpus(folder)
    read = corpus.text if kind == "txt" else corpus.ids
    with pytest.raises(OSError, match=rf"src\.{kind}: cannot be read \(Is a dir"):
        read("valid")


@pytest.mark.parametrize("split", ["train", "valid"])
@pytest.mark.parametrize("number", [-1, 30])
def test_an_id_outside_the_vocabulary_is_refused(folder, split, number):
    path = folder / f"{split}.tgt.ids"
    np.concatenate([[number], np.fromfile(path, "<i4")[1:]]).astype("<i4").tofile(path)
    message = rf"{split}\.tgt\.ids: damaged .* vocabulary from 0 to 29\); .*{AGAIN}"
    with pytest.raises(ValueError, match=message):
        PreparedCorpus(folder).require_intact()


@pytest.mark.parametrize("kind", ["ids", "offsets"])
def test_training_data_other_than_prepare_wrote_is_refused(folder, kind):
    PreparedCorpus(folder).require_intact()
    path = folder / f"train.src.{kind}"
    content = np.fromfile(path, "<i4" if kind == "ids" else "<i8")
    content[1] -= 1
    content.tofile(path)
    message = rf"out: damaged \(the training data's checksum .*{AGAIN}"
    with pytest.raises(ValueError, match=message):
        PreparedCorpus(folder).require_intact()
