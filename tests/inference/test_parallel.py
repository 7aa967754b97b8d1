"""Worker processes translate as one process does."""

import json
import os
import signal
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from transformer_lite.cli import main
from transformer_lite.config import ModelConfig, Recipe, SearchConfig
from transformer_lite.inference import parallel
from transformer_lite.inference.parallel import parallel_translator
from transformer_lite.inference.translator import Translator
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


def several(translator, run, workers=2):
    weights = run / "checkpoints" / "average.safetensors"
    return parallel_translator(translator, run, weights, workers)


def test_two_workers_translate_as_one_process(translator, run):
    assert "" in SENTENCES
    expected = translator.translate(SENTENCES)
    assert len(set(expected)) > 5
    with several(translator, run) as workers:
        assert workers.translate(SENTENCES) == expected
        assert workers.translate(SENTENCES[::-1]) == expected[::-1]
        assert workers.translate([]) == []


def test_workers_get_equal_shares(translator, run, monkeypatch):
    shares, batches = [], translator.batches

    def noted(sentences, **options):
        shares.append(options["shares"])
        return batches(sentences, **options)

    with several(translator, run, 2) as workers:
        monkeypatch.setattr(translator, "batches", noted)
        workers.translate(SENTENCES)
    assert shares == [2]


def test_a_sentence_that_is_too_long_is_named(translator, run):
    with (
        several(translator, run, 1) as workers,
        pytest.raises(ValueError, match=r"line 2: \d+ tokens are more"),
    ):
        workers.translate(["dog", "dog " * 30])


def test_the_end_of_a_worker_is_noticed(translator, run, monkeypatch):
    context, processes = parallel.get_context("spawn"), []

    class Context:
        Pipe = staticmethod(context.Pipe)

        @staticmethod
        def Process(**arguments):
            processes.append(context.Process(**arguments))
            return processes[-1]

    monkeypatch.setattr(parallel, "get_context", lambda _: Context)
    with several(translator, run) as workers:
        os.kill(processes[1].pid, signal.SIGKILL)
        with pytest.raises(ValueError, match="one of 2 workers ended early"):
            workers.translate(SENTENCES)
    assert not any(process.is_alive() for process in processes)


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
