"""A run can be stopped anywhere and resumes as if nothing had happened."""

import io
import math
import re
import signal
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from threading import Thread
from unittest.mock import Mock

import pytest
import torch
from small_runs import (
    MODEL,
    TRAIN,
    before_step,
    interrupt,
    names,
    records,
    same_file,
    same_weights,
    saved_steps,
    send,
    start_script,
    train,
    trainer_of,
    without_speed,
)

from transformer_lite.config import ModelConfig
from transformer_lite.model import Transformer
from transformer_lite.optimizer import noam_rate
from transformer_lite.runs.folder import RunFolder, training_path
from transformer_lite.runs.weights import load_weights, read_weights
from transformer_lite.training import trainer
from transformer_lite.training.checkpoint import load_training
from transformer_lite.training.step import LossReport, flops_per_token, train_step


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing interrupted."""
    run = tmp_path_factory.mktemp("whole")
    train(run)
    return run


def training_state(run):
    """Return the last training state of a run, and Adam's moments apart from it."""
    state = load_training(run / "checkpoints" / "step-00000011.training.pt")
    return state, list(state.pop("optimizer")["state"].values())


@pytest.mark.parametrize("steps", [(2,), (10,), (4, 3), (2, 2, 5)], ids=str)
@pytest.mark.parametrize("how", ["crash", signal.SIGTERM])
def test_a_broken_off_run_ends_as_a_whole_one(whole, tmp_path, monkeypatch, steps, how):
    for step in steps:
        interrupt(tmp_path, monkeypatch, step, how)
    train(tmp_path)
    for name in ("step-00000011", "best", "average"):
        assert same_file(whole, tmp_path, name)
    (expected, moments), (found, others) = map(training_state, (whole, tmp_path))
    assert found == expected
    assert len(moments) > 10
    assert all(map(same_weights, moments, others))
    assert without_speed(tmp_path) == without_speed(whole)
    assert names(tmp_path) == names(whole)


@contextmanager
def handled(number, handler):
    """Set how a signal is handled, and see that a run leaves it so."""
    before = signal.signal(number, handler)
    try:
        yield
        assert signal.getsignal(number) == handler
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(
    "numbers", [[signal.SIGTERM], [signal.SIGHUP], [signal.SIGINT] * 2]
)
def test_a_signal_ends_a_run_with_a_checkpoint(tmp_path, monkeypatch, capsys, numbers):
    # torchrun passes Ctrl-C on, so that it comes twice within a moment.
    before_step(monkeypatch, 5, send(*numbers))
    with handled(numbers[0], signal.default_int_handler):
        assert not trainer_of(tmp_path).train()
    message = "stopping after this step with a checkpoint; Ctrl-\\ ends the run"
    assert capsys.readouterr().err.count(message) == 1
    folder = RunFolder(tmp_path)
    path = folder.weights_after(5, extra=True)
    load_weights(Transformer(ModelConfig(**MODEL)), path)
    assert load_training(training_path(path))["step"] == 5
    assert not folder.average.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_is_ignored_stays_so(tmp_path, monkeypatch, number):
    before_step(monkeypatch, 5, send(number))
    with handled(number, signal.SIG_IGN):
        assert trainer_of(tmp_path).train()


def test_a_run_outside_the_main_thread_has_no_handlers(tmp_path, monkeypatch):
    # Python allows them in the main thread only.
    ended = []
    before_step(monkeypatch, 5, lambda _: ended.append(signal.getsignal(signal.SIGINT)))
    before = signal.getsignal(signal.SIGINT)
    thread = Thread(target=lambda: ended.append(trainer_of(tmp_path).train()))
    thread.start()
    thread.join()
    assert ended == [before, True]


def test_a_signal_in_the_last_step_still_finishes_the_run(tmp_path, monkeypatch):
    before_step(monkeypatch, 11, send(signal.SIGTERM))
    assert trainer_of(tmp_path).train()
    assert "average.safetensors" in names(tmp_path)


def test_a_finished_run_resumes_when_it_is_given_more_steps(tmp_path, whole):
    train(tmp_path, max_steps=6)
    train(tmp_path, max_steps=11)
    assert same_file(whole, tmp_path)


def test_a_run_that_had_cooled_down_goes_on_at_the_rate_of_its_new_end(tmp_path, whole):
    train(tmp_path, max_steps=6, cooldown_steps=2)
    train(tmp_path, max_steps=11)
    rates, expected = (
        [record["rate"] for record in records(run, "rate")] for run in (tmp_path, whole)
    )
    assert rates[5] < expected[5]
    assert rates[6:] == expected[6:]


@pytest.mark.parametrize(("first", "then"), [("fp32", "fp16"), ("fp16", "fp32")])
def test_a_run_resumes_in_another_precision(tmp_path, monkeypatch, first, then):
    interrupt(tmp_path, monkeypatch, 5, signal.SIGTERM, precision=first)
    made = train(tmp_path, precision=then)
    assert made.state.step == 11
    assert made.state.scaler.is_enabled() == (then == "fp16")


def test_a_run_leaves_its_last_checkpoints_and_nothing_half_written(whole):
    assert not list(whole.rglob("*.partial"))
    assert names(whole) == [
        "average.safetensors",
        "best.safetensors",
        "step-00000009.safetensors",
        "step-00000009.training.pt",
        "step-00000011.safetensors",
        "step-00000011.training.pt",
    ]


def test_resuming_removes_the_average_of_an_earlier_end(tmp_path, monkeypatch):
    train(tmp_path, max_steps=3)
    assert names(tmp_path, "average.safetensors")
    interrupt(tmp_path, monkeypatch, 2, "crash")
    assert not names(tmp_path, "average.safetensors")


def test_the_best_checkpoint_has_the_lowest_loss_of_all_sessions(tmp_path, monkeypatch):
    losses = iter([5.0, 3.0, 4.0, 3.5, 3.25, 6.0])
    monkeypatch.setattr(
        trainer, "validate", lambda *_: LossReport(next(losses), 1.0, 7)
    )
    often = {"checkpoint_every": 2, "average_checkpoints": 50}
    interrupt(tmp_path, monkeypatch, 7, "crash", **often)
    train(tmp_path, **often)
    folder = RunFolder(tmp_path)
    best, fourth = map(read_weights, (folder.best, folder.weights_after(4)))
    assert same_weights(best, fourth)


class Kill(BaseException):
    """Ends a run between two of its files."""


@pytest.mark.parametrize("moment", [1, 2, 3, 4])
def test_a_run_killed_at_its_first_validation_keeps_the_best_weights(
    tmp_path, monkeypatch, moment
):
    # The first of them is the best of all, and the first checkpoint is due later.
    late = {"checkpoint_every": 5, "max_steps": 6}
    values = {2: 3.0, 4: 4.0, 6: 5.0}

    def made(name):
        run = trainer_of(tmp_path / name, **late)
        report = lambda *_: LossReport(values[run.state.step], 1.0, 7)  # noqa: E731
        monkeypatch.setattr(trainer, "validate", report)
        return run

    def write_and_die(*arguments):
        if next(writes) == moment:
            raise Kill
        os_replace(*arguments)

    assert made("whole").train()
    writes, os_replace = count(), Path.replace
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", write_and_die)
        with pytest.raises(Kill):
            made("killed").train()
    assert made("killed").train()
    assert same_file(tmp_path / "whole", tmp_path / "killed", "best")
    assert without_speed(tmp_path / "whole") == without_speed(tmp_path / "killed")


def test_metrics_have_one_record_for_each_step_and_each_validation(whole):
    steps, validations = (
        [record["step"] for record in records(whole, name)]
        for name in ("train_loss", "valid_loss")
    )
    assert steps == list(range(1, 12))
    assert validations == [2, 4, 6, 8, 10, 11]


def test_rates_are_those_of_equation_3_and_cool_down_if_asked(tmp_path):
    train(tmp_path, cooldown_steps=4)
    rates = [record["rate"] for record in records(tmp_path, "rate")]
    shares = [*[1] * 8, 3 / 4, 2 / 4, 1 / 4]
    expected = [noam_rate(n, MODEL["d_model"], 5) * s for n, s in enumerate(shares, 1)]
    assert rates == pytest.approx(expected)


def test_what_a_validation_callback_finds_in_evaluation_mode_is_recorded(tmp_path):
    made = trainer_of(
        tmp_path, on_validation=lambda: {"mode": made.model.training, "text": ["schön"]}
    )
    made.train()
    found = [(record["mode"], record["text"]) for record in records(tmp_path, "text")]
    assert found == [(False, ["schön"])] * 6
    assert made.model.training


@pytest.mark.parametrize("error", [RuntimeError("CUDA error\nmore"), MemoryError("ü")])
@pytest.mark.parametrize("stderr", ["there", "ASCII"])
def test_samples_never_end_a_run(tmp_path, monkeypatch, capsys, error, stderr):
    if stderr == "ASCII":
        monkeypatch.setattr("sys.stderr", io.TextIOWrapper(io.BytesIO(), "ascii"))
    trainer_of(tmp_path, on_validation=Mock(side_effect=error)).train()
    assert [r["step"] for r in records(tmp_path, "valid_loss")] == [2, 4, 6, 8, 10, 11]
    if stderr == "there":
        shown = capsys.readouterr().err
        assert shown.count("no samples at this validation (") == 6
        assert "more" not in shown


def spoil(model, value=math.nan):
    with torch.no_grad():
        model.encoder.embedding.weight.fill_(value)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_the_run(whole, tmp_path, monkeypatch, value):
    epoch, batch = next(islice(trainer_of(tmp_path).stream.steps(), 7, None)).position
    place = f"after batch {batch} of epoch {epoch + 1}"
    rate = f"{noam_rate(8, MODEL['d_model'], TRAIN['warmup_steps']):.2e}"
    message = rf"step 8: .*nan.* rate {rate}, {place}; .*train\.rate_scale"
    with monkeypatch.context() as patch:
        before_step(patch, 8, lambda model: spoil(model, value))
        with pytest.raises(FloatingPointError, match=message):
            trainer_of(tmp_path).train()
    assert saved_steps(tmp_path) == [3, 6]
    train(tmp_path)  # the checkpoints stand
    assert same_file(whole, tmp_path)


def test_a_loss_too_large_for_a_perplexity_does_not_end_the_run(tmp_path, monkeypatch):
    def large(*arguments):
        return replace(train_step(*arguments), loss=2000.0, nll=2000.0)

    monkeypatch.setattr(trainer, "train_step", large)
    assert trainer_of(tmp_path).train()


def test_a_step_beyond_fp16s_range_is_counted_and_left_out(tmp_path, monkeypatch):
    made = trainer_of(tmp_path, precision="fp16")
    scaler = made.state.scaler
    before_step(monkeypatch, 4, lambda _: scaler.update(new_scale=2.0**60))
    assert made.train()
    skipped = [record["skipped_steps"] for record in records(tmp_path, "train_loss")]
    assert skipped[:3] == [0, 0, 0]
    assert skipped[-1] >= 1


def test_fp16_ends_the_run_when_no_scale_helps(tmp_path, monkeypatch):
    before_step(monkeypatch, 4, spoil)
    with pytest.raises(FloatingPointError, match="loss is nan"):
        trainer_of(tmp_path, precision="fp16", max_steps=200).train()


def test_gradients_are_clipped_if_asked(tmp_path, monkeypatch):
    seen = []

    def note(*arguments):
        seen.append(arguments[-1])
        return train_step(*arguments)

    monkeypatch.setattr(trainer, "train_step", note)
    train(tmp_path, max_steps=2, clip_norm=0.25)
    assert seen == [0.25, 0.25]


def test_the_record_has_the_models_operations_a_second(whole, tmp_path, monkeypatch):
    made = trainer_of(tmp_path)
    flops = flops_per_token(made.model.config, *map(round, made.stream.mean_lengths()))
    for record in records(whole, "model_tflops"):
        expected = record["tokens_per_second"] * flops / 1e12
        assert record["model_tflops"] == pytest.approx(expected)
    assert len(records(whole, "model_tflops")) == 11
    assert not records(whole, "model_flops_utilization")
    monkeypatch.setattr(trainer, "peak_tflops", lambda *_: 2e-6)
    made.train()
    for record in records(tmp_path, "model_tflops"):
        expected = record["model_tflops"] / 2e-6
        assert record["model_flops_utilization"] == pytest.approx(expected)


COMPILED = """
import sys
from functools import partial
from pathlib import Path

import torch
from small_runs import train
from torch._dynamo.utils import counters


# Traced as for any backend; this one needs no C++ compiler.
torch.compile = partial(torch.compile, backend="aot_eager")
model = train(Path(sys.argv[1]), compile=True).model
print("graphs", counters["stats"]["unique_graphs"])
model.double()(torch.full((2, 3), 5), torch.full((2, 4), 5))
print("graphs", counters["stats"]["unique_graphs"])
"""


def test_compiled_layers_learn_the_same_and_compile_nothing_afterwards(whole, tmp_path):
    with start_script(COMPILED, tmp_path) as process:
        said, errors = process.communicate()
    assert process.returncode == 0, errors
    in_training, afterwards = map(int, re.findall(r"graphs (\d+)", said))
    assert 2 <= in_training <= 4  # of two kinds, in training and in validation
    assert in_training == afterwards  # though float64 would ask for new ones
    runs = (tmp_path, whole)
    found, expected = ([r["train_loss"] for r in records(run, "rate")] for run in runs)
    assert found == pytest.approx(expected, rel=0.05)
