"""From a treebank to bracket F1 with the command line (Section 6.3)."""

import json
import re
from random import Random

import pytest
from command_line import fails, recipe_in, run, write

from transformer_lite.data.store import PreparedCorpus
from transformer_lite.parsing.brackets import score_brackets
from transformer_lite.parsing.trees import read_trees

OPTIONS = """--model.max-len 128 --train.warmup-steps 60 --train.rate-scale 0.6
--train.average-checkpoints 1 --search.beam-size 1 --search.max-extra 60"""
pytestmark = pytest.mark.usefixtures("types_unchecked")


def trees(count, seed):
    """Short sentences whose words say what their trees are."""
    random = Random(seed)

    def noun_phrase(function):
        noun = random.choice(["dog", "cat", "bird"])
        if random.random() < 0.5:
            return f"(NP-{function} (NNS {noun}s))"
        return f"(NP-{function} (DT {random.choice(['the', 'a'])}) (NN {noun}))"

    for _ in range(count):
        verb = random.choice(["(VB sleep)", f"(VB see) {noun_phrase('OBJ')}"])
        yield f"( (S {noun_phrase('SBJ')} (VP {verb}) (. .)))"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Options that name a treebank of one's own."""
    folder = tmp_path_factory.mktemp("trees")
    options = []
    sizes = {"train": 150, "valid": 9, "test": 20}
    for seed, (split, count) in enumerate(sizes.items()):
        path = write(folder / f"{split}.mrg", trees(count, seed))
        options += [f"--{split}", path]
    return options


def prepare(files, out, *options):
    run("prepare-trees", *files, "--vocab-size", 60, "--out", out, *options)
    return out


def train(folder, data, steps):
    recipe = recipe_in(folder, data, steps)
    run("train", recipe, "--out", folder / "run", *OPTIONS.split())
    return folder / "run"


@pytest.fixture(scope="module", params=["tags", "words"])
def trained(request, files, tmp_path_factory):
    """A run that has learned to parse."""
    folder = tmp_path_factory.mktemp(request.param)
    data = prepare(files, folder / "data", "--leaves", request.param)
    return train(folder, data, 300)


@pytest.fixture(scope="module")
def begun(files, tmp_path_factory):
    """A run of one step, whose free outputs are no trees."""
    folder = tmp_path_factory.mktemp("begun")
    return train(folder, prepare(files, folder / "data"), 1)


def test_a_trained_parser_brackets_unseen_sentences(trained, tmp_path, capsys):
    written = ["--json", tmp_path / "scores.json", "--translations", tmp_path / "out"]
    run("evaluate", trained, *written)
    scores = json.loads((tmp_path / "scores.json").read_text())
    shown = capsys.readouterr().out
    table = dict(line.split(maxsplit=1) for line in shown.splitlines())
    assert table.keys() == scores.keys()
    assert scores["f1_all"] >= 80
    assert scores["well_formed"] >= 80
    assert scores["sentences"] == 20
    assert "bleu" not in scores
    assert float(table["f1"]) == pytest.approx(scores["f1"], abs=0.005)
    # What is written suffices to compute the same again.
    outputs = (tmp_path / "out").read_text().splitlines()
    corpus = PreparedCorpus(trained.parent / "data")
    with_words = corpus.languages[1] == "trees-with-words"
    again = score_brackets(*corpus.text("test"), outputs, with_words)
    assert (again.f1, again.f1_all) == (scores["f1"], scores["f1_all"])


def test_translate_writes_trees(trained, tmp_path):
    text = write(tmp_path / "in.txt", ["the dog sleep .", "", "cats see a bird ."])
    run("translate", trained, text, "--out", tmp_path / "out.mrg")
    expected = [
        "(S (NP (DT the) (NN dog)) (VP (VB sleep)) (. .))",
        "",
        "(S (NP (NNS cats)) (VP (VB see) (NP (DT a) (NN bird))) (. .))",
        "",
    ]
    if "words" in trained.parent.name:  # without tags
        expected = [re.sub(r"\(\S+ ([^()]+)\)", r"\1", line) for line in expected]
    assert (tmp_path / "out.mrg").read_text().split("\n") == expected


def test_translate_makes_a_tree_of_every_sentence(begun, tmp_path):
    text = write(tmp_path / "in.txt", ["the dog sleep .", "", "zebras"])
    run("translate", begun, text, "--out", tmp_path / "out.mrg")
    first, second, third = (tmp_path / "out.mrg").read_text().splitlines()
    assert second == ""
    for line, words in ((first, ["the", "dog", "sleep", "."]), (third, ["zebras"])):
        ((_, tree),) = read_trees([line], "out.mrg")
        assert tree.words() == words


def test_the_style_of_trees_is_named(tmp_path, capsys):
    trees = write(tmp_path / "a.mrg", ["(S (NP The dog) (VP sees it) .)"])
    given = ["--train", trees, "--valid", trees, "--out", tmp_path / "out"]
    shown = fails(capsys, "prepare-trees", *given)
    assert "in Penn style every word has a bracket with its tag, such as" in shown
