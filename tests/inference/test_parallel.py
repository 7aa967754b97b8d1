"""Worker processes translate as one process does."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from multiprocessing import active_children
from pathlib import Path

import pytest
import torch

from transformer_lite.cli import main
from transformer_lite.config import ModelConfig, Recipe, SearchConfig
from transformer_lite.inference import parallel
from transformer_lite.inference import translator as module
from transformer_lite.inference.parallel import parallel_translator
from transformer_lite.inference.translator import Translator, batches_by_length
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import Tokenizer
from transformer_lite.training import checkpoint

WORDS = "red green blue dog cat sees hears".split()
LINES = [" ".join(WORDS), " ".join(reversed(WORDS)), "dog dog cat red"] * 3
SENTENCES = [" ".join(WORDS[i % 7 : i % 5 + i % 7]) for i in range(23)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of an untrained run."""
    folder = tmp_path_factory.mktemp("run")
    tokenizer = Tokenizer.train(LINES, 40)
    tokenizer.save(folder / "tokenizer.model")
    shape = {"num_layers": 1, "d_model": 6, "num_heads": 2, "d_ff": 11, "max_len": 29}
    search = SearchConfig(beam_size=3, max_extra=5, batch_sentences=4)
    model = ModelConfig(vocab_size=40, **shape)
    recipe = Recipe(data=Path("data"), model=model, search=search)
    (folder / "config.json").write_text(json.dumps(asdict(recipe), default=str))
    torch.manual_seed(3)
    weights = checkpoint.weights_of(Transformer(model))
    for parameter in weights.values():  # so that outputs differ from source to source
        parameter += 0.4 * torch.randn_like(parameter)
    checkpoint.save_weights(folder / "checkpoints" / "average.safetensors", weights)
    return folder


@pytest.fixture(scope="module")
def translator(run):
    return Translator.load(run)


def test_two_workers_translate_as_one_process(translator):
    assert "" in SENTENCES
    expected = translator.translate(SENTENCES)
    assert len(set(expected)) > 5
    with parallel_translator(translator, 2) as workers:
        assert workers.translate(SENTENCES) == expected
        assert workers.translate(SENTENCES[::-1]) == expected[::-1]
        assert workers.translate([]) == []


def test_workers_stream_as_one_process(translator):
    lines = [*SENTENCES, "dog " * 30]
    with parallel_translator(translator, 2) as workers:
        found = list(workers.stream(lines, lambda message: None))
    assert found == [*translator.translate(SENTENCES), ""]


def test_workers_get_equal_shares(translator, monkeypatch):
    """What is dealt out are batches for two."""
    dealt = []

    def noted(lengths, batch_sentences, shares):
        dealt.append(batches_by_length(lengths, batch_sentences, shares))
        return list(dealt[-1])

    monkeypatch.setattr(module, "batches_by_length", noted)
    with parallel_translator(translator, 2) as workers:
        workers.translate(SENTENCES[:9])
    lengths = [len(translator.tokenizer.encode(text)) for text in SENTENCES[:9]]
    (batches,) = dealt
    first, second = (sum(lengths[i] for i in rows) for rows in batches[:2])
    assert abs(first - second) <= 4


def test_workers_take_the_weights_that_are_loaded_already(run, tmp_path):
    """While a run is training, a file may have other weights a moment later."""
    moved = Path(shutil.copytree(run, tmp_path / "run"))
    translator = Translator.load(moved)
    expected = translator.translate(SENTENCES)
    shutil.rmtree(moved)
    with parallel_translator(translator, 2) as workers:
        assert workers.translate(SENTENCES) == expected


def test_a_sentence_that_is_too_long_is_named(translator):
    with (
        parallel_translator(translator, 1) as workers,
        pytest.raises(ValueError, match=r"line 2: \d+ tokens are more"),
    ):
        workers.translate(["dog", "dog " * 30])


def test_the_end_of_a_worker_is_noticed(translator):
    with parallel_translator(translator, 2) as workers:
        workers.translate(SENTENCES)
        processes = active_children()
        os.kill(processes[0].pid, signal.SIGKILL)
        with pytest.raises(ValueError, match="one of 2 workers ended early"):
            workers.translate(SENTENCES * 29)
    assert not any(process.is_alive() for process in processes)


def test_a_worker_that_cannot_begin_says_why(translator, monkeypatch):
    monkeypatch.setattr(parallel, "_pickled", lambda _: b"nonsense")
    with (
        parallel_translator(translator, 2) as workers,
        pytest.raises(ValueError, match=r"could not begin \(UnpicklingError: .*fewer"),
    ):
        workers.translate(SENTENCES)


def test_a_workers_own_error_is_shown_as_what_it_is(translator):
    with (
        parallel_translator(translator, 1) as workers,
        pytest.raises(ValueError, match="not all of a vocabulary of 40"),
    ):
        list(workers._search_all([[[997, 2]]], translator.search))


ENDLESS = """\
import os, sys
from pathlib import Path
from transformer_lite.inference.parallel import parallel_translator
from transformer_lite.inference.translator import Translator

if __name__ == "__main__":
    with parallel_translator(Translator.load(sys.argv[1]), 2) as workers:
        workers.translate(["dog cat"] * 9)
        print(*(child.pid for child in __import__("multiprocessing").active_children()))
        sys.stdout.flush()
        while True:
            workers.translate(["dog cat", "red dog sees"] * 99)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_process_that_began_them(run, tmp_path, number):
    (tmp_path / "endless.py").write_text(ENDLESS)
    with subprocess.Popen(
        [sys.executable, tmp_path / "endless.py", run],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Test workers ignore Ctrl-C, and a child would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        children = [int(pid) for pid in process.stdout.readline().split()]
        assert len(children) == 2
        process.send_signal(number)
        process.wait(timeout=60)
    deadline = time.monotonic() + 20
    while any(map(is_alive, children)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(pid):
    """Whether there is such a process, other than one that nobody has waited for."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1][:3]
    except OSError:
        return False


def test_more_workers_than_gpus_are_refused(translator, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with (
        pytest.raises(ValueError, match="--workers 2 need a GPU each, and there are 1"),
        parallel_translator(translator, 2),
    ):
        pass


def test_the_command_line_takes_workers(translator, run, monkeypatch, tmp_path):
    given = tmp_path / "in.txt"
    given.write_text("".join(f"{line}\n" for line in SENTENCES))
    written = tmp_path / "out.txt"
    with given.open() as stdin, written.open("w") as stdout:
        monkeypatch.setattr("sys.stdin", stdin)
        monkeypatch.setattr("sys.stdout", stdout)
        main(["translate", str(run), "--workers", "2"])
    assert written.read_text().splitlines() == translator.translate(SENTENCES)


def test_no_worker_at_all_is_refused(run, capsys, monkeypatch, tmp_path):
    (tmp_path / "in.txt").write_text("dog\n")
    with (tmp_path / "in.txt").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with pytest.raises(SystemExit) as caught:
            main(["translate", str(run), "--workers", "0"])
    assert caught.value.code == 2
    assert "--workers 0 is impossible; give at least 1" in capsys.readouterr().err
