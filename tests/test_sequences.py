"""A ragged array is the same in memory and on disk."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.sequences import Sequences, append_sequences

LISTS = [[5, 7, 11], [], [13], [17, 19, 23, 29, 31]]
ids = st.integers(0, 99_999)


def as_lists(sequences):
    return [sequences[i].tolist() for i in range(len(sequences))]


@settings(max_examples=40, deadline=None)
@given(lists=st.lists(st.lists(ids, max_size=7), max_size=11))
def test_sequences_are_what_they_were_made_of(lists):
    assert as_lists(Sequences.from_lists(lists)) == lists


@settings(max_examples=20, deadline=None)
@given(lists=st.lists(st.lists(ids, max_size=5), max_size=7).filter(any))
def test_sequences_come_back_from_disk(tmp_path_factory, lists):
    stem = tmp_path_factory.mktemp("sequences") / "train.src"
    Sequences.from_lists(lists).save(stem)
    assert as_lists(Sequences.load(stem)) == lists


def test_lengths_count_the_ids():
    assert Sequences.from_lists(LISTS).lengths.tolist() == [3, 0, 1, 5]


def test_a_generator_is_accepted():
    assert as_lists(Sequences.from_lists(ids for ids in LISTS)) == LISTS


def test_loaded_ids_are_memory_mapped(tmp_path):
    Sequences.from_lists(LISTS).save(tmp_path / "train.src")
    row = Sequences.load(tmp_path / "train.src")[3]
    assert isinstance(row, np.memmap)
    assert not row.flags.writeable


def test_ids_take_four_bytes_each_on_disk(tmp_path):
    Sequences.from_lists([[7] * 5000]).save(tmp_path / "train.src")
    assert (tmp_path / "train.src.ids.npy").stat().st_size < 4 * 5000 + 300


def test_missing_files_are_named_with_a_remedy(tmp_path):
    with pytest.raises(ValueError, match=r"train\.src.*run `prepare` again"):
        Sequences.load(tmp_path / "train.src")


@pytest.mark.parametrize("file", ["train.src.ids.npy", "train.src.offsets.npy"])
def test_a_file_cut_short_anywhere_is_named_with_a_remedy(tmp_path, file):
    Sequences.from_lists(LISTS).save(tmp_path / "train.src")
    whole = (tmp_path / file).read_bytes()
    for length in range(0, len(whole), 3):
        (tmp_path / file).write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"train\.src.*run `prepare` again"):
            Sequences.load(tmp_path / "train.src")


def test_ids_and_offsets_of_different_sets_are_refused(tmp_path):
    Sequences.from_lists(LISTS).save(tmp_path / "train.src")
    np.save(tmp_path / "train.src.offsets.npy", np.array([0, 3, 4]))
    with pytest.raises(ValueError, match=r"train\.src.*run `prepare` again"):
        Sequences.load(tmp_path / "train.src")


def written(stem, chunks, length=0, num_ids=0):
    for chunk in chunks:
        num_ids = append_sequences(stem, length, num_ids, chunk)
        length += len(chunk)
    return num_ids


@settings(max_examples=20, deadline=None)
@given(
    chunks=st.lists(
        st.lists(st.lists(ids, min_size=1, max_size=5), max_size=5), min_size=1
    ).filter(any)
)
def test_sequences_can_be_written_piece_by_piece(tmp_path_factory, chunks):
    stem = tmp_path_factory.mktemp("sequences") / "train.src"
    written(stem, chunks)
    assert as_lists(Sequences.load(stem)) == [row for chunk in chunks for row in chunk]


def test_a_writer_goes_on_after_the_sequences_that_stay(tmp_path):
    num_ids = written(tmp_path / "a", [LISTS[:1]])
    written(tmp_path / "a", [[[97] * 19]], 1, num_ids)
    written(tmp_path / "a", [LISTS[1:3], LISTS[3:]], 1, num_ids)
    assert as_lists(Sequences.load(tmp_path / "a")) == LISTS


def test_extremes_are_the_least_and_the_greatest_id():
    assert Sequences.from_lists(LISTS).extremes == (5, 31)
