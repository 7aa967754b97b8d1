"""From a treebank to bracket F1 with the command line (Section 6.3)."""

import json
import re
from random import Random

import pytest

from transformer_lite.cli import main
from transformer_lite.commands.prepare import NAMED
from transformer_lite.config import load_recipe
from transformer_lite.data.corpora import load_corpus
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.data.treebanks import TREEBANKS
from transformer_lite.inference.brackets import score_brackets
from transformer_lite.training.folder import RunFolder

SETTINGS = """
data = "{data}"

[model]
num_layers = 1
d_model = 32
d_ff = 64
num_heads = 2
dropout = 0.0
max_len = 128

[train]
batch_tokens = 400
max_steps = {steps}
warmup_steps = 60
rate_scale = 0.6
validate_every = {steps}
checkpoint_every = {steps}
average_checkpoints = 1
precision = "fp32"

[search]
beam_size = 1
max_extra = 60
"""


def run(*arguments):
    main([str(argument) for argument in arguments])


def fails(capsys, *arguments):
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err


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
        yield f"( (S {noun_phrase('SBJ')} (VP {verb}) (. .)))\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    options = []
    sizes = {"train": 150, "valid": 9, "test": 20}
    for seed, (split, count) in enumerate(sizes.items()):
        path = folder / f"{split}.mrg"
        path.write_text("".join(trees(count, seed)))
        options += [f"--{split}", path]
    return options


def prepare(files, out, *options):
    run("prepare", "trees", *files, "--vocab-size", 60, "--out", out, *options)
    return out


@pytest.fixture(scope="module")
def data(files, tmp_path_factory):
    return prepare(files, tmp_path_factory.mktemp("data") / "trees")


def train(folder, data, steps):
    recipe = folder / "recipe.toml"
    recipe.write_text(SETTINGS.format(data=data, steps=steps))
    run("train", recipe, "--out", folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """A run that has learned to parse."""
    return train(tmp_path_factory.mktemp("runs"), data, 300)


@pytest.fixture(scope="module")
def begun(data, tmp_path_factory):
    """A run of one step, whose outputs are no trees."""
    return train(tmp_path_factory.mktemp("begun"), data, 1)


def test_a_trained_parser_finds_the_brackets_of_unseen_sentences(
    trained, data, tmp_path, capsys
):
    run(
        "evaluate",
        trained,
        *("--json", tmp_path / "scores.json"),
        *("--translations", tmp_path / "out.txt"),
    )
    scores = json.loads((tmp_path / "scores.json").read_text())
    table = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    assert table.keys() == scores.keys()
    assert scores["f1_all"] >= 90
    assert scores["well_formed"] >= 90
    assert scores["sentences"] == 20
    assert "bleu" not in scores
    assert float(table["f1"]) == pytest.approx(scores["f1"], abs=0.005)
    # What is written suffices to compute the same again.
    outputs = (tmp_path / "out.txt").read_text().splitlines()
    again = score_brackets(*PreparedCorpus(data).text("test"), outputs)
    assert again.f1 == scores["f1"]
    assert again.f1_all == scores["f1_all"]


def test_translate_writes_trees(trained, tmp_path):
    text = tmp_path / "in.txt"
    text.write_text("the dog sleep .\n\ncats see a bird .\n")
    run("translate", trained, text, "--out", tmp_path / "out.mrg")
    assert (tmp_path / "out.mrg").read_text().split("\n") == [
        "(S (NP (DT the) (NN dog)) (VP (VB sleep)) (. .))",
        "",
        "(S (NP (NNS cats)) (VP (VB see) (NP (DT a) (NN bird))) (. .))",
        "",
    ]


def test_a_run_records_bracket_f1_at_each_validation(trained):
    metrics = (trained / "metrics.jsonl").read_text().splitlines()
    (record,) = [json.loads(line) for line in metrics if "valid_f1" in line]
    assert record["valid_f1"] >= 90
    assert record["valid_well_formed"] >= 90
    assert "valid_bleu" not in record
    assert RunFolder(trained).languages() == ("", "trees")


def test_outputs_that_are_no_trees_are_counted(begun, capsys):
    run("evaluate", begun, "--split", "valid")
    table = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    assert float(table["well_formed"]) == 0
    assert float(table["f1_all"]) == 0
    assert table["ill_formed"].startswith("9 ")


def test_translate_names_outputs_that_are_no_trees(begun, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("the dog sleep .\n")
    with pytest.raises(SystemExit) as caught:
        run("translate", begun, tmp_path / "in.txt", "--out", tmp_path / "out.mrg")
    assert caught.value.code == 1
    assert "line 1: the output is no tree: " in capsys.readouterr().err
    assert (tmp_path / "out.mrg").read_text() == "\n"


def test_prepare_drops_tags_and_adds_silver_trees(files, tmp_path):
    silver = tmp_path / "silver.mrg"
    silver.write_text("".join(trees(5, seed=9)))
    options = ["--silver", silver, "--drop-tags", "--source", "en"]
    corpus = PreparedCorpus(prepare(files, tmp_path / "out", *options))
    assert corpus.sizes == {"train": 155, "valid": 9, "test": 20}
    assert corpus.name == f"trees + {silver}"
    assert corpus.languages == ("en", "trees")
    pieces = corpus.tokenizer.pieces(range(corpus.tokenizer.vocab_size))
    assert "▁XX" in pieces
    assert "▁VB" not in pieces


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trees"], "--train is missing; write prepare trees --train TREES"),
        (["craft", "--train", "x"], '"craft" has its own text; .* prepare trees'),
        (["trees", "--target", "de"], '"trees" has trees for its target; leave'),
        (["files", "--target", "trees"], '"trees" is no language; write prepare trees'),
        (["toy", "--source", "trees"], '"trees" is no language; write prepare trees'),
        (["craft", "--silver", "gumm"], "--silver gumm: neither a treebank nor a file"),
        (["toy", "--drop-tags"], '--drop-tags is for trees, and "toy" has none'),
        (["toy", "--silver", "gum"], '--silver is for trees, and "toy" has none'),
    ],
)
def test_prepare_refuses_what_makes_no_sense_of_trees(
    tmp_path, capsys, arguments, message
):
    shown = fails(capsys, "prepare", *arguments, "--out", tmp_path / "out")
    assert re.search(message, shown)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_bracket_is_named_and_leaves_nothing(files, tmp_path, capsys):
    path = tmp_path / "train.mrg"
    path.write_text("(S (NN a))\n(S (NN b)\n")
    options = ["--train", path, *files[2:], "--out", tmp_path / "out"]
    shown = fails(capsys, "prepare", "trees", *options)
    assert f"{path}, line 2, column 1: this bracket is never closed" in shown
    assert [entry.name for entry in tmp_path.iterdir()] == ["train.mrg"]


def test_evaluate_refuses_to_tokenize_trees(trained, capsys):
    shown = fails(capsys, "evaluate", trained, "--tokenize", "13a")
    assert "--tokenize is for BLEU, and trees have none; leave it out" in shown


def test_every_corpus_is_proposed_to_who_names_none():
    with pytest.raises(ValueError, match="there is no corpus") as caught:
        load_corpus("nothing")
    assert all(f'"{name}"' in str(caught.value) for name in (*NAMED, *TREEBANKS))


def test_the_recipe_has_the_papers_layers_and_length_of_output():
    recipe = load_recipe("parsing")
    assert recipe.model.num_layers == 4
    assert recipe.search.max_extra == 300
    assert recipe.model.max_len > recipe.search.max_extra + 500
