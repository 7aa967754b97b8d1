"""Files of one's own are prepared, or refused, with a note on what is hardly meant."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from command_line import fails, run, write

from transformer_lite.data.store import PreparedCorpus

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.usefixtures("types_unchecked")


@pytest.fixture
def files(tmp_path):
    """The files of two splits in two languages."""
    for split, count in (("train", 40), ("valid", 3)):
        for code, word in (("en", "dog"), ("de", "Hund")):
            lines = [f"{word} {number} {split}" for number in range(count)]
            write(tmp_path / f"{split}.{code}", lines)
    return tmp_path


def arguments(files, **splits):
    words = ["--source", "en", "--target", "de", "--vocab-size", 40]
    for split in ("train", "valid"):
        names = splits.get(split, [f"{split}.en", f"{split}.de"])
        words += [f"--{split}", *(files / name for name in names)]
    return [*words, "--out", files / "out"]


@pytest.mark.parametrize(
    ("splits", "note"),
    [
        ({}, ""),
        ({"train": ["train.en", "train.en"]}, "train.en as source and as target"),
        ({"valid": ["train.en", "train.de"]}, "train.de is in --train and --valid"),
        ({"valid": ["valid.de", "valid.en"]}, "--valid names the de file before the"),
    ],
)
def test_what_is_hardly_meant_is_noted(files, capsys, splits, note):
    run("prepare-files", *arguments(files, **splits))
    said = [line for line in capsys.readouterr().err.split("\n") if "note: " in line]
    assert note in "".join(said)
    assert bool(said) == bool(note)


@pytest.mark.parametrize("code", ["korean", "k", "ko kr"])
def test_what_is_no_code_of_a_language_is_refused(files, capsys, code):
    given = arguments(files)
    shown = fails(capsys, "prepare-files", *given, "--target", code)
    assert f'"{code}" is no code of a language; give two or three letters' in shown


@pytest.mark.parametrize("verb", ["prepare-files", "prepare-trees"])
def test_what_can_be_read_only_once_is_refused_at_once(files, capsys, verb):
    os.mkfifo(files / "pipe")  # which nobody writes to: opening it would wait
    shown = fails(
        capsys,
        verb,
        *(["--source", "en", "--target", "de"] if verb == "prepare-files" else []),
        *("--train", files / "train.en", files / "train.de"),
        *("--valid", files / "pipe", files / "valid.de", "--out", files / "out"),
    )
    assert "pipe: can be read only once; write the text to a file" in shown


def test_a_full_disk_is_named(files):
    # A limit on the size of files, which the ids of one sentence pass.
    line = "dog " * 3000
    for name in ("train.en", "train.de"):
        write(files / name, [*(f"{line}{n}" for n in range(10)), "train 0123456789"])
    words = [*arguments(files), "--max-length", 99999]
    program = (
        "import resource, sys; from transformer_lite import cli;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000));"
        "cli.main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, "prepare-files", *map(str, words)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 2
    assert f"{files / 'out'}: cannot be written (File too large); free" in ended.stderr
    assert not [path for path in files.iterdir() if path.name.startswith("out")]


def test_the_vocabulary_does_not_know_of_what_is_left_out(files):
    """Not even of a sentence that is just too long, and of a character of its own."""
    vocabularies, random = [], Random(1)
    longer = ["".join(random.choices("dogtrainß", k=k)) for k in (2000, 60, 40)]
    for name, added in (("without", []), ("with", longer)):
        given = arguments(files)[:-1]
        lines = (files / "train.en").read_text().splitlines()
        (files / name).mkdir()
        write(files / name / "train.en", [*added, *lines])
        lines = (files / "train.de").read_text().splitlines()
        write(files / name / "train.de", [*("Hund" for _ in added), *lines])
        given[given.index("--train") + 1] = files / name / "train.en"
        given[given.index("--train") + 2] = files / name / "train.de"
        limit = ["--max-length", 30, "--skip-unusable"]
        run("prepare-files", *given, files / name / "out", *limit)
        corpus = PreparedCorpus(files / name / "out")
        assert corpus.left_out == ({"too long": 3} if added else {})
        vocabularies.append((files / name / "out" / "tokenizer.model").read_bytes())
    assert vocabularies[0] == vocabularies[1]


@pytest.mark.parametrize("text", ["\u200b", "\u200b \u2060", "\ufeff\t"])
def test_what_is_invisible_is_empty(files, capsys, text):
    write(files / "valid.en", ["dog 1", text, "dog 2"])
    shown = fails(capsys, "prepare-files", *arguments(files))
    assert "line 2: empty; remove this pair" in shown


@pytest.mark.parametrize("missing", ["train", "valid"])
def test_a_split_without_a_file_is_named(tmp_path, capsys, missing):
    text = tmp_path / "pairs.tsv"
    text.write_text("one\teins\n")
    files = {"train": [text], "valid": [text], missing: []}
    words = [word for split in files for word in (f"--{split}", *files[split])]
    command = ["prepare-files", "--source", "en", "--target", "de", *words]
    message = fails(capsys, *command, "--out", tmp_path / "out")
    assert f"--{missing} names no file" in message
