"""The verbs do their work, and answer bad input with one line and status 2."""

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
from threading import Thread
from types import SimpleNamespace

import pytest
import torch
from command_line import ends, fails, recipe_in, run, write

from transformer_lite import __version__
from transformer_lite.cli import INTERRUPTED, find_verbs
from transformer_lite.data.corpora import Corpus, SentencePair
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.translator import Output, Translator
from transformer_lite.runs.folder import RunFolder
from transformer_lite.runs.weights import average, read_weights
from transformer_lite.training import step

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "transformer_lite"]
WORDS = "the red dog sees a blue cat and hears it".split()
pytestmark = pytest.mark.usefixtures("types_unchecked")


def sentences(count, seed=1):
    """One to five words in any order."""
    random = Random(seed)
    return [" ".join(random.choices(WORDS, k=1 + i % 5)) for i in range(count)]


def files_in(folder, **splits):
    """Arguments of `prepare` that name a source and an equal target for each split."""
    options = ["--source", "en", "--target", "en", "--out", folder / "data"]
    for split, lines in splits.items():
        paths = [folder / f"{split}.{side}" for side in ("src", "tgt")]
        options += [f"--{split}", *(write(path, lines) for path in paths)]
    return options


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A prepared corpus of 200 pairs whose targets copy their sources."""
    folder = tmp_path_factory.mktemp("copy")
    splits = {"train": sentences(200), "valid": sentences(20, seed=2)}
    options = files_in(folder, **splits, test=sentences(20, seed=3))
    run("prepare-files", *options, "--vocab-size", 60)
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


def test_prepare_says_what_it_wrote_and_what_it_left_out(tmp_path, capsys):
    lines = [*sentences(60), "", "", "dog " * 99]
    options = files_in(tmp_path, train=lines)
    pairs = [f"{line}\t{line}" for line in sentences(5)]
    options += ["--valid", write(tmp_path / "valid.tsv", pairs)]  # one file, with tabs
    options += ["--vocab-size", 50, "--max-length", 90, "--skip-unusable"]
    run("prepare-files", *options)
    shown = capsys.readouterr().out
    assert "60 train, 5 valid pairs, 50 tokens" in shown
    assert "left out: 2 empty, 1 too long" in shown
    assert PreparedCorpus(tmp_path / "data").sizes == {"train": 60, "valid": 5}


def test_a_vocabulary_is_smaller_for_little_text_unless_its_size_is_asked_for(
    tmp_path, monkeypatch, capsys
):
    pairs = [SentencePair(line, line) for line in sentences(60)]
    corpus = Corpus("wmt14", dict.fromkeys(("train", "valid"), pairs), ("en", "de"))
    monkeypatch.setattr("transformer_lite.data.verbs.load_corpus", lambda *_: corpus)
    command = ["prepare", "wmt14", "--out", tmp_path / "data"]
    shown = fails(capsys, *command, "--vocab-size", 37_000)
    most = re.search(r"37000 \(--vocab-size\) does not .* at most (\d+)", shown)
    run(*command)
    shown = capsys.readouterr().out
    assert f"60 valid pairs, {most[1]} tokens in the vocabulary\n" in shown
    assert "the text is too little for 37,000 tokens: these are all\n" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("toy --vocabulary craft_parser --vocab-size 9", "has a size already; remove"),
        ("toy --vocabulary nothing", "nothing: holds no run; give a folder"),
        ("multi30k --target ko", "multi30k has no en–ko; take two of en, de, fr"),
        ("toy --out .", "is not a name for a new folder; give another"),
        ("toy --out {there}", "already there, perhaps with your work; give another"),
    ],
)
def test_prepare_refuses_before_anything_is_written(
    tmp_path, monkeypatch, capsys, arguments, message
):
    monkeypatch.chdir(tmp_path)
    words = ["--out", "data", *arguments.format(there=ROOT).split()]
    assert message in fails(capsys, "prepare", *words)
    assert list(tmp_path.iterdir()) == []


def test_the_toy_corpus_is_prepared_and_trained_on(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run("prepare", "toy", "--out", "data/toy")
    assert "10,000 train, 500 valid, 500 test pairs" in capsys.readouterr().out
    run("train", "toy", "--train.max-steps", 3)
    config = json.loads((tmp_path / "runs" / "toy" / "config.json").read_text())
    assert (config["train"]["max_steps"], config["model"]["num_layers"]) == (3, 2)


def test_the_same_command_resumes_a_stopped_run(data, tmp_path, monkeypatch, capsys):
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
    assert "complete, at step 4" in capsys.readouterr().out


def test_an_option_may_be_unset(monkeypatch):
    given = []
    monkeypatch.setattr(
        "transformer_lite.training.run.train_recipe",
        lambda recipe, out, _: given.append(recipe.train) or True,
    )
    command = ["train", "wmt14_base", "--data", ROOT]
    run(*command)
    run(*command, "--train.checkpoint-minutes", "None")
    assert [train.checkpoint_minutes for train in given] == [10, None]


def test_the_help_of_train_does_not_offer_what_the_data_decides(capsys):
    with pytest.raises(SystemExit):
        run("train", "wmt14_base", "--help")
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "None" not in shown
    assert "--model.vocab-size" not in shown
    assert "--train.global-batch-tokens INT" in shown
    assert "instead of checkpoint_every. (default: 10)" in shown


@pytest.mark.parametrize("verb", ["", "train toy", *find_verbs()])
def test_help_is_narrow_and_says_nothing_of_defaults_that_are_none(capsys, verb):
    assert ends(*verb.split(), "--help") == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 88
    assert "\n\n\n" not in shown
    assert not re.search(r"default:\s*(none|'')?\)", shown)
    assert (verb != "translate") or "[OPTIONS] RUN [TEXT]\n" in shown


def test_a_trained_model_is_trained_on(trained, data, tmp_path, capsys):
    command = ["train", recipe_in(tmp_path, data, 1), "--out", tmp_path / "run"]
    run(*command, "--begin-with", trained)
    shown = fails(capsys, *command, "--begin-with", "multi30k_en_de")
    assert f"run: began with {trained}; give --begin-with {trained}, which may" in shown


def test_average_takes_the_runs_number_or_the_one_asked_for(begun, capsys):
    folder, recipe = RunFolder(begun), begun.parent / "recipe.toml"
    every_step = ["--train.checkpoint-every", 1, "--train.max-steps", 6]
    run("train", recipe, "--out", begun, *every_step)
    own = folder.average.read_bytes()
    run("average", begun, "--last", 2)
    shown = capsys.readouterr().out
    mean = "replaced by the mean of step-00000005, step-00000006"
    assert f"{folder.average}: {mean}\n" in shown
    written, expected = read_weights(folder.average), average(folder.step_checkpoints())
    assert written.keys() == expected.keys()
    assert folder.average.read_bytes() != own
    run("average", begun)
    assert folder.average.read_bytes() == own


@pytest.mark.parametrize("last", [0, 2])
def test_average_refuses_a_number_that_is_not_there(begun, capsys, last):
    before = contents(begun)
    shown = fails(capsys, "average", begun, "--last", last)
    assert "has 1 checkpoints; give --last from 1 to 1" in shown
    shown = fails(capsys, "average", "multi30k_en_de")  # a model of the package
    assert "multi30k_en_de: is an average already; use it as it is" in shown
    assert contents(begun) == before


def translations(trained, lines):
    return Translator.load(trained).translate(lines)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"the red dog\n\n  \nthe\n", ["the red dog", "", "", "the"]),
        (b"the red dog\r\n\r\nthe", ["the red dog", "", "the"]),
    ],
    ids=["nothing", "blank lines", "windows, no last line end"],
)
def test_translate_gives_a_line_for_each_line(trained, stdin, capsys, text, lines):
    stdin(text)
    run("translate", trained)
    shown = capsys.readouterr()
    expected = [translations(trained, [line])[0] if line else "" for line in lines]
    assert shown.out == "".join(f"{line}\n" for line in expected)
    assert re.search(r"weights: .*average\.safetensors", shown.err)


def test_an_interrupted_translation_is_kept(trained, capsys, tmp_path, monkeypatch):
    def stream(*_, **__):
        yield [Output("half", 0.0, 0.0)]
        raise KeyboardInterrupt

    monkeypatch.setattr(Translator, "stream", stream)
    text, out = write(tmp_path / "in", ["the", "red"]), tmp_path / "out"
    out.write_text("old")
    assert ends("translate", trained, text, "--out", out) == INTERRUPTED
    (kept,) = tmp_path.glob("out.*.partial")
    assert f"{kept}: keeps what was written so far" in capsys.readouterr().err
    assert out.read_text() == "old"
    assert ends("translate", trained, text, "--out", out) == INTERRUPTED
    both = [path.read_text() for path in tmp_path.glob("out.*.partial")]
    assert both == ["half\n", "half\n"]


def test_whoever_types_is_told_what_to_do(trained, monkeypatch, capsys):
    typed = type("Terminal", (io.BytesIO,), {"isatty": lambda _: True})(b"the\n")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=typed))
    run("translate", trained)
    assert "type a sentence" in capsys.readouterr().err


def test_an_error_before_the_first_line_leaves_nothing(trained, tmp_path, monkeypatch):
    text, out = write(tmp_path / "in", ["the"]), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(Translator, "stream", lambda *_, **__: iter([1]))  # no text
        with pytest.raises(TypeError):
            run("translate", trained, text, "--out", out)
    run("translate", trained, text, "--out", out)
    assert out.read_text()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_translated_as_a_file_is(trained, tmp_path):
    pipe, out = tmp_path / "pipe", tmp_path / "out"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=["the\n"])
    writer.start()
    run("translate", trained, pipe, "--out", out)
    writer.join()
    assert out.read_text()


def test_a_line_that_cannot_be_used_does_not_lose_the_others(trained, capsys, stdin):
    stdin(b"the\n\n" + b"dog " * 70 + b"\nf\xfcr\nt\0h\0\na blue cat\n")
    assert ends("translate", trained) == 1
    shown = capsys.readouterr()
    first, last = translations(trained, ["the", "a blue cat"])
    assert shown.out == f"{first}\n\n\n\n\n{last}\n"
    assert re.search(r"line 3: \d+ tokens are more than .*left empty", shown.err)
    assert "line 4: not UTF-8 (byte 2), convert the text; left empty" in shown.err
    assert "line 5: contains a zero byte, convert UTF-16" in shown.err


def test_of_many_unusable_lines_the_first_are_named_and_the_others_counted(
    trained, capsys, stdin
):
    stdin(b"\xff\n" * 786 + "".join(f"{chr(0x4E00 + i)}\n" for i in range(12)).encode())
    assert ends("translate", trained) == 1
    shown = capsys.readouterr()
    assert shown.out.count("\n") == 786 + 12
    assert shown.err.count("not UTF-8") == shown.err.count("has never seen") == 10
    *_, notes, lines = shown.err.splitlines()
    assert (notes, lines) == ("and 2 more notes", "and 776 more unusable lines")


def test_translate_ends_when_nobody_reads_on(trained):
    # The lines never end: a program that read them all first would never answer.
    pipe = subprocess.PIPE
    command = [*COMMAND, "translate", trained, "--beam", "1"]
    with (
        subprocess.Popen(["yes", "a blue cat"], stdout=pipe) as lines,
        subprocess.Popen(
            command, stdin=lines.stdout, stdout=pipe, stderr=pipe, cwd=ROOT
        ) as translating,
    ):
        lines.stdout.close()
        assert translating.stdout.readline().strip()
        translating.stdout.close()
        said = translating.stderr.read().decode()
        assert translating.wait(timeout=60) == INTERRUPTED
        lines.kill()
    assert said.startswith("weights: ")
    assert "Traceback" not in said


def test_evaluate_shows_and_writes_the_same_scores(trained, data, tmp_path, capsys):
    files = ["--json", tmp_path / "scores.json", "--translations", tmp_path / "out.txt"]
    run("evaluate", trained, *files)
    scores = json.loads((tmp_path / "scores.json").read_text())
    shown = capsys.readouterr().out
    table = dict(line.split(maxsplit=1) for line in shown.splitlines())
    assert table.keys() == scores.keys()
    assert scores["sentences"] == 20
    assert scores["exact_match"] >= 80
    assert scores["loss"] > 0
    assert float(table["bleu"]) == pytest.approx(scores["bleu"], abs=0.005)
    sources, _ = PreparedCorpus(data).text("test")
    expected = translations(trained, sources)
    assert (tmp_path / "out.txt").read_text().split("\n") == [*expected, ""]
    assert len(list(tmp_path.iterdir())) == 2
    run("evaluate", trained, "--split", "valid", "--tokenize", "char")
    assert "|tok:char|" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("multi30k_en_de", "prepare multi30k --source en --target de --vocabulary"),
        ("craft_parser", "prepare-trees … --vocabulary craft_parser --out data/craft"),
    ],
)
def test_evaluate_says_how_to_have_the_data_of_a_model(
    tmp_path, monkeypatch, capsys, name, command
):
    monkeypatch.chdir(tmp_path)
    shown = fails(capsys, "evaluate", name)
    assert f"data/{name}: no such folder in {tmp_path}; {name} was trained" in shown
    assert f"make it with `transformer-lite {command}" in shown


def test_evaluate_takes_pairs_longer_than_a_batch(trained, data, tmp_path):
    longest = 1 + max(int(s.lengths.max()) for s in PreparedCorpus(data).ids("test"))
    copy = shutil.copytree(trained, tmp_path / "run")
    settings = json.loads((copy / "config.json").read_text())
    settings["train"]["batch_tokens"] = longest - 1
    (copy / "config.json").write_text(json.dumps(settings))
    run("evaluate", copy, "--json", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())["loss"] > 0


def test_evaluate_notes_that_a_corpus_is_another(begun, data, tmp_path, capsys):
    splits = {"train": sentences(201), "valid": sentences(5), "test": sentences(5)}
    other = tmp_path / "data"
    files = files_in(tmp_path, **splits)
    run("prepare-files", *files, "--vocab-size", 50)
    shown = fails(capsys, "evaluate", begun, "--data", other)
    remedy = f"prepare the text with --vocabulary {begun}"
    assert f"{other}: has another vocabulary than {begun}; {remedy}" in shown
    shutil.rmtree(other)
    run("prepare-files", *files, "--vocabulary", begun)
    size = PreparedCorpus(data).tokenizer.vocab_size
    assert f"pairs, {size} tokens in the vocabulary" in capsys.readouterr().out
    run("evaluate", begun, "--data", other)
    note = f"note: {other} is not the corpus that {begun} was trained on"
    assert note in capsys.readouterr().err
    run("evaluate", begun)
    assert "note: " not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--tokenize moses", "tokenize = 'moses': unknown; give one of none, zh, 13a"),
        ("--split tset", 'no split "tset"; name one of train, valid, test'),
        ("--data nowhere", "nowhere: no such folder in {folder}; make it with"),
        ("--json {folder}/text/x.json", "x.json: cannot be written"),
        ("--translations {folder}", "{folder}: a folder; give the name of a file"),
        ("--beam 0", "beam_size = 0 is impossible; give 1 to 1,000"),
    ],
)
def test_evaluate_refuses_before_all_the_work(
    trained, tmp_path, capsys, monkeypatch, words, message
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Translator, "load", None)
    text = write(tmp_path / "text", ["no folder"])
    given = words.format(folder=tmp_path).split()
    shown = fails(capsys, "evaluate", trained, *given)
    assert message.format(folder=tmp_path) in shown
    assert list(tmp_path.iterdir()) == [text]


def test_evaluate_says_what_to_do_on_a_gpu_without_room(trained, capsys, monkeypatch):
    def out_of_memory(*_):
        raise torch.OutOfMemoryError("Tried to allocate 20 GiB")

    monkeypatch.setattr(step, "validate", out_of_memory)
    shown = fails(capsys, "evaluate", trained)
    assert "no room for the loss" in shown
    assert "evaluate without a GPU" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("verb", ["average", "translate", "evaluate"])
def test_a_run_that_is_not_whole_is_named(begun, capsys, stdin, verb):
    stdin(b"the\n")
    assert f"{begun}-2: holds no run; give" in fails(capsys, verb, f"{begun}-2")
    last = ["--last", 1] if verb == "average" else []
    for length in (500, 0):
        for path in (begun / "checkpoints").glob("*.safetensors"):
            path.write_bytes(path.read_bytes()[:length])
        shown = fails(capsys, verb, begun, *last)
        assert re.search(r"(average|step-00000002)\.safetensors: .*damaged", shown)
    for path in (begun / "checkpoints").iterdir():
        path.unlink()
    shown = fails(capsys, verb, begun)
    assert re.search(rf"{begun / 'checkpoints'}: .*checkpoint.*;", shown)


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "corpus.json",
        "tokenizer.model",
        "checkpoints/average.safetensors",
    ],
)
def test_what_the_system_refuses_to_read_is_named(begun, capsys, name):
    path = begun / name
    path.unlink(missing_ok=True)
    path.symlink_to(path.name)
    remedy = "Too many levels of symbolic links; check its path and permissions\n"
    assert f"error: {path}: {remedy}" in fails(capsys, "evaluate", begun)


def test_the_n_best_are_written_with_their_scores(trained, capsys, stdin):
    stdin(b"the red dog\n\n")
    run("translate", trained, "--n-best", 2, "--beam", 3)
    best, second, empty = capsys.readouterr().out.splitlines()
    fields = [line.split(" ||| ") for line in (best, second)]
    assert [field[0] for field in fields] == ["0", "0"]
    assert fields[0][1] == translations(trained, ["the red dog"])[0] != fields[1][1]
    scores = [float(field[3]) for field in fields]
    assert scores == sorted(scores, reverse=True)
    log_probs = [float(field[2].removeprefix("F0= ")) for field in fields]
    assert all(a < b < 0 for a, b in zip(log_probs, scores, strict=True))
    assert empty == "1 |||  ||| F0= 0.000000 ||| 0.000000"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("{run} {text} --n-best 0", "--n-best 0 is impossible; give 1 to 4, the beam"),
        ("{run} {text} --n-best 3 --beam 2", "--n-best 3 is impossible; give 1 to 2"),
        ("{run} no.txt", "no.txt: no such file; give a text file, or pipe text in"),
        ("{run} {run}", "a folder; give a text file, or pipe text in"),
        ("{run} {text} --out {text}", "text: would overwrite an input, {text}; give"),
        ("{run} {text} --out {run}", "a folder; give"),
        ("{run} {text} --weights no.safetensors", "no.safetensors: "),
        ("multi30k_en_ed {text}", "did you mean multi30k_en_de?"),
    ],
)
def test_translate_names_what_is_not_there(trained, capsys, tmp_path, words, message):
    text = write(tmp_path / "text", ["the"])
    words = words.format(run=trained, text=text).split()
    message = message.format(text=text)
    assert message in fails(capsys, "translate", *words)
    assert contents(tmp_path) == {text: b"the\n"}


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("", 2, "usage: transformer-lite VERB"),
        ("--version", 0, f"transformer-lite {__version__}\n"),
        ("tranlsate", 2, 'error: no verb "tranlsate"; did you mean translate?'),
        ("\x1b[31m", 2, r'error: no verb "\x1b[31m"; take prepare, '),
        ("--help", 0, "recipes         multi30k_de, "),
        ("--help", 0, "trained models  craft_parser, multi30k_en_de"),
        ("prepare toy --ou x", 2, "error: unknown option --ou; did you mean --out?"),
        (
            "prepare tyo --out x",
            2,
            "error: invalid choice 'tyo' for argument 'corpus'.",
        ),
        (
            "prepare-files --out x --source en",
            2,
            "error: missing --target STR, --train",
        ),
        ("translate", 2, "error: missing RUN (The run's folder, or a model of the"),
        ("train toy --trian.seed=3", 2, "--trian.seed=3; did you mean --train.seed?"),
        ("train toy --train.nope 3", 2, "--train.nope; see transformer-lite train toy"),
        ("train toy --seed 3", 2, "--seed; did you mean --train.seed?"),
        ("prepare toy --out", 2, "error: --out needs a value; see"),
        ("train toy --model.vocab-size 9", 2, "unknown option --model.vocab-size; "),
        ("train --help", 0, "toy            A small model that learns the toy grammar"),
        ("train --num-heads 2 toy", 2, "the recipe comes before the options"),
        ("train toy --train.seed x", 2, 'Error parsing --train.seed: "x" is no'),
        ("translate toy --beam x", 2, 'Error parsing --beam: "x" is no whole'),
        ("train toy --train.max-steps 0", 2, "max_steps = 0 is impossible"),
        ("train toy --model.positions no", 2, "'sinusoidal', 'learned'"),
        ("train toy --help", 0, "--model.num-layers INT"),
    ],
)
def test_a_command_is_answered_without_a_traceback(
    capsys, monkeypatch, words, status, message
):
    if status:  # however narrow the terminal is
        monkeypatch.setenv("COLUMNS", "20")
    if words == "--version":
        run(words)
    else:
        assert ends(*words.split()) == status
    shown = capsys.readouterr()
    assert message in (shown.err if status else shown.out)
    if "error: " in shown.err:
        assert shown.err.count("\n") == 1


def test_want_of_memory_is_one_line_and_our_mistakes_show(begun, capsys, monkeypatch):
    errors = [MemoryError("step 3: give smaller batches"), RuntimeError("a mistake")]

    def spoil(*_):
        raise errors.pop(0)

    monkeypatch.setattr("transformer_lite.training.run.train_recipe", spoil)
    recipe = begun.parent / "recipe.toml"
    assert "step 3: give smaller batches" in fails(capsys, "train", recipe)
    with pytest.raises(RuntimeError, match="a mistake"):
        run("train", recipe)


# A process of its own: the tests themselves have long imported everything.
UNWANTED = """
import sys
from transformer_lite import cli
try:
    cli.main(sys.argv[1:])
except SystemExit:
    pass
slow = {"torch", "sacrebleu", "pooch", "tensorboard", "matplotlib", "IPython"}
assert not slow & set(sys.modules), slow & set(sys.modules)
"""


@pytest.mark.parametrize(
    "words",
    [
        "train toy --help",
        "tranlsate",
        "prepare toy --out README.md",
        "average nothing",
        "translate multi30k_en_de nothing.txt",
        "evaluate nothing",
        "train toy --data nothing",
        "evaluate multi30k_en_de --data nothing",
    ],
)
def test_help_and_mistakes_import_nothing_slow(words):
    command = [sys.executable, "-c", UNWANTED, *words.split()]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)


def test_a_page_needs_none_of_the_books_libraries(tmp_path):
    program = (
        "import sys; sys.modules |= dict.fromkeys(['matplotlib', 'IPython']);"
        "from transformer_lite import cli; cli.main(sys.argv[1:])"
    )
    words = ["page", "multi30k_en_de", "--out", str(tmp_path / "page")]
    subprocess.run([sys.executable, "-c", program, *words], check=True, cwd=ROOT)
    assert (tmp_path / "page" / "index.html").exists()
