"""The command line as a process of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "transformer_lite"]


def spins(tmp_path, **environment):
    """How often a thread of the command line looks whether it has work."""
    command = ["train", "toy", "--data", tmp_path, "--out", tmp_path / "o"]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GOMP_", "OMP_W"))}
    ended = subprocess.run(
        [*COMMAND, *command],
        env={**kept, "OMP_DISPLAY_ENV": "verbose", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "not a prepared corpus" in ended.stderr
    found = re.search(r"GOMP_SPINCOUNT = '(\d+)'", ended.stderr)
    if found is None:
        pytest.skip("this PyTorch does not use GNU's OpenMP")
    return int(found[1])


def test_threads_soon_sleep_while_they_wait_or_at_once_if_asked_to(tmp_path):
    assert spins(tmp_path) == 10_000
    assert spins(tmp_path, OMP_WAIT_POLICY="PASSIVE") == 0


def answer(*words, code=None, **environment):
    """Status, output and errors of a command; `code` runs first."""
    program = f"{code or ''}\nfrom transformer_lite import cli\ncli.main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, *map(str, words)],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        cwd=ROOT,
    )
    return ended.returncode, *(
        part.decode(errors="replace") for part in (ended.stdout, ended.stderr)
    )


@pytest.mark.parametrize(
    ("words", "encoding"),
    [("translate --help", "ascii"), ("page --help", "cp949")],
)
def test_any_terminal_is_written_to(words, encoding):
    status, shown, said = answer(*words.split(), PYTHONIOENCODING=encoding)
    assert (status, said) == (0, "")
    assert shown.startswith("usage: ")


def test_whoever_writes_a_line_and_waits_is_answered():
    with subprocess.Popen(
        [*COMMAND, "translate", "multi30k_en_de", "--beam", "1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    ) as process:
        for sentence in (b"A dog runs.\n", b"\n", "中 A man\u0315 \x1b.\n".encode()):
            process.stdin.write(sentence)
            process.stdin.flush()  # and keep it open
            answered = process.stdout.readline()
            assert bool(answered.strip()) == bool(sentence.strip())
        _, said = process.communicate(timeout=60)
    never = "“中” (U+4E2D), “◌\u0315” (U+0315), “\\x1b” (U+001B)"
    note = f"note: line 3: the model has never seen {never}; it reads “unknown”"
    assert note in said.decode()
    assert process.returncode == 0


@pytest.mark.parametrize(("closed", "name"), [("0<&-", "input"), ("1>&-", "output")])
def test_what_is_closed_is_named(closed, name):
    shell = f"exec {' '.join(COMMAND)} translate multi30k_en_de {closed}"
    given = {"input": b"A dog.\n"} if name == "output" else {}
    ended = subprocess.run(
        shell, shell=True, stderr=subprocess.PIPE, cwd=ROOT, check=False, **given
    )
    said = ended.stderr.decode().splitlines()
    assert f"standard {name} is closed; name a file" in said[-1]
    assert not any("Traceback" in line for line in said)
    assert ended.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has it")
@pytest.mark.parametrize("words", ["--version", "--help", "page --help"])
def test_a_full_disk_is_named(words):
    shell = f"{' '.join(COMMAND)} {words} >/dev/full"
    ended = subprocess.run(shell, shell=True, stderr=subprocess.PIPE, cwd=ROOT)
    said = ended.stderr.decode()
    assert "error: standard output: cannot be written (No space left" in said
    assert said.count("\n") == 1
    assert ended.returncode == 2


def fails_by(error):
    module = "from transformer_lite.data import verbs"
    return f"{module}\ndef fail(*_): {error}\nverbs.load_corpus = fail"


FAULTS = {
    "ours": "from transformer_lite.data.corpora import load_corpus",
    "memory": fails_by('raise RuntimeError("can\'t allocate memory: 9 bytes")'),
    "of a library": fails_by("import ast; ast.literal_eval('f()')"),
    "a mistake": fails_by("raise RuntimeError('a mistake')"),
}
"""What happens when a corpus is asked for that does not exist."""


@pytest.mark.parametrize("debug", ["", "1"])
@pytest.mark.parametrize("fault", FAULTS)
def test_only_what_users_can_mend_is_one_line(tmp_path, fault, debug):
    words = ["prepare", "toy", "--source", "ko", "--out", tmp_path / "out"]
    status, _, said = answer(*words, code=FAULTS[fault], TRANSFORMER_LITE_DEBUG=debug)
    is_one_line = fault in ("ours", "memory") and not debug
    assert ("Traceback" not in said) == is_one_line == (status == 2)
    assert said.startswith("transformer-lite prepare: error: ") == is_one_line


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGKILL"])
def test_a_prepare_that_is_stopped_leaves_nothing(tmp_path, name):
    command = [*COMMAND, "prepare", "toy", "--out", tmp_path / "out"]
    # Under nohup, which would be inherited, SIGHUP is ignored.
    default = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)
    given = {"stderr": subprocess.PIPE, "cwd": ROOT, "preexec_fn": default}
    with subprocess.Popen(command, **given) as process:
        while not [*tmp_path.glob("out.*.partial/out")]:
            time.sleep(0.01)
            assert process.poll() is None
        process.send_signal(getattr(signal, name))
        said = process.communicate(timeout=60)[1].decode()
    if name != "SIGKILL":
        assert said.endswith("transformer-lite prepare: interrupted\n")
        assert process.returncode == 130
        assert not [*tmp_path.iterdir()]
        return
    (tmp_path / "out.mine.partial").mkdir()  # somebody else's
    subprocess.run([*command, "--vocab-size", "200"], check=True, cwd=ROOT)
    assert {path.name for path in tmp_path.iterdir()} == {"out", "out.mine.partial"}


def test_closed_errors_do_not_come_among_the_translations():
    shell = f"exec {' '.join(COMMAND)} translate multi30k_en_de 2>&-"
    ended = subprocess.run(
        ["sh", "-c", shell], input=b"A dog runs on the beach.\n", capture_output=True
    )
    assert ended.stdout.decode() == "Ein Hund rennt am Strand.\n"
    assert ended.returncode == 0
