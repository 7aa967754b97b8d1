"""A ragged array is the same in memory and on disk."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.batching import Sequences
from transformer_lite.data.journal import Progress, append_pairs
from transformer_lite.data.store import load_sequences

LISTS = [[5, 7, 11], [], [13], [17, 19, 23, 29, 31]]
ids = st.integers(0, 99_999)


def as_lists(sequences):
    return [sequences[i].tolist() for i in range(len(sequences))]


@settings(max_examples=40, deadline=None)
@given(lists=st.lists(st.lists(ids, max_size=7), max_size=11))
def test_sequences_are_what_they_were_made_of(lists):
    assert as_lists(Sequences.from_lists(lists)) == lists


def write(folder, lists, done=Progress()):  # noqa: B008, a tuple
    """Write the lists as both sides of a split named train."""
    text = ["" for _ in lists]
    return append_pairs(folder, "train", done, [lists, lists], [text, text], len(lists))


def load(folder):
    return load_sequences(folder, "train", "src")


@settings(max_examples=20, deadline=None)
@given(lists=st.lists(st.lists(ids, max_size=5), max_size=7).filter(any))
def test_sequences_come_back_from_disk(tmp_path_factory, lists):
    folder = tmp_path_factory.mktemp("sequences")
    write(folder, lists)
    assert as_lists(load(folder)) == lists


def test_lengths_count_the_ids():
    assert Sequences.from_lists(LISTS).lengths.tolist() == [3, 0, 1, 5]


def test_a_generator_is_accepted():
    assert as_lists(Sequences.from_lists(ids for ids in LISTS)) == LISTS


def test_loaded_ids_are_memory_mapped(tmp_path):
    write(tmp_path, LISTS)
    row = load(tmp_path)[3]
    assert isinstance(row, np.memmap)
    assert not row.flags.writeable


def test_ids_take_four_bytes_each_on_disk(tmp_path):
    write(tmp_path, [[7] * 5003])
    assert (tmp_path / "train.src.ids").stat().st_size == 4 * 5003


def test_missing_files_are_named_with_a_remedy(tmp_path):
    with pytest.raises(ValueError, match=r"train\.src\.ids: .*run `prepare` again"):
        load(tmp_path)


@pytest.mark.parametrize("file", ["train.src.ids", "train.src.offsets"])
def test_a_file_cut_short_anywhere_is_named_with_a_remedy(tmp_path, file):
    write(tmp_path, LISTS)
    whole = (tmp_path / file).read_bytes()
    for length in range(len(whole) - 1):
        # What is left of a number at the end of a file of offsets is not read.
        (tmp_path / file).write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"train\.src\.ids: .*run `prepare` again"):
            load(tmp_path)


def test_ids_and_offsets_of_different_sets_are_refused(tmp_path):
    write(tmp_path, LISTS)
    np.array([0, 3, 4]).tofile(tmp_path / "train.src.offsets")
    with pytest.raises(ValueError, match=r"train\.src\.ids: .*run `prepare` again"):
        load(tmp_path)


@settings(max_examples=20, deadline=None)
@given(
    chunks=st.lists(
        st.lists(st.lists(ids, min_size=1, max_size=5), max_size=5), min_size=1
    ).filter(any)
)
def test_sequences_can_be_written_piece_by_piece(tmp_path_factory, chunks):
    folder, done = tmp_path_factory.mktemp("sequences"), Progress()
    for chunk in chunks:
        done = write(folder, chunk, done)
    assert as_lists(load(folder)) == [row for chunk in chunks for row in chunk]


def test_what_was_written_after_the_pairs_that_count_is_cut_off(tmp_path):
    done = write(tmp_path, LISTS[:1])
    write(tmp_path, [[97] * 19], done)
    done = write(tmp_path, LISTS[1:3], done)
    write(tmp_path, LISTS[3:], done)
    assert as_lists(load(tmp_path)) == LISTS
