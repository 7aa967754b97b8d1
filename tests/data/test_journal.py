"""What is written down is there after an interruption, and nothing else is."""

import json

import pytest

from transformer_lite.data.journal import Journal, Progress, append_pairs
from transformer_lite.data.store import load_sequences

REQUEST = {"corpus": "small", "vocab_size": 90}


def begun(folder):
    """A journal with some progress."""
    journal = Journal(folder, REQUEST)
    (folder / "tokenizer.model").write_bytes(b"model")
    journal.begin()
    journal["train"] = Progress(7, 5, (11, 13), (17, 19), False, [("empty", 23)])
    return journal


def test_the_same_request_is_resumed(tmp_path):
    begun(tmp_path / "a")
    journal = Journal(tmp_path / "a", dict(REQUEST))
    assert journal.begun
    assert journal["train"] == (7, 5, [11, 13], [17, 19], False, [["empty", 23]])
    assert journal["valid"] == Progress()
    assert (tmp_path / "a" / "tokenizer.model").exists()


@pytest.mark.parametrize("request_", [{**REQUEST, "vocab_size": 91}, {}, None])
def test_another_request_begins_anew(tmp_path, request_):
    begun(tmp_path / "a")
    journal = Journal(tmp_path / "a", request_)
    assert not journal.begun
    assert journal["train"] == Progress()
    assert list((tmp_path / "a").iterdir()) == []


def test_what_nobody_knows_the_origin_of_begins_anew(tmp_path):
    Journal(tmp_path / "a", None).begin()
    assert not Journal(tmp_path / "a", None).begun


def test_before_the_tokenizer_there_is_nothing_to_resume(tmp_path):
    Journal(tmp_path / "a", REQUEST)
    (tmp_path / "a" / "tokenizer.model").write_bytes(b"half")
    assert not Journal(tmp_path / "a", REQUEST).begun
    assert list((tmp_path / "a").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b"3"])
def test_a_damaged_journal_begins_anew(tmp_path, content):
    begun(tmp_path / "a")
    (tmp_path / "a" / "journal.json").write_bytes(content)
    assert not Journal(tmp_path / "a", REQUEST).begun


def test_a_damaged_entry_begins_anew(tmp_path):
    begun(tmp_path / "a")
    damaged = {"request": REQUEST, "splits": {"train": 3}}
    (tmp_path / "a" / "journal.json").write_text(json.dumps(damaged))
    assert not Journal(tmp_path / "a", REQUEST).begun


IDS = [[5, 7, 11], [13]], [[17], [19, 23]]
TEXT = ["one two", "three"], ["eins", "zwölf drei"]


NOTHING = Progress()


def write(folder, done=NOTHING):
    return append_pairs(folder, "train", done, IDS, TEXT, num_read=3)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_split_is_what_was_appended(tmp_path):
    assert write(tmp_path) == (3, 2, [4, 3], [14, 17], False, ())
    text = (tmp_path / "train.tgt.txt").read_bytes().decode()
    assert text == "eins\nzwölf drei\n"
    ids = load_sequences(tmp_path, "train", "src")
    assert [ids[i].tolist() for i in range(len(ids))] == IDS[0]


def test_what_was_not_written_down_is_cut_off(tmp_path):
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
    done = write(tmp_path / "whole")
    write(tmp_path / "whole", done)

    write(tmp_path / "broken")
    write(tmp_path / "broken", done)  # and the journal does not know of it
    write(tmp_path / "broken", done)
    assert contents(tmp_path / "broken") == contents(tmp_path / "whole")


@pytest.mark.parametrize("name", ["src.ids", "tgt.offsets", "src.txt"])
def test_files_that_lost_their_end_are_refused(tmp_path, name):
    done = write(tmp_path)
    path = tmp_path / f"train.{name}"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=rf"train\.{name}: has lost its end; delete"):
        write(tmp_path, done)


def test_a_file_that_is_gone_is_refused(tmp_path):
    done = write(tmp_path)
    (tmp_path / "train.tgt.txt").unlink()
    with pytest.raises(ValueError, match=r"train\.tgt\.txt: has lost its end; delete"):
        write(tmp_path, done)
