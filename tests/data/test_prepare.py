"""A prepared corpus is whole, true to the text, and blind to the held-out splits."""

import hashlib
import json
import signal
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.data import corpora, store
from transformer_lite.data import prepare as module
from transformer_lite.data.corpora import Corpus, corpus_of_files
from transformer_lite.data.pairs import Fault
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import IDS, PreparedCorpus
from transformer_lite.files import only_process
from transformer_lite.tokenizer import UNK, Tokenizer

TRAIN = [
    ("the dog sees the cat", "der Hund sieht die Katze"),
    ("a cat hears a dog", "eine Katze hört einen Hund"),
    ("  two  spaces ", "zwei  Leerzeichen"),
    ("개가 고양이를 본다", "狗看见猫"),
    ("one\u2028two", "eins\u0085zwei"),
    ("three\rfour", "drei\x0bvier"),
] * 3
VALID = [("the cat sees", "die Katze sieht"), ("zzzzz", "zzzzz"), ("zzzzz", "zzzzz")]
VOCAB_SIZE = 90


def corpus_of(train=TRAIN, valid=VALID, **splits):
    return Corpus("small", {"train": train, "valid": valid, **splits})


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "small"
    test = [("a dog", "ein Hund")] * 5
    prepare(corpus_of(test=test), folder, VOCAB_SIZE, 256, skip_unusable=False)
    return PreparedCorpus(folder)


def test_ids_decode_to_the_text_of_every_split(prepared):
    known = {"train": TRAIN, "test": [("a dog", "ein Hund")] * 5}
    for split, pairs in known.items():
        sides = prepared.ids(split)
        found = [
            tuple(prepared.tokenizer.decode(side[i].tolist()) for side in sides)
            for i in range(len(pairs))
        ]
        assert found == pairs


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_text_has_a_sentence_for_each_sequence_of_ids(prepared, split):
    text, ids = prepared.text(split), prepared.ids(split)
    assert [len(side) for side in text] == [len(side) for side in ids]


def test_text_comes_back_unchanged(prepared):
    assert list(zip(*prepared.text("train"), strict=True)) == TRAIN
    assert list(zip(*prepared.text("valid"), strict=True)) == VALID


def test_checksums_are_those_of_the_text_and_of_the_vocabulary(prepared):
    text = "".join(f"{target}\n" for _, target in TRAIN).encode()
    found = prepared.checksums()
    names = [f"{split}.{side}" for split in prepared.sizes for side in store.SIDES]
    assert list(found) == [*names, "tokenizer"]
    assert found["train.tgt"] == hashlib.sha256(text).hexdigest()
    vocabulary = (prepared.folder / "tokenizer.model").read_bytes()
    assert found["tokenizer"] == hashlib.sha256(vocabulary).hexdigest()


def test_ids_are_memory_mapped(prepared):
    source, _ = prepared.ids("train")
    assert isinstance(source[0], np.memmap)


def test_sizes_count_the_pairs(prepared):
    assert prepared.sizes == {"train": 18, "valid": 3, "test": 5}


def test_vocabulary_has_the_size_asked_for(prepared):
    assert prepared.tokenizer.vocab_size == VOCAB_SIZE


def test_a_letter_that_only_validation_has_is_unknown(prepared):
    train = "".join(line for pair in TRAIN for line in pair)
    source, _ = prepared.ids("valid")
    valid = [("the cat sees", ""), ("qqqqq", "")]
    assert "q" not in train + valid[0][0]
    assert UNK in prepared.tokenizer.encode("q")
    assert UNK not in source[0]


def pieces_of(folder, valid):
    prepare(corpus_of(valid=valid), folder, VOCAB_SIZE, 256, skip_unusable=False)
    tokenizer = PreparedCorpus(folder).tokenizer
    return tokenizer.pieces(range(VOCAB_SIZE))


def test_vocabulary_is_learned_from_the_training_split_alone(tmp_path):
    # "heardogsee" is spelled with letters of the training text, and is frequent.
    word = "heardogsee"
    pieces = pieces_of(tmp_path / "one", [(word, word)] * 500)
    assert pieces == pieces_of(tmp_path / "two", VALID)
    assert not any("ardogs" in piece for piece in pieces)


def test_the_same_word_would_get_a_piece_in_the_training_split(tmp_path):
    word = ("heardogsee", "heardogsee")
    prepare(corpus_of([*TRAIN, *[word] * 500]), tmp_path / "a", VOCAB_SIZE, 256, False)
    tokenizer = PreparedCorpus(tmp_path / "a").tokenizer
    assert len(tokenizer.encode("heardogsee")) == 1


letters = st.text("dogcatsee ", min_size=1, max_size=11).filter(str.strip)


@settings(max_examples=10, deadline=None)
@given(valid=st.lists(st.tuples(letters, letters), min_size=1, max_size=5))
def test_any_text_of_known_letters_comes_back(tmp_path_factory, valid):
    folder = tmp_path_factory.mktemp("data") / "small"
    prepare(corpus_of(valid=valid), folder, VOCAB_SIZE, 256, skip_unusable=False)
    corpus = PreparedCorpus(folder)
    assert list(zip(*corpus.text("valid"), strict=True)) == valid
    sides = corpus.ids("valid")
    for i, pair in enumerate(valid):
        decoded = [corpus.tokenizer.decode(side[i].tolist()) for side in sides]
        assert tuple(decoded) == pair


LONG = ("dog " * 40, "Hund")


def nothing_is_left(folder):
    return list(folder.iterdir()) == []


@pytest.mark.parametrize("pair", [LONG, LONG[::-1]], ids=["source", "target"])
def test_a_sentence_that_is_too_long_is_named(tmp_path, pair):
    corpus = corpus_of([*TRAIN, pair])
    message = r"train, line 19: more tokens than --max-length 30; give at least 4\d, or"
    with pytest.raises(ValueError, match=message):
        prepare(corpus, tmp_path / "out", VOCAB_SIZE, 30, skip_unusable=False)
    assert nothing_is_left(tmp_path)


def test_long_training_pairs_are_left_out_on_demand(tmp_path):
    corpus = corpus_of([LONG, *TRAIN])
    prepare(corpus, tmp_path / "out", VOCAB_SIZE, 30, skip_unusable=True)
    found = PreparedCorpus(tmp_path / "out")
    assert found.sizes["train"] == 18
    assert list(zip(*found.text("train"), strict=True)) == TRAIN


def test_long_pairs_are_never_left_out_of_held_out_splits(tmp_path):
    corpus = corpus_of(valid=[*VALID, LONG])
    with pytest.raises(ValueError, match=r"valid, line 4: more tokens") as caught:
        prepare(corpus, tmp_path / "out", VOCAB_SIZE, 30, skip_unusable=True)
    assert "--skip-unusable" not in str(caught.value)
    assert nothing_is_left(tmp_path)


def test_a_split_of_long_pairs_alone_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"train: no pair can be used \(18 more"):
        prepare(corpus_of(), tmp_path / "out", VOCAB_SIZE, 2, skip_unusable=True)
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize("split", ["train", "valid"])
def test_an_error_of_the_text_is_passed_on_as_it_is(tmp_path, split):
    class Faulty:
        def __iter__(self):
            yield from TRAIN
            raise ValueError("corpus.de, line 19: not UTF-8")

    corpus = corpus_of(**{split: Faulty()})
    with pytest.raises(ValueError, match=r"^corpus\.de, line 19: not UTF-8$"):
        prepare(corpus, tmp_path / "out", VOCAB_SIZE, 256, skip_unusable=False)
    assert nothing_is_left(tmp_path)


def test_an_existing_folder_is_left_alone(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("keep")
    with pytest.raises(ValueError, match=r"out: already there; .*--out"):
        prepare(corpus_of(), tmp_path / "out", VOCAB_SIZE, 256, skip_unusable=False)
    assert (tmp_path / "out" / "mine").read_text() == "keep"


@pytest.fixture
def faulty(tmp_path):
    """Training files of good, faulty and long pairs, and clean validation files."""
    good = [line for line, _ in TRAIN]
    lines = [*good[:3], "", *good, " ", LONG[0], "", *good]
    for name, side in (("train", lines), ("valid", [*good[:5], ""])):
        (tmp_path / name).write_bytes("".join(f"{x}\n" for x in side).encode())
    (tmp_path / "clean").write_text("the dog\n", encoding="utf-8")

    def corpus(**paths):
        paths = {"train": "train", "valid": "clean"} | paths
        return corpus_of_files(
            **{split: (tmp_path / name,) * 2 for split, name in paths.items()}
        )

    return corpus


def test_unusable_training_pairs_are_left_out_and_counted(
    faulty, tmp_path, small_chunks
):
    assert prepare(faulty(), tmp_path / "out", VOCAB_SIZE, 30, skip_unusable=True)
    found = PreparedCorpus(tmp_path / "out")
    assert found.sizes["train"] == 3 + 18 + 18
    assert found.left_out == {"empty": 3, "more tokens than --max-length 30": 1}
    assert "" not in found.text("train")[0]


def test_all_faults_of_a_split_are_named_at_once(faulty, tmp_path):
    train, out = tmp_path / "train", tmp_path / "out"
    message = (
        rf"{train}, line 4: empty; remove this pair, or --skip-unusable "
        rf"\(and 2 more such pairs: {train}, line 23; {train}, line 25\)"
    )
    with pytest.raises(ValueError, match=message):
        prepare(faulty(), out, VOCAB_SIZE, 30, skip_unusable=False)


@pytest.mark.parametrize("skip", [True, False])
def test_faults_of_a_held_out_split_are_never_skipped(faulty, tmp_path, skip):
    corpus = faulty(train="clean", valid="train")
    message = r"train, line 4: empty; remove this pair \(and 2 more such pairs"
    with pytest.raises(ValueError, match=message):
        prepare(corpus, tmp_path / "out", 14, 30, skip_unusable=skip)


def test_the_same_preparation_need_not_be_repeated(faulty, tmp_path, monkeypatch):
    command = (faulty(), tmp_path / "out", VOCAB_SIZE, 30, True)
    assert prepare(*command)
    before = contents(tmp_path / "out")
    monkeypatch.setattr(Tokenizer, "train", None)
    assert not prepare(*command)
    assert contents(tmp_path / "out") == before
    assert not list(tmp_path.glob("out.*"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 91}, "prepared with vocab_size = 90, now it is 91; delete"),
        ({"max_length": 29}, "prepared with max_length = 30, now it is 29; delete"),
        ({"text": "new"}, "another corpus, or its text has changed since; delete"),
    ],
)
def test_another_preparation_is_not_taken_for_the_same(
    faulty, tmp_path, change, message
):
    options = {"vocab_size": VOCAB_SIZE, "max_length": 30, "skip_unusable": True}
    prepare(faulty(), tmp_path / "out", **options)
    if change.pop("text", None):
        (tmp_path / "clean").write_text("a dog\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        prepare(faulty(), tmp_path / "out", **options | change)


def test_a_full_disk_is_named_with_its_folder(faulty, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "append_pairs", full)
    message = rf"{tmp_path / 'out'}\.partial: cannot be finished \(No space.*resumes"
    with pytest.raises(OSError, match=message):
        prepare(faulty(), tmp_path / "out", VOCAB_SIZE, 30, True)
    monkeypatch.undo()
    assert prepare(faulty(), tmp_path / "out", VOCAB_SIZE, 30, True)


def test_a_disk_that_fails_for_a_while_costs_no_work(
    tmp_path, small_chunks, monkeypatch
):
    path = tmp_path / "pairs.txt"
    text = "".join(f"{source}\t{target}\n" for source, target in TRAIN[:2] * 9)
    path.write_text(text, encoding="utf-8")
    corpus = corpus_of_files((path,), (path,))
    readings, lines_of = iter([False, True]), corpora.lines_of

    def failing(path):
        fails = next(readings)
        for number, line in enumerate(lines_of(path)):
            if fails and number == CHUNK + 2:
                raise OSError(5, "Input/output error")
            yield line

    monkeypatch.setattr(corpora, "lines_of", failing)
    with pytest.raises(OSError, match=r"out\.partial: cannot be finished \(Input/"):
        prepare(corpus, tmp_path / "out", VOCAB_SIZE // 2, 256, False)
    assert (tmp_path / "out.partial").exists()
    monkeypatch.undo()
    assert prepare(corpus, tmp_path / "out", VOCAB_SIZE // 2, 256, False)


def test_what_an_earlier_attempt_left_is_no_hindrance(tmp_path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "half").write_text("half")
    prepare(corpus_of(), tmp_path / "out", VOCAB_SIZE, 256, skip_unusable=False)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not (tmp_path / "out" / "half").exists()


def test_a_vocabulary_that_does_not_fit_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match=r"vocab_size = 5000 .* at most"):
        prepare(corpus_of(), tmp_path / "out", 5000, 256, skip_unusable=False)
    assert nothing_is_left(tmp_path)


def test_a_folder_that_is_not_prepared_is_named(tmp_path):
    with pytest.raises(ValueError, match=rf"{tmp_path}: not a prepared .*`prepare`"):
        PreparedCorpus(tmp_path)


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", '{"pairs": 3}'])
def test_a_damaged_summary_is_named(tmp_path, content):
    (tmp_path / "corpus.json").write_text(content)
    with pytest.raises(ValueError, match=rf"{tmp_path}: not a prepared .*`prepare`"):
        PreparedCorpus(tmp_path)


def test_a_split_that_does_not_exist_is_named_with_those_that_do(prepared):
    for read in (prepared.ids, prepared.text):
        with pytest.raises(ValueError, match=r'no split "tset"; .*train, valid, test'):
            read("tset")


@pytest.mark.parametrize(
    "name", ["valid.src.txt", "valid.tgt.txt", "valid.src.ids", "tokenizer.model"]
)
def test_a_missing_file_is_named_with_a_remedy(tmp_path, name):
    prepare(corpus_of(), tmp_path / "out", VOCAB_SIZE, 256, skip_unusable=False)
    (tmp_path / "out" / name).unlink()
    with pytest.raises(ValueError, match=rf"{name}.*`prepare`"):
        read_all(tmp_path / "out")


@pytest.mark.parametrize("name", ["valid.tgt.txt", "tokenizer.model"])
def test_a_file_that_no_checksum_can_be_had_of_is_named(tmp_path, name):
    prepare(corpus_of(), tmp_path / "out", VOCAB_SIZE, 256, skip_unusable=False)
    corpus = PreparedCorpus(tmp_path / "out")
    (tmp_path / "out" / name).unlink()
    with pytest.raises(ValueError, match=rf"{name}.*`prepare`"):
        corpus.checksums()


def read_all(folder):
    corpus = PreparedCorpus(folder)
    corpus.ids("valid")
    corpus.text("valid")


def test_the_summary_names_the_corpus(prepared):
    summary = json.loads((prepared.folder / "corpus.json").read_text(encoding="utf-8"))
    assert summary["corpus"] == "small"
    assert summary["vocab_size"] == VOCAB_SIZE


def test_the_languages_are_kept(tmp_path):
    corpus = replace(corpus_of(), languages=("en", "ko"))
    prepare(corpus, tmp_path / "out", VOCAB_SIZE, 256, skip_unusable=False)
    assert PreparedCorpus(tmp_path / "out").languages == ("en", "ko")


def test_a_folder_without_languages_can_still_be_read(tmp_path):
    prepare(corpus_of(), tmp_path / "out", VOCAB_SIZE, 256, skip_unusable=False)
    summary = json.loads((tmp_path / "out" / "corpus.json").read_text())
    del summary["languages"]
    (tmp_path / "out" / "corpus.json").write_text(json.dumps(summary))
    assert PreparedCorpus(tmp_path / "out").languages == ("", "")


# A large corpus, and an interruption

CHUNK = 5
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(module, "CHUNK_PAIRS", CHUNK)


class Line(str):
    """A sentence that can be watched."""

    __slots__ = ("__weakref__",)


def test_no_more_is_in_memory_than_the_sample_and_then_two_chunks(
    tmp_path, small_chunks
):
    alive, most = weakref.WeakSet(), []

    class Watched:
        def __iter__(self):
            most.append(0)
            for number, pair in enumerate(TRAIN * 7):
                lines = tuple(Line(f"{text} {number}") for text in pair)
                alive.update(lines)
                most[-1] = max(most[-1], len(alive))
                yield lines

    sample = 101
    prepare(corpus_of(Watched()), tmp_path / "out", VOCAB_SIZE, 256, False, sample)
    for_vocabulary, for_ids = most
    assert len(TRAIN * 7) > max(sample, 10 * CHUNK)
    assert sample <= for_vocabulary <= sample + 4
    assert CHUNK <= for_ids <= 4 * CHUNK + 4


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def prepare_known(pairs, out, vocab_size=VOCAB_SIZE, origin="known"):
    splits = {"train": pairs, "valid": VALID}
    prepare(Corpus("small", splits, origin), out, vocab_size, 30, skip_unusable=True)


class Interrupted:
    """The training pairs; the n-th reading of one is interrupted."""

    def __init__(self, reads):
        self.reads = reads

    def __iter__(self):
        for pair in [LONG, *TRAIN]:
            self.reads -= 1
            if self.reads < 0:
                raise KeyboardInterrupt
            yield pair


@pytest.mark.parametrize("reads", [0, 7, 19, 21, 26, 33, 37])
def test_an_interrupted_preparation_ends_like_another(tmp_path, small_chunks, reads):
    prepare_known([LONG, *TRAIN], tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        prepare_known(Interrupted(reads), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    prepare_known([LONG, *TRAIN], tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert {path.name for path in tmp_path.iterdir()} == {"out", "whole"}


def test_what_is_done_is_not_done_again(tmp_path, small_chunks, monkeypatch):
    encoded = []
    encode_all = Tokenizer.encode_all
    with pytest.raises(KeyboardInterrupt):
        prepare_known(Interrupted(19 + 11), tmp_path / "out")

    def watched(self, texts):
        encoded.extend(texts)
        return encode_all(self, texts)

    monkeypatch.setattr(Tokenizer, "encode_all", watched)
    monkeypatch.setattr(Tokenizer, "train", None)
    prepare_known([LONG, *TRAIN], tmp_path / "out")
    assert len(encoded) == 2 * (19 - 10 + len(VALID))


@pytest.mark.parametrize(
    "change", [{"vocab_size": 80}, {"origin": "other"}, {"origin": ""}]
)
def test_another_request_begins_anew(tmp_path, small_chunks, change):
    with pytest.raises(KeyboardInterrupt):
        prepare_known(Interrupted(19 + 11), tmp_path / "out")
    other = [("a cat", "eine Katze"), *TRAIN]
    prepare_known(other, tmp_path / "out", **change)
    prepare_known(other, tmp_path / "whole", **change)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


KILLED = """
import os, signal, sys
from pathlib import Path
from transformer_lite.data import prepare as module
from transformer_lite.data import store
from transformer_lite.data.corpora import Corpus

class Killed(list):
    reads = 0
    def __iter__(self):
        for pair in list.__iter__(self):
            Killed.reads += 1
            if Killed.reads == 30:
                os.kill(os.getpid(), signal.SIGKILL)
            yield pair

module.CHUNK_PAIRS = 5
train, valid = eval(sys.stdin.read())
corpus = Corpus("small", {"train": Killed(train), "valid": valid}, "known")
module.prepare(corpus, Path(sys.argv[1]), 90, 30, skip_unusable=True)
"""


def test_a_killed_preparation_ends_like_another(tmp_path, small_chunks, monkeypatch):
    prepare_known(TRAIN, tmp_path / "whole")
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "out"],
        input=repr((TRAIN, VALID)).encode(),
        env={"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    monkeypatch.setattr(Tokenizer, "train", None)
    prepare_known(TRAIN, tmp_path / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_two_preparations_of_one_folder_are_refused(tmp_path):
    lock = tmp_path / "out.lock"
    with only_process(lock, ""), pytest.raises(ValueError, match="another process"):
        prepare_known(TRAIN, tmp_path / "out")
    assert nothing_is_left(tmp_path)


@pytest.mark.parametrize("id_", [VOCAB_SIZE, 2**31 - 1, -1, 0, UNK - 1])
@pytest.mark.parametrize("side", ["src", "tgt"])
def test_ids_that_no_text_has_are_refused(tmp_path, id_, side):
    prepare(corpus_of(), tmp_path / "out", VOCAB_SIZE, 256, skip_unusable=False)
    path = tmp_path / "out" / f"train.{side}.ids"
    ids = np.fromfile(path, IDS)
    ids[7] = id_
    ids.tofile(path)
    with pytest.raises(ValueError, match=rf"train\.{side}\.ids: damaged .*{id_}"):
        PreparedCorpus(tmp_path / "out").ids("train")


@pytest.mark.parametrize("block", [1, 5, 7, 10_000])
def test_ids_are_checked_to_the_end_whatever_a_block_holds(
    tmp_path, monkeypatch, block
):
    monkeypatch.setattr(store, "BLOCK_IDS", block)
    prepare(corpus_of(), tmp_path / "out", VOCAB_SIZE, 256, skip_unusable=False)
    assert len(PreparedCorpus(tmp_path / "out").ids("train")[0]) == len(TRAIN)
    path = tmp_path / "out" / "train.src.ids"
    ids = np.fromfile(path, IDS)
    ids[0], ids[-1] = -3, 997
    ids.tofile(path)
    with pytest.raises(ValueError, match="has ids from -3 to 997, but"):
        PreparedCorpus(tmp_path / "out").ids("train")


def test_a_vocabulary_that_fails_names_what_was_left_out(tmp_path):
    train = [("a", "b"), *[Fault("empty", f"line {n}", "remove it") for n in range(7)]]
    with pytest.raises(ValueError, match=r"\(left out: 7 empty\)"):
        prepare(corpus_of(train), tmp_path / "out", 5000, 30, skip_unusable=True)
    assert nothing_is_left(tmp_path)
