"""From a treebank to bracket F1 with the command line (Section 6.3)."""

import json
import re
from random import Random

import jaxtyping
import pytest

from transformer_lite.cli import main
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.data.trees import read_trees
from transformer_lite.inference.brackets import score_brackets

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


@pytest.fixture(autouse=True, scope="module")
def _types_unchecked():
    """As for a user, and faster."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def run(*arguments):
    main([str(argument) for argument in arguments])


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
    """Options that name a treebank of one's own."""
    folder = tmp_path_factory.mktemp("trees")
    options = []
    sizes = {"train": 150, "valid": 9, "test": 20}
    for seed, (split, count) in enumerate(sizes.items()):
        path = write(folder / f"{split}.mrg", "".join(trees(count, seed)))
        options += [f"--{split}", path]
    return options


def write(path, text):
    path.write_text(text)
    return path


def prepare(files, out, *options):
    run("prepare", "trees", *files, "--vocab-size", 60, "--out", out, *options)
    return out


def train(folder, data, steps):
    recipe = write(folder / "recipe.toml", SETTINGS.format(data=data, steps=steps))
    run("train", recipe, "--out", folder / "run")
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


def table_of(shown):
    return dict(line.split(maxsplit=1) for line in shown.splitlines())


def test_a_trained_parser_finds_the_brackets_of_unseen_sentences(
    trained, tmp_path, capsys
):
    written = ["--json", tmp_path / "scores.json", "--translations", tmp_path / "out"]
    run("evaluate", trained, *written)
    scores = json.loads((tmp_path / "scores.json").read_text())
    table = table_of(capsys.readouterr().out)
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
    text = write(tmp_path / "in.txt", "the dog sleep .\n\ncats see a bird .\n")
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


def test_a_run_records_bracket_f1_at_each_validation(trained):
    metrics = (trained / "metrics.jsonl").read_text().splitlines()
    (record,) = [json.loads(line) for line in metrics if "valid_f1" in line]
    assert record["valid_f1"] >= 80
    assert record["valid_well_formed"] >= 80
    assert "valid_bleu" not in record


def test_outputs_that_are_no_trees_are_counted(begun, capsys):
    run("evaluate", begun, "--split", "valid")
    table = table_of(capsys.readouterr().out)
    assert float(table["well_formed"]) == 0
    assert float(table["f1_all"]) == 0
    assert table["ill_formed"].startswith("9 ")


def test_translate_makes_a_tree_of_every_sentence(begun, tmp_path):
    text = write(tmp_path / "in.txt", "the dog sleep .\n\nzebras\n")
    run("translate", begun, text, "--out", tmp_path / "out.mrg")
    first, second, third = (tmp_path / "out.mrg").read_text().splitlines()
    assert second == ""
    for line, words in ((first, ["the", "dog", "sleep", "."]), (third, ["zebras"])):
        ((_, tree),) = read_trees([line], "out.mrg")
        assert tree.words() == words


def test_prepare_writes_trees_in_the_form_that_is_asked_for(files, tmp_path):
    given = ["--leaves", "XX", "--plain-closing", "--source", "en"]
    corpus = PreparedCorpus(prepare(files, tmp_path / "out", *given))
    assert corpus.sizes == {"train": 150, "valid": 9, "test": 20}
    assert corpus.languages == ("en", "trees")
    _, target = corpus.ids("train")
    pieces = corpus.tokenizer.pieces(target[0].tolist())
    assert set(pieces) <= {"▁(S", "▁(NP", "▁(VP", "▁XX", "▁)"}


def fails(capsys, *arguments):
    """The line that a verb ends with."""
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trees"], "trees needs --train and --valid, your own files"),
        (["trees", "--target", "de"], "--target does not apply to trees; remove it"),
        (["toy"], "toy has its own text; for yours write files or trees"),
        (["files", "--leaves", "XX"], "--leaves and --plain-closing are for trees"),
        (["files", "--plain-closing"], "--leaves and --plain-closing are for trees"),
    ],
)
def test_prepare_refuses_what_makes_no_sense_of_trees(
    files, tmp_path, capsys, arguments, message
):
    given = files if arguments != ["trees"] else []
    shown = fails(capsys, "prepare", *arguments, *given, "--out", tmp_path / "out")
    assert message in shown
    assert list(tmp_path.iterdir()) == []


def test_a_missing_bracket_is_named_and_leaves_nothing(files, tmp_path, capsys):
    path = write(tmp_path / "train.mrg", "(S (NN a))\n(S (NN b)\n")
    options = ["--train", path, *files[2:], "--out", tmp_path / "out"]
    shown = fails(capsys, "prepare", "trees", *options)
    assert f"{path}, line 2, column 1: this bracket is never closed" in shown
    assert [entry.name for entry in tmp_path.iterdir()] == ["train.mrg"]
