"""The verbs do their work, and answer bad input with one line and status 2."""

import io
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from random import Random

import jaxtyping
import pytest

from transformer_lite.cli import INTERRUPTED, main
from transformer_lite.data.corpora import Corpus, SentencePair
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.run_folder import RunFolder
from transformer_lite.weights import average, read_weights

ROOT = Path(__file__).resolve().parents[1]
COMMAND = [sys.executable, "-m", "transformer_lite"]
WORDS = "the red dog sees a blue cat and hears it".split()
SETTINGS = """
data = "{data}"

[model]
num_layers = 1
d_model = 32
d_ff = 64
num_heads = 2
dropout = 0.0
max_len = 64

[train]
batch_tokens = 400
max_steps = {steps}
warmup_steps = 100
checkpoint_every = 20
validate_every = {steps}
average_checkpoints = 3
precision = "fp32"

[search]
max_extra = 10
"""


@pytest.fixture(autouse=True, scope="module")
def _types_unchecked():
    """As for a user, and faster."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def run(*arguments):
    main([str(argument) for argument in arguments])


def ends(*arguments):
    """The exit status of a command."""
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    return caught.value.code


def fails(capsys, *arguments):
    """What a command says that ends with one line of error."""
    capsys.readouterr()
    assert ends(*arguments) == 2
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith(f"transformer-lite {arguments[0]}: error: ")
    return said


def sentences(count, seed=1):
    """One to five words in any order."""
    random = Random(seed)
    return [" ".join(random.choices(WORDS, k=1 + i % 5)) for i in range(count)]


def write(path, lines, line_end="\n"):
    path.write_bytes("".join(line + line_end for line in lines).encode())
    return path


def files_in(folder, **splits):
    """Arguments of `prepare` that name a source and an equal target for each split."""
    options = ["files", "--source", "en", "--target", "en", "--out", folder / "data"]
    for split, lines in splits.items():
        paths = [folder / f"{split}.{side}" for side in ("src", "tgt")]
        options += [f"--{split}", *(write(path, lines) for path in paths)]
    return options


def recipe_in(folder, data, steps=2):
    return write(folder / "recipe.toml", [SETTINGS.format(data=data, steps=steps)])


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A prepared corpus of 200 pairs whose targets copy their sources."""
    folder = tmp_path_factory.mktemp("copy")
    splits = {"train": sentences(200), "valid": sentences(20, seed=2)}
    options = files_in(folder, **splits, test=sentences(20, seed=3))
    run("prepare", *options, "--vocab-size", 60)
    return folder / "data"


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """A run that has learned to copy."""
    folder = tmp_path_factory.mktemp("runs")
    run("train", recipe_in(folder, data, steps=320), "--out", folder / "copy")
    return folder / "copy"


@pytest.fixture
def begun(data, tmp_path):
    """A run of two steps, to be spoiled."""
    run("train", recipe_in(tmp_path, data), "--out", tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def stdin(monkeypatch):
    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


# prepare


def test_prepare_says_what_it_wrote_and_what_it_left_out(tmp_path, capsys):
    lines = [*sentences(60), "", "", "dog " * 99]
    options = files_in(tmp_path, train=lines, valid=sentences(5))
    options += ["--vocab-size", 50, "--max-length", 90, "--skip-unusable"]
    run("prepare", *options)
    shown = capsys.readouterr().out
    assert "60 train, 5 valid pairs, 50 tokens" in shown
    assert "left out: 2 empty, 1 too long" in shown
    assert PreparedCorpus(tmp_path / "data").sizes == {"train": 60, "valid": 5}


def test_prepare_takes_files_of_pairs(tmp_path):
    options = files_in(tmp_path)
    for split, size in (("train", 60), ("valid", 7)):
        pairs = [f"{line}\t{line}" for line in sentences(size)]
        options += [f"--{split}", write(tmp_path / split, pairs)]
    run("prepare", *options, "--vocab-size", 50)
    assert PreparedCorpus(tmp_path / "data").sizes == {"train": 60, "valid": 7}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\n", "train.tgt: ends before line 3, .* must translate line k"),
        (b"a\nf\xfcr\n", "train.tgt, line 2: not UTF-8; .*convert"),
        (b"dog " * 400 + b"\n" + b"a\n" * 29, "line 1: more tokens than --max-length"),
    ],
)
def test_prepare_refuses_bad_text_and_leaves_nothing(
    tmp_path, capsys, content, message
):
    options = files_in(tmp_path, train=sentences(30), valid=sentences(5))
    (tmp_path / "train.tgt").write_bytes(content)
    before = contents(tmp_path)
    assert re.search(message, fails(capsys, "prepare", *options, "--vocab-size", 45))
    assert contents(tmp_path) == before
    assert all(path.is_file() for path in tmp_path.iterdir())


@pytest.mark.parametrize(("given", "size"), [([], 37_000), (["--vocab-size", 99], 99)])
def test_wmt14_has_the_papers_vocabulary_unless_one_says_otherwise(
    tmp_path, monkeypatch, capsys, given, size
):
    pairs = [SentencePair(line, line) for line in sentences(60)]
    corpus = Corpus("wmt14", dict.fromkeys(("train", "valid"), pairs))
    monkeypatch.setattr("transformer_lite.data.corpora.load_corpus", lambda *_: corpus)
    shown = fails(capsys, "prepare", "wmt14", "--out", tmp_path / "data", *given)
    assert f"vocab_size = {size} (--vocab-size) does not fit this corpus" in shown


def test_prepare_refuses_a_folder_that_is_there_or_has_no_name(
    tmp_path, capsys, monkeypatch
):
    (tmp_path / "data").mkdir()
    shown = fails(capsys, "prepare", "toy", "--out", tmp_path / "data")
    assert f"{tmp_path / 'data'}: already there; " in shown
    monkeypatch.chdir(tmp_path)
    shown = fails(capsys, "prepare", "toy", "--out", ".")
    assert "does not name a new folder; give another" in shown
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("files --train a b --valid c d", "files needs --source and --target"),
        ("files --train a b", "files needs --train and --valid"),
        ("toy --train a b", "toy has its own text; for yours write files"),
        ("toy --target fr", "toy has no en–fr; it is en–de"),
        ("multi30k --target ko", "multi30k has no en–ko; take two of en, de, fr"),
    ],
)
def test_prepare_refuses_a_corpus_that_does_not_exist(
    tmp_path, capsys, arguments, message
):
    shown = fails(capsys, "prepare", *arguments.split(), "--out", tmp_path / "data")
    assert message in shown
    assert list(tmp_path.iterdir()) == []


# train


def test_the_toy_corpus_is_prepared_and_trained_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run("prepare", "toy", "--out", "data/toy")
    assert "10,000 train, 500 valid, 500 test pairs" in capsys.readouterr().out
    run("train", "toy", "--train.max-steps", 3)
    config = json.loads((tmp_path / "runs" / "toy" / "config.json").read_text())
    assert (config["train"]["max_steps"], config["model"]["num_layers"]) == (3, 2)


def test_training_leaves_a_whole_run(trained):
    expected = {".lock", "config.json", "corpus.json", "tokenizer.model"}
    expected |= {"metrics.jsonl", "checkpoints"}
    assert {path.name for path in trained.iterdir()} - {"tensorboard"} == expected
    assert not list(trained.rglob("*.partial"))


def test_a_signal_ends_training_and_the_same_command_resumes_it(
    data, tmp_path, monkeypatch, capsys
):
    command = ["train", recipe_in(tmp_path, data, 4), "--out", tmp_path / "run"]
    command += ["--train.validate-every", 2]
    with monkeypatch.context() as patch:
        patch.setattr(
            "transformer_lite.inference.scores.ValidationSamples.__call__",
            lambda _: os.kill(os.getpid(), signal.SIGTERM) or {},
        )
        assert ends(*command) == INTERRUPTED
    assert "the same command resumes the run" in capsys.readouterr().err
    run(*command)
    assert "all 4 steps are done" in capsys.readouterr().out


def test_an_option_may_be_unset(data, tmp_path, monkeypatch):
    recipe = recipe_in(tmp_path, data)
    write(recipe, [recipe.read_text(), "[train]\ncheckpoint_minutes = 10"][:1])
    given = []
    monkeypatch.setattr(
        "transformer_lite.training.run.train_recipe",
        lambda recipe, out, _: given.append(recipe.train) or True,
    )
    run("train", "wmt14_base")
    run("train", "wmt14_base", "--train.checkpoint-minutes", "None")
    assert [train.checkpoint_minutes for train in given] == [10, None]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([""], '"": no such recipe; give one of '),
        (["toyy"], "did you mean toy?"),
        (["--train.seed", "3", "toy"], "the recipe comes before the options"),
        (["toy", "--data", "nowhere"], "nowhere: not a prepared corpus; run `prepare`"),
    ],
)
def test_train_refuses_what_is_no_recipe_or_no_data(
    tmp_path, monkeypatch, capsys, words, message
):
    monkeypatch.chdir(tmp_path)
    assert message in fails(capsys, "train", *words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "given",
    [
        ["--train.max-steps", "0"],
        ["--model.num-heads", "7"],
        ["--train.seed", "x"],
        ["--model.positions", "rotary"],
        ["--train.max-stepps", "3"],
    ],
)
def test_an_impossible_option_is_refused_by_its_name(tmp_path, data, capsys, given):
    command = ["train", recipe_in(tmp_path, data), "--out", tmp_path / "run", *given]
    assert ends(*command) == 2
    shown = "".join(capsys.readouterr()).replace("_", "-")
    assert given[0].split(".")[1] in shown
    assert not (tmp_path / "run").exists()


def test_train_leaves_a_folder_alone_that_is_no_run(data, tmp_path, capsys):
    """A prepared corpus, another program's model, a project, a file."""
    corpus = Path(shutil.copytree(data, tmp_path / "corpus"))
    foreign, project = tmp_path / "foreign", tmp_path / "project"
    for folder in (foreign, project):
        folder.mkdir()
    write(foreign / "config.json", ['{"model_type": "marian", "d_model": 512}'])
    write(foreign / "tokenizer.model", ["another vocabulary"])
    write(project / "main.py", ["print(1)"])
    file = write(tmp_path / "file", ["text"])
    before = contents(tmp_path)
    for out in (corpus, foreign, project, file):
        shown = fails(capsys, "train", "toy", "--data", data, "--out", out)
        assert re.search(f"{out}: is (neither empty nor .* a run|a file); give", shown)
    assert contents(tmp_path) == before


def test_a_run_is_not_resumed_with_other_settings(begun, capsys):
    recipe, before = begun.parent / "recipe.toml", contents(begun)
    shown = fails(capsys, "train", recipe, "--out", begun, "--model.d-ff", 7)
    assert "holds a run with model.d_ff = 64, now it is 7; give" in shown
    assert contents(begun) == before


@pytest.mark.parametrize("kind", ["safetensors", "training.pt"])
def test_train_names_a_damaged_checkpoint(begun, capsys, kind):
    path = begun / "checkpoints" / f"step-00000002.{kind}"
    path.write_bytes(path.read_bytes()[:50])
    recipe = begun.parent / "recipe.toml"
    shown = fails(capsys, "train", recipe, "--out", begun, "--train.max-steps", 4)
    assert re.search(rf"step-00000002\.{kind}: .*damaged.*delete it", shown)


# average


def test_average_takes_as_many_of_the_last_checkpoints_as_the_run_or_as_asked_for(
    begun, capsys
):
    folder, recipe = RunFolder(begun), begun.parent / "recipe.toml"
    every_step = ["--train.checkpoint-every", 1, "--train.max-steps", 6]
    run("train", recipe, "--out", begun, *every_step)
    own = folder.average.read_bytes()
    run("average", begun, "--last", 2)
    assert "averaged step-00000005, step-00000006" in capsys.readouterr().out
    written, expected = read_weights(folder.average), average(folder.step_checkpoints())
    assert written.keys() == expected.keys()
    assert folder.average.read_bytes() != own
    run("average", begun)
    assert folder.average.read_bytes() == own


@pytest.mark.parametrize("last", [0, 2])
def test_average_refuses_a_number_that_is_not_there(begun, capsys, last):
    before = contents(begun)
    shown = fails(capsys, "average", begun, "--last", last)
    assert f"has 1 checkpoints, and {last} cannot be averaged; give" in shown
    assert contents(begun) == before


def test_average_knows_the_models_of_the_package(capsys):
    shown = fails(capsys, "average", "multi30k_en_de")
    assert "multi30k_en_de/checkpoints: has 0 checkpoints, and 0 cannot be" in shown
