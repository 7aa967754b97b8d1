"""The verbs do their work, and answer bad input with one line and status 2."""

import contextlib
import errno
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
import torch

from transformer_lite import __version__
from transformer_lite.cli import INTERRUPTED, VERBS, main, parse
from transformer_lite.commands import translate
from transformer_lite.commands.translate import _written
from transformer_lite.config import load_recipe
from transformer_lite.data import corpora
from transformer_lite.data.corpora import Corpus
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.translator import Translator
from transformer_lite.tokenizer import Tokenizer
from transformer_lite.training import checkpoint
from transformer_lite.training.folder import RunFolder

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "transformer_lite"
RECIPES = sorted((PACKAGE / "recipes").glob("*.toml"))
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


def run(*arguments):
    main([str(argument) for argument in arguments])


def sentences(count, seed=1):
    """One to five words in any order."""
    random = Random(seed)
    return [" ".join(random.choices(WORDS, k=1 + i % 5)) for i in range(count)]


def write(path, lines, line_end="\n"):
    path.write_bytes("".join(line + line_end for line in lines).encode())
    return path


def files_in(folder, **splits):
    """Options that name a source and an equal target file for each split."""
    options = []
    for split, lines in splits.items():
        paths = [folder / f"{split}.{side}" for side in ("src", "tgt")]
        options += [f"--{split}", *(write(path, lines) for path in paths)]
    return options


def recipe_in(folder, data, steps=2, text=SETTINGS):
    path = folder / "recipe.toml"
    path.write_text(text.format(data=data, steps=steps))
    return path


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A prepared corpus of 200 pairs whose targets copy their sources."""
    folder = tmp_path_factory.mktemp("data")
    splits = {"train": sentences(200), "valid": sentences(20, seed=2)}
    options = files_in(folder, **splits, test=sentences(20, seed=3))
    run("prepare", "files", *options, "--out", folder / "copy", "--vocab-size", 60)
    return folder / "copy"


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


# What the verbs do


def test_prepare_says_what_it_wrote(tmp_path, capsys):
    options = files_in(tmp_path, train=sentences(60), valid=sentences(5))
    run("prepare", "files", *options, "--out", tmp_path / "out", "--vocab-size", 50)
    shown = capsys.readouterr().out
    assert "60 train, 5 valid pairs, 50 tokens" in shown
    assert PreparedCorpus(tmp_path / "out").sizes == {"train": 60, "valid": 5}


def test_prepare_says_what_it_left_out_and_that_it_was_done(tmp_path, capsys):
    lines = [*sentences(60), "", "", "dog " * 99]
    options = files_in(tmp_path, train=lines, valid=sentences(5))
    command = ["prepare", "files", *options, "--out", tmp_path / "out"]
    command += ["--vocab-size", 50, "--max-length", 90, "--skip-unusable"]
    run(*command)
    left_out = "left out: 2 empty, 1 more tokens than --max-length 90"
    assert left_out in capsys.readouterr().out
    run(*command)
    shown = capsys.readouterr().out
    assert f"{tmp_path / 'out'}: already prepared: 60 train, 5 valid pairs" in shown
    assert left_out in shown


def test_prepare_takes_files_of_pairs(tmp_path):
    for split, size in (("train", 60), ("valid", 7)):
        write(tmp_path / split, [f"{line}\t{line}" for line in sentences(size)])
    options = ["--train", tmp_path / "train", "--valid", tmp_path / "valid"]
    run("prepare", "files", *options, "--out", tmp_path / "out", "--vocab-size", 50)
    assert PreparedCorpus(tmp_path / "out").sizes == {"train": 60, "valid": 7}


def test_training_leaves_a_whole_run(trained):
    names = {path.name for path in trained.iterdir()}
    assert names - {".lock"} == {
        "config.json",
        "corpus.json",
        "tokenizer.model",
        "metrics.jsonl",
        "tensorboard",
        "checkpoints",
    }
    assert not list(trained.rglob("*.partial"))


def test_a_trained_model_copies_unseen_sentences(trained, stdin, capsys):
    sources = sentences(20, seed=3)
    stdin("".join(f"{line}\n" for line in sources).encode())
    run("translate", trained)
    translations = capsys.readouterr().out.splitlines()
    equal = [a == b for a, b in zip(sources, translations, strict=True)]
    assert sum(equal) >= 18


def test_average_writes_the_mean_of_the_last_checkpoints(begun, data, capsys):
    recipe = begun.parent / "recipe.toml"
    every_step = ["--train.checkpoint-every", 1, "--train.max-steps", 5]
    run("train", recipe, "--out", begun, *every_step)
    run("average", begun, "--last", 2)
    assert "averaged step-00000004, step-00000005" in capsys.readouterr().out
    paths = RunFolder(begun).step_checkpoints()[-2:]
    written = checkpoint.read_weights(begun / "checkpoints" / "average.safetensors")
    expected = checkpoint.average(paths)
    assert all((written[name] == expected[name]).all() for name in expected)


def test_average_takes_as_many_checkpoints_as_the_run_does(begun, capsys):
    run("average", begun)  # which has no more than one yet
    assert capsys.readouterr().out == "averaged step-00000002\n"
    recipe = begun.parent / "recipe.toml"
    every_step = ["--train.checkpoint-every", 1, "--train.max-steps", 6]
    run("train", recipe, "--out", begun, *every_step)
    own = (begun / "checkpoints" / "average.safetensors").read_bytes()
    run("average", begun)
    assert (begun / "checkpoints" / "average.safetensors").read_bytes() == own


def test_a_folder_cannot_take_scores_or_translations(trained, tmp_path, capsys):
    for option in ("--json", "--translations"):
        shown = fails(capsys, "evaluate", trained, option, tmp_path)
        assert f"{tmp_path}: a folder; give the name of a file" in shown


@pytest.mark.parametrize("verb", ["prepare", "export"])
def test_a_folder_without_a_name_is_refused(trained, capsys, monkeypatch, verb):
    monkeypatch.chdir(trained.parent)
    before = contents(trained.parent)
    shown = fails(capsys, verb, "toy" if verb == "prepare" else trained, "--out", ".")
    assert "no name for a folder; give --out one to make" in shown
    assert contents(trained.parent) == before


def test_evaluate_shows_and_writes_the_same_scores(trained, tmp_path, capsys):
    run("evaluate", trained, "--json", tmp_path / "scores.json")
    scores = json.loads((tmp_path / "scores.json").read_text())
    table = dict(
        line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()
    )
    assert table.keys() == scores.keys()
    assert scores["sentences"] == 20
    assert scores["exact_match"] >= 90
    assert float(table["bleu"]) == pytest.approx(scores["bleu"], abs=0.005)
    assert table["signature"] == scores["signature"]


def test_evaluate_has_the_bleu_of_sacrebleus_command_line(
    trained, tmp_path, stdin, capsys
):
    # References with another last word, or every score would be 100.
    splits = {"train": sentences(200), "valid": sentences(20, seed=2)}
    options = files_in(tmp_path, **splits, test=sentences(20, seed=3))
    references = [f"{line} too" for line in sentences(20, seed=3)]
    write(tmp_path / "test.tgt", references)
    data = tmp_path / "data"
    run("prepare", "files", *options, "--out", data, "--vocab-size", 60)
    run("evaluate", trained, "--data", data, "--json", tmp_path / "scores.json")
    scores = json.loads((tmp_path / "scores.json").read_text())

    stdin((tmp_path / "test.src").read_bytes())
    capsys.readouterr()
    run("translate", trained)
    (tmp_path / "out").write_text(capsys.readouterr().out)
    command = ["sacrebleu", "test.tgt", "-i", "out", "-m", "bleu", "-w", "9"]
    shown = subprocess.run(
        [sys.executable, "-m", *command],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    ).stdout
    bleu = json.loads(shown)
    assert 5 < scores["bleu"] < 95
    assert bleu["score"] == pytest.approx(scores["bleu"], abs=1e-8)
    assert bleu["signature"] == scores["signature"]


def test_another_split_can_be_evaluated(trained, capsys):
    run("evaluate", trained, "--split", "valid")
    assert "bleu" in capsys.readouterr().out


def test_data_that_lies_elsewhere_can_be_evaluated(trained, data, tmp_path, capsys):
    (tmp_path / "moved").symlink_to(data, target_is_directory=True)
    run("evaluate", trained, "--data", tmp_path / "moved")
    assert "bleu" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"the red dog\n\n  \nthe\n", ["the red dog", "", "", "the"]),
        (b"the red dog\n\nthe", ["the red dog", "", "the"]),
        (b"the red dog\r\n\r\nthe\r\n", ["the red dog", "", "the"]),
    ],
    ids=["nothing", "empty line", "blank lines", "no last line end", "windows"],
)
def test_translate_gives_a_line_for_each_line(trained, stdin, capsys, text, lines):
    translator = Translator.load(trained)
    expected = [translator.translate([line])[0] if line else "" for line in lines]
    stdin(text)
    run("translate", trained)
    assert capsys.readouterr().out == "".join(f"{line}\n" for line in expected)


def test_translate_takes_settings_of_the_search(trained, stdin, monkeypatch):
    seen = []
    monkeypatch.setattr(
        Translator,
        "stream",
        lambda self, lines, *_: seen.append(self.search) or lines,
    )
    stdin(b"a blue cat\n")
    settings = ["--beam", 3, "--alpha", 0.25, "--batch-sentences", 7]
    run("translate", trained, *settings)
    assert [(x.beam_size, x.alpha, x.batch_sentences) for x in seen] == [(3, 0.25, 7)]


def upper(self, lines, *_):
    """A translator in no time."""
    return (line.upper() for line in lines)


def test_translate_reads_and_writes_files(trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Translator, "stream", upper)
    source = write(tmp_path / "in", ["ein", "", "zwei"], "\r\n")
    run("translate", trained, source, "--out", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"EIN\n\nZWEI\n"
    assert capsys.readouterr().out == ""


class Feed(io.RawIOBase):
    """Standard input that notes how much was written each time it is read."""

    def __init__(self, lines, terminal=False):
        self.lines, self.terminal, self.written = iter(lines), terminal, []

    def readable(self):
        return True

    def isatty(self):
        return self.terminal

    def readline(self, size=-1):
        self.written.append(sys.stdout.buffer.tell())
        return next(self.lines, b"")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_line_appears_before_further_ones_are_read(
    trained, monkeypatch, capsys, terminal
):
    feed = Feed([b"the\n", b"a\n", b"dog\n"], terminal)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=feed))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    run("translate", trained)
    written = feed.written
    assert 0 == written[0] < written[1]
    # Behind a terminal somebody waits for each line; a file is read by larger blocks.
    assert (written[1] < written[2] < written[3]) == terminal
    assert ("type a sentence" in capsys.readouterr().err) == terminal


TRANSLATE = [sys.executable, "-m", "transformer_lite", "translate"]


def test_translate_ends_when_nobody_reads_on(trained):
    # The lines never end: whoever reads all of them first never answers.
    with (
        subprocess.Popen(["yes", "a blue cat"], stdout=subprocess.PIPE) as lines,
        subprocess.Popen(
            [*TRANSLATE, trained, "--beam", "1"],
            stdin=lines.stdout,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
        ) as translating,
    ):
        lines.stdout.close()
        assert translating.stdout.readline().strip()
        translating.stdout.close()
        said = translating.stderr.read().decode()
        assert translating.wait(timeout=60) == INTERRUPTED
        lines.kill()
    assert said.startswith("weights: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("slow", [True, False])
def test_progress_is_shown_on_a_terminal_when_it_takes_long(
    trained, tmp_path, monkeypatch, slow
):
    monkeypatch.setattr(Translator, "stream", upper)
    monkeypatch.setattr(translate, "PATIENCE", 0 if slow else 60)
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    source = write(tmp_path / "in", ["ein", "zwei"])
    run("translate", trained, source, "--out", tmp_path / "out")
    assert ("2line" in terminal.getvalue()) == slow


def test_options_take_precedence_over_the_recipe(data, tmp_path):
    recipe = recipe_in(tmp_path, data)
    run("train", recipe, "--out", tmp_path / "run", "--train.max-steps", 1)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["train"]["max_steps"] == 1
    assert config["model"]["d_ff"] == 64


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_training_and_the_same_command_resumes_it(
    data, tmp_path, monkeypatch, capsys, number
):
    command = ["train", recipe_in(tmp_path, data, 4), "--out", tmp_path / "run"]
    command += ["--train.validate-every", 2]
    with monkeypatch.context() as patch:
        patch.setattr(
            "transformer_lite.inference.scores.ValidationSamples.__call__",
            lambda _: os.kill(os.getpid(), number) or {},
        )
        with pytest.raises(SystemExit) as caught:
            run(*command)
    assert caught.value.code == INTERRUPTED
    assert "the same command resumes the run" in capsys.readouterr().err
    run(*command)
    names = {path.stem for path in (tmp_path / "run" / "checkpoints").iterdir()}
    assert {"step-00000004", "average"} <= names


def test_multi30k_comes_from_the_folder_in_the_environment(
    tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "texts" / "multi30k"
    folder.mkdir(parents=True)
    text = "".join(f"{line}\n" for line in sentences(60)).encode()
    for name in corpora.MULTI30K_SHA256:
        (folder / f"{name}.gz").write_bytes(gzip.compress(text))
    monkeypatch.setenv("TRANSFORMER_LITE_DATA", str(folder.parent))
    command = ["prepare", "multi30k", "--out", tmp_path / "out", "--vocab-size", 50]

    assert "train.en.gz: not the published text" in fails(capsys, *command)
    assert not (tmp_path / "out").exists()

    sums = dict.fromkeys(corpora.MULTI30K_SHA256, hashlib.sha256(text).hexdigest())
    monkeypatch.setattr(corpora, "MULTI30K_SHA256", sums)
    run(*command)
    sizes = PreparedCorpus(tmp_path / "out").sizes
    assert sizes == {"train": 60, "valid": 60, "test_2016_flickr": 60}


def test_tatoeba_comes_from_the_folder_in_the_environment(tmp_path, monkeypatch):
    folder = tmp_path / "texts" / "tatoeba-de-en"
    folder.mkdir(parents=True)
    text = "".join(f"{line}\n" for line in sentences(60)).encode()
    for split in ("train", "valid", "test"):
        for language in ("de", "en"):
            (folder / f"{split}.{language}.gz").write_bytes(gzip.compress(text))
    monkeypatch.setenv("TRANSFORMER_LITE_DATA", str(folder.parent))
    ways = ["--source", "en", "--target", "de", "--vocab-size", 50]
    run("prepare", "tatoeba", *ways, "--out", tmp_path / "out")
    corpus = PreparedCorpus(tmp_path / "out")
    assert corpus.sizes == {"train": 60, "valid": 60, "test": 60}
    found = corpus.checksums()
    del found["tokenizer"]
    assert set(found.values()) == {hashlib.sha256(text).hexdigest()}


def test_wmt14_has_the_papers_vocabulary_unless_one_says_otherwise(
    tmp_path, monkeypatch, capsys
):
    pairs = [(line, line) for line in sentences(60)]
    splits = dict.fromkeys(("train", "valid", "test"), pairs)
    monkeypatch.setattr(corpora, "wmt14_splits", lambda *languages: splits)
    command = ["prepare", "wmt14", "--out", tmp_path / "out"]
    assert "vocab_size = 37000" in fails(capsys, *command)
    run(*command, "--vocab-size", 50)
    sizes = PreparedCorpus(tmp_path / "out").sizes
    assert sizes == {"train": 60, "valid": 60, "test": 60}


def test_an_interrupted_preparation_is_resumed(tmp_path, monkeypatch, capsys):
    options = files_in(tmp_path, train=sentences(60), valid=sentences(5))
    command = ["prepare", "files", *options, "--out", tmp_path / "out"]

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Tokenizer, "encode_all", interrupt)
        with pytest.raises(SystemExit) as caught:
            run(*command, "--vocab-size", 50)
    assert caught.value.code == 130
    monkeypatch.setattr(Tokenizer, "train", None)
    run(*command, "--vocab-size", 50)
    assert "60 train, 5 valid pairs" in capsys.readouterr().out


def test_the_toy_corpus_is_prepared_and_trained_on(tmp_path):
    steps = ["--train.max-steps", "7", "--train.checkpoint-every", "7"]
    verbs = [
        ["prepare", "toy", "--out", "data/toy"],
        ["train", "toy", "--out", "runs/toy", *steps],
    ]
    # A process of its own: there shape annotations do not slow the grammar down.
    script = f"from transformer_lite.cli import main\nfor verb in {verbs}: main(verb)"
    ended = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    metrics = (tmp_path / "runs" / "toy" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line).get("train_loss") for line in metrics]
    assert "10,000 train, 500 valid, 500 test pairs" in ended.stdout
    assert losses[6] < losses[0]


# What they are called


OPTIONS = {
    "prepare": """--out --source --target --train --valid --test --vocab-size
        --vocab-sentences --max-length --skip-unusable --silver --drop-tags""",
    "train": """--data --out --model.vocab-size --model.num-layers --model.d-model
        --model.d-ff --model.num-heads --model.d-k --model.d-v --model.dropout
        --model.positions --model.max-len --model.attention --train.batch-tokens
        --train.global-batch-tokens --train.checkpoint-minutes
        --train.compile --train.no-compile
        --train.max-steps --train.warmup-steps --train.rate-scale
        --train.label-smoothing --train.average-checkpoints
        --train.checkpoint-every --train.validate-every --train.precision
        --train.seed --search.beam-size --search.alpha --search.max-extra
        --search.batch-sentences""",
    "average": "--last",
    "translate": "--weights --beam --alpha --batch-sentences --workers --out",
    "evaluate": """--weights --beam --alpha --batch-sentences --workers --split --data
        --translations --tokenize --json""",
    "export": "--out --format --weights",
}


def test_the_verbs_are_these_six():
    assert " ".join(VERBS) == "prepare train average translate evaluate export"


@pytest.mark.parametrize("verb", OPTIONS)
def test_options_have_the_names_they_always_had(verb, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "100")  # wider panels stand side by side
    with pytest.raises(SystemExit) as caught:
        run(verb, "--help")
    shown = capsys.readouterr().out
    names = re.findall(r"^\W (?:-h, )?(--[a-z].*?)(?:  |$| [A-Z{])", shown, re.M)
    names = " ".join(names).replace(",", "").split()
    assert caught.value.code == 0
    assert sorted(names) == sorted(["--help", *OPTIONS[verb].split()])


@pytest.mark.parametrize(("words", "status"), [(["--help"], 0), (["-h"], 0), ([], 2)])
def test_without_a_verb_all_are_shown(capsys, words, status):
    with pytest.raises(SystemExit) as caught:
        run(*words)
    shown = "".join(capsys.readouterr())
    assert caught.value.code == status
    assert all(re.search(rf"^  {verb} +\w", shown, re.M) for verb in VERBS)


@pytest.mark.parametrize(
    ("verb", "remedy"),
    [("tranlsate", "did you mean translate?"), ("go", "see transformer-lite --help")],
)
def test_an_unknown_verb_is_one_line(capsys, verb, remedy):
    with pytest.raises(SystemExit) as caught:
        run(verb)
    shown = capsys.readouterr().err
    assert caught.value.code == 2
    assert shown == f'transformer-lite: error: no verb "{verb}"; {remedy}\n'


def test_the_version_is_shown(capsys):
    with pytest.raises(SystemExit) as caught:
        run("--version")
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"transformer-lite {__version__}\n"


def test_help_without_a_recipe_requires_the_recipe_alone(capsys):
    with pytest.raises(SystemExit):
        run("train", "--help")
    assert capsys.readouterr().out.count("(required)") == 1


def test_help_of_a_recipe_shows_its_settings(capsys):
    with pytest.raises(SystemExit):
        run("train", "--train.compile", "toy", "--help")
    shown = capsys.readouterr().out
    assert "(required)" not in shown
    assert re.search(r"--model\.num-layers INT[^-]*\(default: 2\)", shown)


# A process of its own: the tests themselves have long imported everything.
UNWANTED = """
import sys
from transformer_lite import cli
try:
    cli.parse(sys.argv[1:])
except SystemExit:
    pass
slow = {"torch", "numpy", "sacrebleu", "pooch", "tensorboard", "matplotlib"}
assert not slow & set(sys.modules), slow & set(sys.modules)
"""


@pytest.mark.parametrize(
    "words", ["train toy --help", "train toy", "prepare", "tranlsate", "--version"]
)
def test_reading_a_command_imports_nothing_slow(words):
    subprocess.run(
        [sys.executable, "-c", UNWANTED, *words.split()],
        check=True,
        capture_output=True,
        cwd=ROOT,
    )


def test_working_never_imports_what_only_the_book_needs():
    verbs = "from transformer_lite import cli\n" + "\n".join(
        f"import transformer_lite.{path.relative_to(PACKAGE).with_suffix('')}".replace(
            "/", "."
        )
        for room in ("data", "training", "inference")
        for path in sorted((PACKAGE / room).glob("[a-z]*.py"))
    )
    check = (
        "import sys; assert not {'matplotlib', 'seaborn', 'IPython'} & {*sys.modules}"
    )
    subprocess.run([sys.executable, "-c", f"{verbs}\n{check}"], check=True, cwd=ROOT)


def test_options_may_stand_before_the_recipe(data, tmp_path):
    recipe, rest = recipe_in(tmp_path, data), ["--out", "runs/x", "--data", "other"]
    before = parse(["train", "--train.compile", str(recipe), *rest])
    after = parse(["train", str(recipe), *rest, "--train.compile"])
    between = parse(["train", *rest, "--train.compile", str(recipe)])
    assert before == after == between
    assert before.settings().train.compile
    assert before.settings().model.d_ff == 64
    assert before.settings().data == Path("other")


def test_options_are_checked_together_with_the_recipe(tmp_path, data):
    # 7 heads divide this width, and not that of the default configuration.
    settings = SETTINGS.replace("d_model = 32", "d_model = 28")
    recipe = recipe_in(tmp_path, data, text=settings)
    verb = parse(["train", "--model.num-heads", "7", str(recipe)])
    assert verb.settings().model.num_heads == 7


def test_a_run_has_its_recipes_name_unless_one_says_otherwise(
    data, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    run("train", recipe_in(tmp_path, data), "--train.max-steps", 1)
    assert (tmp_path / "runs" / "recipe" / "config.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("prepare", "CORPUS and --out are missing"),
        ("prepare toy", "--out is missing"),
        ("prepare toy --out", "--out takes PATH"),
        ("prepare toy --ou x", "no option --ou; did you mean --out?"),
        ("train", "RECIPE is missing"),
        ("train --num-heads 2 toy", "--num-heads; did you mean --model.num-heads?"),
        ("train toy --steps=3", "--steps=3; did you mean --train.max-steps?"),
        ("train toy --train.seed x", "--train.seed takes INT"),
        ("train toy --train.rate-scale x", "--train.rate-scale takes FLOAT"),
        ("train toy --model.positions no", "no; give one of sinusoidal, learned"),
        ("train toy more", '"more" is one argument too many'),
        ("translate", "FOLDER is missing"),
        ("export run --out x --format y", "--format y; give one of ctranslate2"),
    ],
)
def test_a_command_that_cannot_be_is_one_line_with_a_remedy(capsys, words, message):
    shown = fails(capsys, *words.split())
    assert message in shown
    assert shown.endswith("?\n") or shown.endswith("--help\n")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError("the first batch: give a smaller one"), "the first batch: give"),
        (MemoryError(), "out of memory; give a smaller --train.batch-tokens"),
        (torch.OutOfMemoryError("CUDA out"), "out of memory; give a smaller --train"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
            "out of memory; give a smaller --train.batch-tokens",
        ),
    ],
)
def test_want_of_memory_is_one_line_with_a_remedy(
    begun, capsys, monkeypatch, error, message
):
    def spoil(*_):
        raise error

    monkeypatch.setattr("transformer_lite.training.run.train_recipe", spoil)
    assert message in fails(capsys, "train", begun.parent / "recipe.toml")


def test_our_own_mistakes_are_not_hidden(begun, monkeypatch):
    def spoil(*_):
        raise RuntimeError("shapes differ")

    monkeypatch.setattr("transformer_lite.training.run.train_recipe", spoil)
    with pytest.raises(RuntimeError, match="shapes differ"):
        run("train", begun.parent / "recipe.toml")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_parses(path):
    assert load_recipe(path).data


def test_there_are_recipes():
    assert {"toy", "multi30k_de"} <= {path.stem for path in RECIPES}


# Bad input


def fails(capsys, *arguments):
    """The one line that a verb ends with."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    # A translation in progress has said which weights it takes.
    shown = re.sub(r"^weights: .*\n", "", capsys.readouterr().err)
    assert caught.value.code == 2
    assert shown.startswith(f"transformer-lite {arguments[0]}: error: ")
    assert shown.count("\n") == 1, shown
    assert shown.endswith("\n")
    assert "\r" not in shown
    return shown


GOOD = "".join(f"{line}\n" for line in sentences(30)).encode()
BAD_TEXT = {
    "shorter": (b"a\nb\n", "ends before line 3", "must translate line k"),
    "longer": (GOOD + b"a\n", "ends before line 31", "must translate line k"),
    "latin-1": (b"a\nf\xfcr\n", "line 2: not UTF-8", "convert"),
    "utf-16": ("für".encode("utf-16"), "line 1: not UTF-8", "convert"),
    "empty": (b"", "ends before line 1", "must translate line k"),
    "empty line": (GOOD + b"\n", "ends before line 31", "must translate line k"),
    "empty lines": (b"\n" * 30, "line 1: empty", "and 29 more such pairs"),
    "too long": (b"dog " * 400 + b"\n" + GOOD[4:], "line 1: ", "--max-length"),
}


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize("kind", BAD_TEXT)
def test_prepare_refuses_bad_text(tmp_path, capsys, split, kind):
    content, place, remedy = BAD_TEXT[kind]
    lines = sentences(30)
    options = files_in(tmp_path, train=lines, valid=lines, test=lines)
    (tmp_path / f"{split}.tgt").write_bytes(content)
    before = contents(tmp_path)
    command = ["prepare", "files", *options, "--out", tmp_path / "out"]
    shown = fails(capsys, *command, "--vocab-size", 45)
    assert split in shown
    assert place in shown
    assert remedy in shown
    assert contents(tmp_path) == before
    assert not (tmp_path / "out.partial").exists()


@pytest.mark.parametrize("split", ["train", "valid"])
@pytest.mark.parametrize("fault", ["missing", "folder", "both empty", "damaged gz"])
def test_prepare_refuses_what_is_no_text(tmp_path, capsys, split, fault):
    options = files_in(tmp_path, train=sentences(30), valid=sentences(5))
    paths = [tmp_path / f"{split}.src", tmp_path / f"{split}.tgt"]
    if fault == "both empty":
        for path in paths:
            path.write_bytes(b"")
    elif fault == "damaged gz":
        damaged = tmp_path / f"{split}.src.gz"
        damaged.write_bytes(gzip.compress(paths[0].read_bytes())[:-20])
        options[options.index(paths[0])] = damaged
    else:
        paths[0].unlink()
        if fault == "folder":
            paths[0].mkdir()
    command = ["prepare", "files", *options, "--out", tmp_path / "out"]
    shown = fails(capsys, *command, "--vocab-size", 45)
    assert f"{split}.src" in shown
    assert ";" in shown
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.partial").exists()


@pytest.mark.parametrize("vocab_size", [-3, 0, 4, 7, 5000])
def test_prepare_refuses_a_vocabulary_that_does_not_fit(tmp_path, capsys, vocab_size):
    options = files_in(tmp_path, train=sentences(30), valid=sentences(5))
    command = ["prepare", "files", *options, "--out", tmp_path / "out"]
    shown = fails(capsys, *command, "--vocab-size", vocab_size)
    assert re.search(rf"vocab.size = {vocab_size} .*; give ", shown)
    assert not (tmp_path / "out").exists()


def test_the_vocabulary_size_that_prepare_proposes_works(tmp_path, capsys):
    options = files_in(tmp_path, train=sentences(30), valid=sentences(5))
    command = ["prepare", "files", *options, "--out", tmp_path / "out", "--vocab-size"]
    proposed = re.search(r"at most (\d+)", fails(capsys, *command, 5000))[1]
    run(*command, proposed)
    assert PreparedCorpus(tmp_path / "out").tokenizer.vocab_size == int(proposed)


def test_prepare_refuses_an_existing_folder(tmp_path, capsys):
    options = files_in(tmp_path, train=sentences(30), valid=sentences(5))
    (tmp_path / "out").mkdir()
    write(tmp_path / "out" / "mine", ["keep"])
    before = contents(tmp_path)
    shown = fails(capsys, "prepare", "files", *options, "--out", tmp_path / "out")
    assert f"{tmp_path / 'out'}: already there; " in shown
    assert contents(tmp_path) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["files"], ["--train", "--valid"]),
        (["files", "--train", "a", "b", "c"], ["--train has 3 files", "tab"]),
        (["toy", "--train", "a", "b"], ['"toy" has its own text', "prepare files"]),
        (["tatoeba", "--valid", "a"], ['"tatoeba" has its own text', "prepare files"]),
        (["file", "--train", "a", "b"], ['no corpus "file"', "prepare files"]),
        (["nothing"], ['"nothing"', "multi30k"]),
        (["toy", "--target", "fr"], ["toy", "en–de"]),
        (["multi30k", "--target", "ko"], ["en–ko", "en, de, fr"]),
        (["tatoeba", "--target", "en"], ["tatoeba has no en–en", "two languages"]),
    ],
)
def test_prepare_refuses_a_corpus_that_does_not_exist(
    tmp_path, capsys, arguments, words
):
    shown = fails(capsys, "prepare", *arguments, "--out", tmp_path / "out")
    assert all(word in shown for word in words)
    assert list(tmp_path.iterdir()) == []


BAD_RECIPES = {
    "unknown table": ("[modle]\nd_ff = 7", ["modle", "model"]),
    "unknown key": ("[model]\nd_fff = 7", ["model.d_fff", "d_ff"]),
    "a key in no table": ("d_ff = 7", ["d_ff", "model"]),
    "text for a number": ('[train]\nmax_steps = "7"', ["train.max_steps", "'7'"]),
    "a fraction": ("[train]\nmax_steps = 7.5", ["train.max_steps", "7.5", "whole"]),
    "true for a number": ("[model]\ndropout = true", ["model.dropout", "True"]),
    "a list": ("[model]\nd_k = [7]", ["model.d_k", "[7]", "whole number"]),
    "no table": ("train = 7", ["train", "7", "[train]"]),
    "heads": ("[model]\nnum_heads = 7", ["model.num_heads", "7", "d_model"]),
    "dropout": ("[model]\ndropout = 1.5", ["model.dropout", "1.5", "less than 1"]),
    "no steps": ("[train]\nmax_steps = 0", ["train.max_steps", "0", "at least 1"]),
    "rate": ("[train]\nrate_scale = -1", ["train.rate_scale", "-1", "more than 0"]),
    "no number": ("[train]\nrate_scale = nan", ["train.rate_scale", "nan"]),
    "infinite": ("[train]\nrate_scale = inf", ["train.rate_scale", "inf"]),
    "seed": ("[train]\nseed = -1", ["train.seed", "-1", "0 or more"]),
    "precision": ('[train]\nprecision = "fp8"', ["train.precision", "fp8", "bf16"]),
    "positions": ('[model]\npositions = "no"', ["model.positions", "no", "learned"]),
    "beam": ("[search]\nbeam_size = 0", ["search.beam_size", "0", "at least 1"]),
    "alpha": ("[search]\nalpha = -0.5", ["search.alpha", "-0.5", "0 to 10"]),
    "syntax": ("[train\nmax_steps = 7", ["TOML", "line 2"]),
}


@pytest.mark.parametrize("kind", BAD_RECIPES)
def test_train_refuses_a_bad_recipe(tmp_path, capsys, kind):
    text, words = BAD_RECIPES[kind]
    recipe = write(tmp_path / "recipe.toml", ['data = "data"', *text.split("\n")])
    shown = fails(capsys, "train", recipe, "--out", tmp_path / "run")
    assert all(word in shown for word in ["recipe.toml", *words])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ['"data"', "prepare"]),
        (b"data = 7", ["data", "7"]),
        (b"data = '\xfc'", ["line 1", "UTF-8"]),
    ],
)
def test_train_refuses_a_recipe_without_usable_data(tmp_path, capsys, content, words):
    recipe = tmp_path / "recipe.toml"
    recipe.write_bytes(content)
    shown = fails(capsys, "train", recipe, "--out", tmp_path / "run")
    assert all(word in shown for word in ["recipe.toml", *words])
    assert not (tmp_path / "run").exists()


def test_train_refuses_a_missing_recipe(tmp_path, capsys):
    recipe = tmp_path / "nothing.toml"
    shown = fails(capsys, "train", recipe, "--out", tmp_path / "run")
    assert "nothing.toml: no such recipe; give" in shown


def test_train_refuses_missing_data(tmp_path, capsys):
    recipe = recipe_in(tmp_path, tmp_path / "nowhere")
    shown = fails(capsys, "train", recipe, "--out", tmp_path / "run")
    assert "nowhere: not a prepared corpus; run `prepare`" in shown
    assert not (tmp_path / "run").exists()


def test_train_on_a_run_says_that_it_is_one(begun, tmp_path, capsys):
    shown = fails(capsys, "train", "toy", "--data", begun, "--out", tmp_path / "other")
    assert f"{begun}: a run; with --data name the folder that `prepare` wrote" in shown
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--train.max-steps", 0),
        ("--model.num-heads", 7),
        ("--train.seed", "x"),
        ("--model.positions", "rotary"),
        ("--train.max-stepps", 3),
    ],
)
def test_an_impossible_option_is_refused(tmp_path, data, capsys, option, value):
    recipe = recipe_in(tmp_path, data)
    shown = fails(capsys, "train", recipe, "--out", tmp_path / "run", option, value)
    assert option[2:].replace("-", "_") in shown.replace("-", "_")
    assert not (tmp_path / "run").exists()


def test_a_run_is_not_resumed_with_other_settings(begun, capsys):
    recipe = begun.parent / "recipe.toml"
    before = contents(begun)
    shown = fails(capsys, "train", recipe, "--out", begun, "--model.d-ff", 7)
    assert "holds a run with model.d_ff = 64, now it is 7; give" in shown
    assert contents(begun) == before


def last_line(capsys, *arguments):
    """What a verb ends with that has begun to report progress."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    shown = capsys.readouterr().err
    assert caught.value.code == 2
    assert shown.count("transformer-lite") == 1
    assert "Traceback" not in shown
    return shown.splitlines()[-1]


@pytest.mark.parametrize("kind", ["safetensors", "training.pt"])
def test_train_names_a_damaged_checkpoint(begun, capsys, kind):
    path = begun / "checkpoints" / f"step-00000002.{kind}"
    path.write_bytes(path.read_bytes()[:50])
    recipe = begun.parent / "recipe.toml"
    shown = last_line(capsys, "train", recipe, "--out", begun, "--train.max-steps", 4)
    assert f"step-00000002.{kind}: " in shown
    assert "damaged" in shown
    assert "delete it" in shown


def test_a_loss_that_is_no_number_is_one_line(begun, capsys, monkeypatch):
    def spoil(model, *_):
        raise FloatingPointError("step 3: the loss is nan; give a smaller rate")

    monkeypatch.setattr("transformer_lite.training.trainer.train_step", spoil)
    command = ["train", begun.parent / "recipe.toml", "--out", begun]
    shown = last_line(capsys, *command, "--train.max-steps", 4)
    assert shown == (
        "transformer-lite train: error: step 3: the loss is nan; give a smaller rate"
    )


verbs_that_read = pytest.mark.parametrize("verb", ["average", "translate", "evaluate"])


@verbs_that_read
def test_a_missing_run_is_named(tmp_path, capsys, stdin, verb):
    stdin(b"the\n")
    shown = fails(capsys, verb, tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in shown
    assert ";" in shown
    assert list(tmp_path.iterdir()) == []


@verbs_that_read
def test_a_run_without_a_checkpoint_is_named(begun, capsys, stdin, verb):
    for path in (begun / "checkpoints").iterdir():
        path.unlink()
    (begun / "checkpoints" / "step-00000002.safetensors.partial").write_bytes(b"half")
    stdin(b"the\n")
    shown = fails(capsys, verb, begun)
    assert f"{begun / 'checkpoints'}: " in shown
    assert "checkpoint" in shown
    assert ";" in shown


@verbs_that_read
@pytest.mark.parametrize("length", [0, 5, 500])
def test_a_damaged_checkpoint_is_named(begun, capsys, stdin, verb, length):
    for path in (begun / "checkpoints").glob("*.safetensors"):
        path.write_bytes(path.read_bytes()[:length])
    stdin(b"the\n")
    last = ["--last", 1] if verb == "average" else []
    shown = fails(capsys, verb, begun, *last)
    assert re.search(r"(average|step-00000002)\.safetensors: .*damaged", shown)
    assert "delete it" in shown


@pytest.mark.parametrize("last", [0, -1, 2])
def test_average_refuses_a_number_that_is_not_there(begun, capsys, last):
    before = contents(begun)
    shown = fails(capsys, "average", begun, "--last", last)
    assert f"has 1 checkpoints, and --last is {last}; give --last 1 or less" in shown
    assert contents(begun) == before


def test_a_missing_checkpoint_is_named(begun, capsys, stdin):
    stdin(b"the\n")
    shown = fails(capsys, "translate", begun, "--weights", begun / "no.safetensors")
    assert "no.safetensors: " in shown
    assert "delete it" not in shown


def test_a_line_that_is_not_utf8_does_not_lose_the_others(trained, capsys, stdin):
    """Its place stays empty, and the exit status tells."""
    stdin(b"the\nf\xfcr\na blue cat\n")
    with pytest.raises(SystemExit) as caught:
        run("translate", trained)
    assert caught.value.code == 1
    shown = capsys.readouterr()
    assert [bool(line) for line in shown.out.split("\n")] == [True, False, True, False]
    assert "line 2: not UTF-8 (byte 2), convert the text; left empty" in shown.err


def test_utf16_is_not_taken_for_text(trained, capsys, tmp_path):
    """Between its byte-order mark and its end, every line of it is valid UTF-8."""
    path = tmp_path / "in.txt"
    path.write_bytes("the\na blue cat\n".encode("utf-16-le"))
    with pytest.raises(SystemExit) as caught:
        run("translate", trained, path)
    assert caught.value.code == 1
    shown = capsys.readouterr()
    assert f"{path}, line 1: a zero byte (character 2)" in shown.err
    assert not shown.out.strip()


def test_a_text_in_the_place_of_weights_is_not_to_be_deleted(trained, capsys, tmp_path):
    path = tmp_path / "in.txt"
    path.write_text("the\n")
    shown = fails(capsys, "translate", trained, path, "--weights", path)
    assert f"{path}: the checkpoint is damaged" in shown
    assert "name a .safetensors file" in shown
    assert "delete" not in shown


def test_a_line_that_is_too_long_does_not_lose_the_others(trained, capsys, stdin):
    """Its place stays empty, and the exit status tells."""
    stdin(b"the\n\n\n" + b"dog " * 70 + b"\na blue cat\n")
    with pytest.raises(SystemExit) as caught:
        run("translate", trained)
    assert caught.value.code == 1
    shown = capsys.readouterr()
    assert re.search(
        r"translate: line 4: \d+ tokens are more than .*left empty", shown.err
    )
    translator = Translator.load(trained)
    first, last = translator.translate(["the", "a blue cat"])
    assert shown.out == f"{first}\n\n\n\n{last}\n"


def test_translate_never_writes_over_the_text_it_reads(trained, capsys, tmp_path):
    text = write(tmp_path / "in", ["the"])
    shown = fails(capsys, "translate", trained, text, "--out", text)
    assert "in: is the text to translate; give another --out" in shown
    assert text.read_text() == "the\n"


def test_an_output_that_is_not_whole_is_not_there(
    trained, capsys, tmp_path, monkeypatch
):
    def stream(*_):
        yield "half"
        raise ValueError("an end")

    monkeypatch.setattr(Translator, "stream", stream)
    text = write(tmp_path / "in", ["the"])
    (tmp_path / "out").write_text("old")
    fails(capsys, "translate", trained, text, "--out", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_translate_names_a_text_and_first_of_all_a_run_that_are_not_there(
    trained, capsys, tmp_path
):
    shown = fails(capsys, "translate", trained, tmp_path / "no.txt")
    assert "no.txt: no such file; give a text file, or pipe text in" in shown
    assert f"transformer-lite translate {trained}" in shown
    shown = fails(capsys, "translate", tmp_path / "no", tmp_path / "no.txt")
    assert "no/config.json: no such file; give the folder of a run" in shown
    shown = fails(capsys, "translate", "multi30k_en_ed", tmp_path / "no.txt")
    assert "did you mean multi30k_en_de?" in shown
    shown = fails(capsys, "translate", trained / "config.json", tmp_path / "no.txt")
    assert "config.json: a file; the folder of a run comes first" in shown


def test_translate_refuses_a_folder_as_the_file_to_write(trained, capsys, tmp_path):
    text = write(tmp_path / "in", ["the"])
    (tmp_path / "out").mkdir()
    shown = fails(capsys, "translate", trained, text, "--out", tmp_path / "out")
    assert "out: a folder; give --out the name of a file" in shown
    assert "weights" not in shown  # nothing was translated in vain


def test_translate_says_which_file_a_full_disk_has_no_room_for(tmp_path):
    with (
        pytest.raises(OSError, match="out: cannot be written; make room on the disk"),
        _written(tmp_path / "out"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_option_is_named_wherever_it_stands(trained, capsys):
    for words in (["--nonsense", 2, trained], [trained, "--nonsense", 2]):
        shown = fails(capsys, "translate", *words)
        assert "no option --nonsense; see transformer-lite translate --help" in shown


def test_train_does_not_spoil_a_prepared_corpus(data, capsys):
    before = contents(data)
    shown = fails(capsys, "train", "toy", "--data", data, "--out", data)
    assert "a prepared corpus; give the run another --out" in shown
    assert contents(data) == before


def test_evaluate_takes_pairs_longer_than_a_batch_and_makes_folders(
    trained, data, tmp_path
):
    longest = 1 + max(int(s.lengths.max()) for s in PreparedCorpus(data).ids("test"))
    settings = json.loads((trained / "config.json").read_text())
    settings["train"]["batch_tokens"] = longest - 1
    copy = shutil.copytree(trained, tmp_path / "run")
    (copy / "config.json").write_text(json.dumps(settings))
    written = tmp_path / "new" / "out.json"
    run("evaluate", copy, "--json", written)
    assert json.loads(written.read_text())["loss"] > 0


@pytest.mark.parametrize("option", [["--beam", 0], ["--alpha", -1]])
def test_translate_refuses_an_impossible_search(trained, capsys, stdin, option):
    stdin(b"the\n")
    shown = fails(capsys, "translate", trained, *option)
    assert re.search(r"(beam_size = 0|alpha = -1\S*) is impossible; give", shown)


def test_evaluate_writes_the_translations(trained, data, tmp_path):
    run("evaluate", trained, "--translations", tmp_path / "out.txt")
    sources, _ = PreparedCorpus(data).text("test")
    expected = Translator.load(trained).translate(sources)
    assert (tmp_path / "out.txt").read_text().split("\n") == [*expected, ""]


def test_evaluate_refuses_a_target_that_is_too_long_before_all_the_work(
    trained, tmp_path, capsys, monkeypatch
):
    pairs = [("the red dog sees a cat", "dog " * 70)] * 9
    corpus = Corpus("long", {"train": pairs, "valid": pairs, "test": pairs})
    prepare(corpus, tmp_path / "long", 25, 256, skip_unusable=False)
    shutil.copy(trained / "tokenizer.model", tmp_path / "long")
    monkeypatch.setattr(Translator, "load", None)
    with pytest.raises(SystemExit):
        run("evaluate", trained, "--data", tmp_path / "long")
    said = capsys.readouterr().err  # and a note that this is another corpus
    assert re.search(r"error: .*a sentence of \d+ tokens, longer than model.max", said)


def test_evaluate_refuses_an_unknown_tokenizer_before_all_the_work(
    trained, capsys, monkeypatch
):
    monkeypatch.setattr(Translator, "load", None)
    shown = fails(capsys, "evaluate", trained, "--tokenize", "zhh")
    assert "tokenize = 'zhh'" in shown
    assert "give one of" in shown


def test_evaluate_scores_as_the_target_language_needs_it(
    trained, data, tmp_path, capsys
):
    """The prepared corpus says it, or else the run."""
    moved = Path(shutil.copytree(trained, tmp_path / "run"))
    known = json.loads((moved / "corpus.json").read_text())
    known["languages"] = ["en", "zh"]
    (moved / "corpus.json").write_text(json.dumps(known))
    run("evaluate", moved)
    assert "|tok:zh|" in capsys.readouterr().out
    run("evaluate", moved, "--tokenize", "char")
    assert "|tok:char|" in capsys.readouterr().out


def test_evaluate_names_the_splits_there_are(trained, capsys):
    shown = fails(capsys, "evaluate", trained, "--split", "tset")
    assert 'no split "tset"; name one of train, valid, test' in shown


def other_data(folder, vocab_size):
    """A corpus that is not the one of the fixtures."""
    splits = {"train": sentences(201), "valid": sentences(5), "test": sentences(5)}
    options = files_in(folder, **splits)
    run("prepare", "files", *options, "--out", folder / "x", "--vocab-size", vocab_size)
    return folder / "x"


def test_evaluate_refuses_another_vocabulary(begun, tmp_path, capsys):
    other = other_data(tmp_path, 50)
    shown = fails(capsys, "evaluate", begun, "--data", other)
    assert f"{other}: has another vocabulary than {begun}; give --data" in shown


def test_evaluate_says_that_a_corpus_is_another(begun, data, tmp_path, capsys):
    other = other_data(tmp_path, 60)
    (other / "tokenizer.model").write_bytes((data / "tokenizer.model").read_bytes())
    run("evaluate", begun, "--data", other)
    note = f"note: {other} is not the corpus that {begun} was trained on"
    assert note in capsys.readouterr().err
    run("evaluate", begun)
    assert "note: " not in capsys.readouterr().err


def test_evaluate_asks_where_a_corpus_lies_that_was_moved(begun, capsys):
    config = json.loads((begun / "config.json").read_text())
    (begun / "config.json").write_text(json.dumps(config | {"data": "was/here"}))
    shown = fails(capsys, "evaluate", begun)
    assert "was/here: the corpus of this run is not there; give --data" in shown


def test_evaluate_says_where_a_model_of_the_package_tells_of_its_corpus(capsys):
    shown = fails(capsys, "evaluate", "multi30k_en_de")
    assert "multi30k_en_de/README.md says, and give --data" in shown


def test_translate_knows_a_corpus_from_a_run(data, capsys, stdin):
    stdin(b"")
    shown = fails(capsys, "translate", data, data / "test.src.txt")
    assert f"{data}: a prepared corpus; give the folder that `train` wrote" in shown


def test_evaluate_refuses_missing_data(trained, tmp_path, capsys):
    shown = fails(capsys, "evaluate", trained, "--data", tmp_path / "nowhere")
    assert "nowhere: not a prepared corpus; run `prepare`" in shown


@pytest.mark.parametrize("content", [b"", b"no model", None])
def test_a_damaged_tokenizer_is_named(begun, capsys, stdin, content):
    path = begun / "tokenizer.model"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    stdin(b"the\n")
    assert "tokenizer.model: " in fails(capsys, "translate", begun)


def test_the_installed_command_ends_without_a_traceback(tmp_path):
    with contextlib.chdir(tmp_path):
        ended = subprocess.run(
            [sys.executable, "-m", "transformer_lite", "evaluate", "nowhere"],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert ended.returncode == 2
    assert ended.stderr == (
        "transformer-lite evaluate: error: nowhere/config.json: no such file; "
        "give the folder of a run, or the name of a trained model (multi30k_en_de, "
        "tatoeba_en_de)\n"
    )


# What a critic found


def test_a_recipe_may_have_any_name(data, tmp_path, capsys):
    recipe = recipe_in(tmp_path, data).rename(tmp_path / "recipe")
    run("train", "--out", tmp_path / "run", recipe)
    assert "all 2 steps are done" in capsys.readouterr().out


def test_own_files_are_not_silently_left_out(tmp_path, capsys):
    options = files_in(tmp_path, train=sentences(5), valid=sentences(5))
    shown = fails(capsys, "prepare", "toy", *options, "--out", tmp_path / "x")
    assert "prepare files" in shown
    assert not (tmp_path / "x").exists()


def test_translate_says_which_weights_it_used(trained, capsys, stdin):
    stdin(b"")
    run("translate", trained)
    assert "average.safetensors" in capsys.readouterr().err


def test_ctrl_c_while_the_program_is_loaded_is_no_traceback(tmp_path):
    (tmp_path / "torch.py").write_text(
        "import time\nprint('loading', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-m", "transformer_lite", "train", "toy"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        # Test workers ignore Ctrl-C, and a child would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout.readline() == b"loading\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == -signal.SIGINT
