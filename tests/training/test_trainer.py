"""A run can be stopped anywhere and resumes as if nothing had happened."""

import json
import math
import os
import re
import signal
import subprocess
import sys
from itertools import count, islice
from pathlib import Path
from unittest import mock

import pytest
import torch

from transformer_lite.batching import Batch, BatchStream, Sequences, fixed_batches
from transformer_lite.config import ModelConfig, TrainConfig
from transformer_lite.loss import label_smoothed_loss
from transformer_lite.model import Transformer
from transformer_lite.optimizer import noam_rate
from transformer_lite.tokenizer import PAD
from transformer_lite.training import checkpoint, step, trainer
from transformer_lite.training.folder import RunFolder, training_path
from transformer_lite.training.step import (
    Report,
    StepReport,
    evaluation_mode,
    train_step,
    validate,
)
from transformer_lite.training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[2]
MODEL = ModelConfig(
    vocab_size=17,
    num_layers=1,
    d_model=6,
    d_ff=7,
    num_heads=2,
    dropout=0.2,
    max_len=23,
)
TRAIN = {
    "batch_tokens": 37,
    "max_steps": 11,
    "warmup_steps": 5,
    "checkpoint_every": 3,
    "validate_every": 2,
    "average_checkpoints": 2,
    "precision": "fp32",
}


def pairs(count):
    lists = [[4 + (i * j) % 13 for j in range(1, 2 + i % 7)] for i in range(count)]
    return Sequences.from_lists(lists), Sequences.from_lists(lists)


def trainer_of(run, d_ff=7, on_validation=dict, **changes):
    config = TrainConfig(**{**TRAIN, **changes})
    torch.manual_seed(config.seed)
    model = Transformer(ModelConfig(**{**vars(MODEL), "d_ff": d_ff}))
    stream = BatchStream(*pairs(61), config.batch_tokens, config.seed)
    validation = fixed_batches(*pairs(5), 60)
    return Trainer(model, stream, validation, config, run, on_validation=on_validation)


def train(run, **changes):
    made = trainer_of(run, **changes)
    assert made.train()
    return made


class Crash(BaseException):
    """Ends a run as abruptly as a test can."""


def before_step(monkeypatch, number, act):
    """Call `act(model)` at the beginning of a step; steps of all runs are counted."""
    steps, original = count(1), train_step

    def step_and_act(objective, *rest):
        if next(steps) == number:
            act(objective.model)
        return original(objective, *rest)

    monkeypatch.setattr(trainer, "train_step", step_and_act)


def crash(_):
    raise Crash


def interrupt(run, monkeypatch, step, how, **changes):
    """A run that a crash or a signal ends in one of its steps."""
    with monkeypatch.context() as patch:
        if how == "crash":
            before_step(patch, step, crash)
            with pytest.raises(Crash):
                trainer_of(run, **changes).train()
        else:
            before_step(patch, step, lambda _: os.kill(os.getpid(), how))
            assert not trainer_of(run, **changes).train()


def records(run):
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line]


CLOCK = {"tokens_per_second", "loader_wait", "memory_gib"}


def without_speed(run):
    return [
        {name: value for name, value in record.items() if name not in CLOCK}
        for record in records(run)
    ]


def same_weights(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[n], two[n]) for n in one)


def same_file(one, two, name):
    return same_weights(
        *(checkpoint.read_weights(run / "checkpoints" / name) for run in (one, two))
    )


def names(run, pattern="*"):
    return sorted(path.name for path in (run / "checkpoints").glob(pattern))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing interrupted."""
    run = tmp_path_factory.mktemp("whole")
    train(run)
    return run


def test_an_epoch_is_longer_than_the_time_between_checkpoints():
    # Otherwise no test here would resume in the middle of an epoch.
    stream = BatchStream(*pairs(61), TRAIN["batch_tokens"], 1)
    length = len(stream.epoch(0))
    assert TRAIN["checkpoint_every"] < length
    assert all(step % length for step in range(3, TRAIN["max_steps"], 3))


INTERRUPTIONS = [(2,), (5,), (7,), (10,), (4, 3), (8, 2), (2, 2, 5)]
WAYS = {"crash": "crash", "term": signal.SIGTERM, "int": signal.SIGINT}


@pytest.fixture(scope="module", params=INTERRUPTIONS, ids=str)
def steps(request):
    """In which step of each attempt a run is interrupted."""
    return request.param


@pytest.fixture(scope="module", params=WAYS.values(), ids=WAYS.keys())
def interrupted(request, steps, tmp_path_factory):
    """The folder of a run that was interrupted, and resumed to its end."""
    run = tmp_path_factory.mktemp("interrupted")
    with pytest.MonkeyPatch.context() as patch:
        for step in steps:
            interrupt(run, patch, step, request.param)
    train(run)
    return run


@pytest.mark.parametrize("name", ["step-00000011", "best", "average"])
def test_an_interrupted_run_ends_with_the_same_weights(whole, interrupted, name):
    assert same_file(whole, interrupted, f"{name}.safetensors")


def test_an_interrupted_run_ends_with_the_same_training_state(whole, interrupted):
    one, two = (
        checkpoint.load_training(run / "checkpoints" / "step-00000011.training.pt")
        for run in (whole, interrupted)
    )
    states = [state.pop("optimizer")["state"] for state in (one, two)]
    assert len(states[0]) > 10
    for state, other in zip(*map(dict.values, states), strict=True):
        assert same_weights(state, other)
    assert one == two


def test_metrics_of_an_interrupted_run_are_those_of_a_whole_one(whole, interrupted):
    assert without_speed(interrupted) == without_speed(whole)


def test_an_interrupted_run_leaves_the_same_files(whole, interrupted):
    assert names(interrupted) == names(whole)


def test_dropout_is_on_in_training(tmp_path, whole):
    made = trainer_of(tmp_path)
    for module in made.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    made.train()
    assert not same_file(whole, tmp_path, "step-00000011.safetensors")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_with_a_whole_checkpoint(tmp_path, monkeypatch, number):
    interrupt(tmp_path, monkeypatch, 5, number)
    path = tmp_path / "checkpoints" / "step-00000005.stopped.safetensors"
    checkpoint.load_weights(Transformer(MODEL), path)
    assert checkpoint.load_training(training_path(path))["step"] == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_signals_old_handler_is_back_after_the_run(tmp_path, monkeypatch, number):
    before = signal.getsignal(number)
    interrupt(tmp_path, monkeypatch, 5, number)
    assert signal.getsignal(number) == before


def test_a_run_stopped_by_a_signal_writes_no_average(tmp_path, monkeypatch):
    interrupt(tmp_path, monkeypatch, 8, signal.SIGTERM)
    assert "average.safetensors" not in names(tmp_path)


def test_a_signal_in_the_last_step_still_finishes_the_run(tmp_path, monkeypatch):
    before_step(monkeypatch, 11, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert trainer_of(tmp_path).train()
    assert "average.safetensors" in names(tmp_path)


def test_training_a_finished_run_again_changes_nothing(tmp_path):
    train(tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    train(tmp_path)
    assert before == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}


def test_a_finished_run_resumes_when_it_is_given_more_steps(tmp_path, whole):
    train(tmp_path, max_steps=6)
    train(tmp_path, max_steps=11)
    assert same_file(whole, tmp_path, "step-00000011.safetensors")


def test_a_half_written_checkpoint_is_ignored(whole, tmp_path, monkeypatch):
    interrupt(tmp_path, monkeypatch, 5, "crash")
    for name in ("step-00000004.safetensors.partial", "step-00000004.training.pt"):
        (tmp_path / "checkpoints" / name).write_bytes(b"half")
    train(tmp_path)
    assert same_file(whole, tmp_path, "step-00000011.safetensors")


def test_a_crash_between_the_two_files_of_a_checkpoint_is_survived(
    whole, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        original = checkpoint.save_weights

        def save(path, weights):
            if path.name == "step-00000006.safetensors":
                raise Crash
            original(path, weights)

        patch.setattr(checkpoint, "save_weights", save)
        with pytest.raises(Crash):
            trainer_of(tmp_path).train()
    train(tmp_path)
    assert same_file(whole, tmp_path, "step-00000011.safetensors")


@pytest.mark.parametrize("kind", [".safetensors", ".training.pt"])
def test_a_damaged_newest_checkpoint_is_named_and_the_remedy_works(
    whole, tmp_path, monkeypatch, kind
):
    interrupt(tmp_path, monkeypatch, 8, "crash")
    newest = tmp_path / "checkpoints" / "step-00000006.safetensors"
    damaged = newest.with_suffix(kind)
    damaged.write_bytes(damaged.read_bytes()[:100])
    with pytest.raises(ValueError, match=rf"step-00000006\{kind}: .*delete it"):
        trainer_of(tmp_path).train()
    newest.unlink()
    train(tmp_path)
    assert same_file(whole, tmp_path, "step-00000011.safetensors")
    assert without_speed(tmp_path) == without_speed(whole)


def test_a_checkpoint_without_training_state_is_named(tmp_path, monkeypatch):
    interrupt(tmp_path, monkeypatch, 5, "crash")
    (tmp_path / "checkpoints" / "step-00000003.training.pt").unlink()
    with pytest.raises(ValueError, match=r"checkpoints: .*no \.training\.pt"):
        trainer_of(tmp_path).train()


def test_a_run_resumes_from_the_newest_checkpoint_that_has_a_state(whole, tmp_path):
    train(tmp_path, max_steps=6)
    (tmp_path / "checkpoints" / "step-00000006.training.pt").unlink()
    train(tmp_path)
    assert same_file(whole, tmp_path, "step-00000011.safetensors")


def test_one_process_alone_compares_its_checkpoint_with_nobodys(tmp_path, monkeypatch):
    interrupt(tmp_path, monkeypatch, 5, "crash")
    checksum = mock.Mock()
    monkeypatch.setattr(checkpoint.TrainingState, "_checksum", checksum)
    train(tmp_path)
    assert not checksum.called


def test_a_foreign_training_state_is_named(tmp_path):
    train(tmp_path, max_steps=3)
    state = tmp_path / "checkpoints" / "step-00000003.training.pt"
    checkpoint.save_training(state, {"step": 3})
    with pytest.raises(ValueError, match=r"step-00000003\.training\.pt: .*delete it"):
        trainer_of(tmp_path).train()


def test_resuming_removes_the_average_of_an_earlier_end(tmp_path, monkeypatch):
    train(tmp_path, max_steps=3)
    assert names(tmp_path, "average.safetensors")
    interrupt(tmp_path, monkeypatch, 2, "crash")
    assert not names(tmp_path, "average.safetensors")


def test_fewer_steps_than_a_run_has_are_refused(tmp_path):
    train(tmp_path, max_steps=3)
    with pytest.raises(ValueError, match="max_steps = 2 is less than the 3 steps"):
        train(tmp_path, max_steps=2)


def test_a_run_does_not_resume_from_another_models_checkpoint(tmp_path, monkeypatch):
    interrupt(tmp_path, monkeypatch, 5, "crash", d_ff=13)
    with pytest.raises(ValueError, match=r"step-00000003\.safetensors: .*another"):
        trainer_of(tmp_path).train()


def test_the_last_checkpoints_are_kept_and_older_ones_deleted(whole):
    assert names(whole, "step-*.safetensors") == [
        "step-00000009.safetensors",
        "step-00000011.safetensors",
    ]


@pytest.mark.parametrize("kept", [1, 2, 3, 5])
def test_at_most_two_checkpoints_can_be_resumed_from(tmp_path, kept):
    train(tmp_path, average_checkpoints=kept, checkpoint_every=1)
    states = [name.removesuffix(".training.pt") for name in names(tmp_path, "*.pt")]
    weights = [path.stem for path in RunFolder(tmp_path).step_checkpoints()]
    assert len(weights) == max(kept, 2)  # one may be damaged
    assert states == weights[-2:]


def test_a_damaged_checkpoint_leaves_the_one_before_it(tmp_path):
    train(tmp_path, average_checkpoints=1, checkpoint_every=1, max_steps=4)
    before, newest = RunFolder(tmp_path).step_checkpoints()
    newest.write_bytes(b"half")
    with pytest.raises(ValueError, match="delete it, and the one before it takes"):
        train(tmp_path, average_checkpoints=1, checkpoint_every=1, max_steps=5)
    newest.unlink()
    train(tmp_path, average_checkpoints=1, checkpoint_every=1, max_steps=5)
    assert before.stem == "step-00000003"
    assert [path.stem for path in RunFolder(tmp_path).step_checkpoints()] == [
        "step-00000004",
        "step-00000005",
    ]


def test_raising_the_interval_deletes_no_earlier_checkpoint(tmp_path):
    train(tmp_path, max_steps=6, average_checkpoints=5)
    train(tmp_path, max_steps=10, average_checkpoints=5, checkpoint_every=5)
    steps = [int(path.stem[5:]) for path in RunFolder(tmp_path).step_checkpoints()]
    assert steps == [3, 6, 10]


@pytest.mark.parametrize("minutes", [None, 1e-9])
def test_a_checkpoint_that_a_signal_caused_is_in_no_average(
    tmp_path, monkeypatch, minutes
):
    interrupt(tmp_path, monkeypatch, 5, signal.SIGTERM)
    assert names(tmp_path, "step-*.safetensors") == [
        "step-00000003.safetensors",
        "step-00000005.stopped.safetensors",
    ]
    train(tmp_path, average_checkpoints=50, checkpoint_minutes=minutes)
    saved = names(tmp_path, "step-*.safetensors")
    assert "step-00000003.safetensors" in saved
    assert not [name for name in saved if "00000005" in name]


@pytest.mark.parametrize(("step", "averaged"), [(2, [2]), (5, [3, 5])])
def test_where_a_signal_stopped_a_run_that_is_to_end_there_its_weights_are_averaged(
    tmp_path, monkeypatch, step, averaged
):
    interrupt(tmp_path, monkeypatch, step, signal.SIGTERM)
    folder = RunFolder(tmp_path)
    stopped = checkpoint.read_weights(folder.weights_after(step, stopped=True))
    train(tmp_path, max_steps=step)
    paths = [folder.weights_after(number) for number in averaged]
    assert folder.resumable_checkpoints() == paths
    assert same_weights(checkpoint.read_weights(paths[-1]), stopped)
    average = checkpoint.read_weights(folder.average)
    assert same_weights(average, checkpoint.average(paths))


def test_a_signal_at_a_regular_checkpoint_adds_none(tmp_path, monkeypatch):
    interrupt(tmp_path, monkeypatch, 6, signal.SIGTERM)
    assert names(tmp_path, "step-*.safetensors") == [
        "step-00000003.safetensors",
        "step-00000006.safetensors",
    ]


def test_a_signal_saves_where_a_regular_checkpoint_has_lost_its_state(
    tmp_path, monkeypatch
):
    train(tmp_path, max_steps=6)
    (tmp_path / "checkpoints" / "step-00000006.training.pt").unlink()
    interrupt(tmp_path, monkeypatch, 3, signal.SIGTERM, checkpoint_every=50)
    assert "step-00000006.stopped.training.pt" in names(tmp_path)


def test_weights_of_steps_that_are_taken_again_are_not_averaged(tmp_path):
    often = {"checkpoint_every": 2, "average_checkpoints": 50}
    train(tmp_path, max_steps=8, **often)
    (tmp_path / "checkpoints" / "step-00000008.training.pt").unlink()
    train(tmp_path, max_steps=9, **often | {"checkpoint_every": 7})
    steps = [int(path.stem[5:]) for path in RunFolder(tmp_path).step_checkpoints()]
    assert steps == [2, 4, 6, 7, 9]


def test_nothing_half_written_is_left(whole):
    assert not list(whole.rglob("*.partial"))
    assert names(whole) == [
        "average.safetensors",
        "best.safetensors",
        "step-00000009.safetensors",
        "step-00000009.training.pt",
        "step-00000011.safetensors",
        "step-00000011.training.pt",
    ]


def test_the_average_is_that_of_the_last_checkpoints(whole):
    paths = RunFolder(whole).step_checkpoints()
    written = checkpoint.read_weights(whole / "checkpoints" / "average.safetensors")
    assert len(paths) == 2
    assert same_weights(written, checkpoint.average(paths))


def losses(monkeypatch, *values):
    reports = iter(Report(loss=value, nll=value, tokens=7) for value in values)
    monkeypatch.setattr(trainer, "validate", lambda *_: next(reports))


def test_the_best_checkpoint_is_that_of_the_lowest_validation_loss(
    tmp_path, monkeypatch
):
    losses(monkeypatch, 5.0, 3.0, 4.0, 3.5, 3.25, 6.0, 2.0)
    seen = []

    def remember():
        seen.append({n: t.clone() for n, t in weights(made).items()})
        return {}

    def weights(of):
        return checkpoint.weights_of(of.model)

    made = trainer_of(tmp_path, on_validation=remember)
    made.train()
    best = checkpoint.read_weights(tmp_path / "checkpoints" / "best.safetensors")
    assert len(seen) == 6
    assert [same_weights(best, one) for one in seen] == [False, True, *[False] * 4]


def test_a_resumed_run_remembers_its_lowest_validation_loss(tmp_path, monkeypatch):
    path = tmp_path / "checkpoints" / "best.safetensors"
    losses(monkeypatch, 5.0, 3.0, 4.0)
    interrupt(tmp_path, monkeypatch, 7, "crash")
    best = path.read_bytes()
    losses(monkeypatch, 3.5, 3.25, 6.0, 2.0)
    train(tmp_path)
    assert path.read_bytes() == best


@pytest.mark.parametrize("of_average", [2.0, 3.05, 4.0])
def test_an_average_much_worse_than_the_best_checkpoint_is_pointed_out(
    tmp_path, monkeypatch, capsys, of_average
):
    made = trainer_of(tmp_path)
    losses(monkeypatch, 5.0, 3.0, 4.0, 3.5, 3.25, 6.0, of_average)
    made.train()
    shown = capsys.readouterr().err
    told = "average of the last checkpoints has the validation loss 4.000, the best"
    assert (told in shown) == (of_average == 4.0)
    # The model is still that of the last step.
    last = checkpoint.read_weights(made.folder.weights_after(11))
    assert same_weights(last, checkpoint.weights_of(made.model))


def test_metrics_have_one_record_for_each_step(whole):
    steps = [record["step"] for record in records(whole) if "train_loss" in record]
    assert steps == list(range(1, 12))


@pytest.mark.parametrize("unread", [0, 1])
def test_a_checkpoint_has_the_records_of_its_steps_beside_it(
    tmp_path, monkeypatch, unread
):
    made, found = trainer_of(tmp_path), []
    made._may_be_unread = unread
    save = made.state.save

    def then_look(*arguments):
        steps = [r["step"] for r in records(tmp_path) if "train_loss" in r]
        found.append((made.state.step, steps))
        save(*arguments)

    monkeypatch.setattr(made.state, "save", then_look)
    made.train()
    assert [number for number, _ in found] == [3, 6, 9, 11]
    assert all(steps == list(range(1, n + 1)) for n, steps in found)


def test_reports_read_one_step_late_are_the_same(whole, tmp_path):
    made = trainer_of(tmp_path)
    made._may_be_unread = 1  # as on GPUs
    assert made.train()
    assert without_speed(tmp_path) == without_speed(whole)
    assert same_file(whole, tmp_path, "step-00000011.safetensors")


# After step 6 there is a validation, before which all reports are read.
@pytest.mark.parametrize("asked", [5, 6])
def test_a_stop_that_is_read_one_step_late_is_obeyed_one_step_later(
    whole, tmp_path, monkeypatch, asked
):
    with monkeypatch.context() as patch:
        before_step(patch, asked, lambda _: os.kill(os.getpid(), signal.SIGTERM))
        made = trainer_of(tmp_path)
        made._may_be_unread = 1
        assert not made.train()
    assert made.state.step == asked + 1
    train(tmp_path)
    assert same_file(whole, tmp_path, "step-00000011.safetensors")
    assert without_speed(tmp_path) == without_speed(whole)


def test_metrics_have_one_record_for_each_validation(whole):
    steps = [record["step"] for record in records(whole) if "valid_loss" in record]
    assert steps == [2, 4, 6, 8, 10, 11]


def test_metrics_of_a_step_are_complete(whole):
    assert records(whole)[0].keys() == {
        "step",
        "train_loss",
        "train_perplexity",
        "rate",
        "gradient_norm",
        "tokens",
        "tokens_per_second",
        "padding",
        "loader_wait",
        "memory_gib",
        "skipped_steps",
    }


def test_rates_are_those_of_equation_3(whole):
    rates = [record["rate"] for record in records(whole) if "rate" in record]
    expected = [noam_rate(step, MODEL.d_model, 5) for step in range(1, 12)]
    assert rates == pytest.approx(expected)


def test_what_a_validation_callback_returns_is_recorded(tmp_path):
    train(tmp_path, on_validation=lambda: {"translations": ["schön"]})
    found = [record for record in records(tmp_path) if "translations" in record]
    assert len(found) == 6
    assert all(record["translations"] == ["schön"] for record in found)


def test_line_separators_in_a_translation_do_not_stop_a_resume(tmp_path, monkeypatch):
    strange = {"translations": ["a\u2028b\u2029c\u0085d\x1ee"]}
    interrupt(tmp_path, monkeypatch, 5, "crash", on_validation=lambda: strange)
    train(tmp_path, on_validation=lambda: strange)
    assert (
        sum(record.get("translations") is not None for record in records(tmp_path)) == 6
    )


def test_a_record_cut_short_by_a_crash_does_not_stop_a_resume(
    whole, tmp_path, monkeypatch
):
    interrupt(tmp_path, monkeypatch, 5, "crash")
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "train_lo')
    train(tmp_path)
    assert without_speed(tmp_path) == without_speed(whole)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_is_no_number_ends_the_run_with_a_remedy(
    tmp_path, monkeypatch, value
):
    def spoil(model):
        with torch.no_grad():
            model.encoder.embedding.weight.fill_(value)

    before_step(monkeypatch, 8, spoil)
    batch = next(islice(trainer_of(tmp_path).stream.steps(), 7, None)).batches[0]
    pairs = ", ".join(str(number + 1) for number in batch.pairs)
    rate = f"{noam_rate(8, MODEL.d_model, TRAIN['warmup_steps']):.2e}"
    message = rf"step 8: .*nan.* rate {rate}, .*pairs {pairs}; .*train\.rate_scale"
    with pytest.raises(FloatingPointError, match=message):
        trainer_of(tmp_path).train()


def test_a_step_beyond_fp16s_range_is_counted_and_the_run_goes_on(
    tmp_path, monkeypatch
):
    def overflow(model):
        made.state.scaler.update(new_scale=2.0**60)

    made = trainer_of(tmp_path, precision="fp16")
    before_step(monkeypatch, 4, overflow)
    assert made.train()
    skipped = [r["skipped_steps"] for r in records(tmp_path) if "train_loss" in r]
    assert skipped[:3] == [0, 0, 0]
    assert skipped[-1] >= 1


def test_fp16_ends_the_run_when_no_scale_helps(tmp_path, monkeypatch):
    def spoil(model):
        with torch.no_grad():
            model.encoder.embedding.weight.fill_(math.nan)

    before_step(monkeypatch, 4, spoil)
    with pytest.raises(FloatingPointError, match="loss is nan"):
        trainer_of(tmp_path, precision="fp16", max_steps=200).train()


def test_an_interrupted_run_in_fp16_ends_with_the_same_weights(tmp_path, monkeypatch):
    train(tmp_path / "one", precision="fp16")
    interrupt(tmp_path / "two", monkeypatch, 8, signal.SIGTERM, precision="fp16")
    train(tmp_path / "two", precision="fp16")
    assert same_file(tmp_path / "one", tmp_path / "two", "average.safetensors")


@pytest.mark.parametrize(("first", "then"), [("fp32", "fp16"), ("fp16", "fp32")])
def test_a_run_resumes_in_another_precision(tmp_path, monkeypatch, first, then):
    interrupt(tmp_path, monkeypatch, 5, signal.SIGTERM, precision=first)
    made = train(tmp_path, precision=then)
    assert made.state.step == 11
    assert made.state.scaler.is_enabled() == (then == "fp16")


def test_checkpoints_are_written_by_the_clock_where_minutes_are_given(tmp_path):
    train(tmp_path, checkpoint_minutes=1e-9, average_checkpoints=4)
    saved = RunFolder(tmp_path).step_checkpoints()
    assert [path.stem[-2:] for path in saved] == ["08", "09", "10", "11"]


def test_a_run_shorter_than_its_minutes_has_one_checkpoint(tmp_path):
    train(tmp_path, checkpoint_minutes=1000.0)
    assert names(tmp_path, "step-*.safetensors") == ["step-00000011.safetensors"]


def test_after_a_loss_that_is_no_number_the_old_checkpoint_stands(
    whole, tmp_path, monkeypatch
):
    def spoil(model):
        with torch.no_grad():
            model.encoder.embedding.weight.fill_(math.nan)

    with monkeypatch.context() as patch:
        before_step(patch, 6, spoil)
        with pytest.raises(FloatingPointError):
            trainer_of(tmp_path).train()
    assert names(tmp_path, "step-*.safetensors") == ["step-00000003.safetensors"]
    train(tmp_path)
    assert same_file(whole, tmp_path, "step-00000011.safetensors")


def test_a_loss_too_large_for_a_perplexity_does_not_end_the_run(tmp_path, monkeypatch):
    def large(*arguments):
        tokens = train_step(*arguments).tokens
        return StepReport(torch.tensor([2000.0, 2000.0, 1.0, 0.0]), tokens)

    monkeypatch.setattr(trainer, "train_step", large)
    assert trainer_of(tmp_path).train()


def test_progress_shows_speed_loss_rate_and_time_left(tmp_path, capsys):
    train(tmp_path)
    shown = capsys.readouterr().err
    assert re.search(r"tokens/s, train_loss \d+\.\d+, rate \d", shown)
    assert re.search(r"11/11 \[\d+:\d+<\d+:\d+", shown)


def small_model(dropout=0.0):
    torch.manual_seed(3)
    return Transformer(ModelConfig(**{**vars(MODEL), "dropout": dropout}))


ONE = Batch.from_ids([[5, 7], [11]], [[5, 7, 9], [11]])
TWO = Batch.from_ids([[13, 5, 6, 8, 10]], [[13, 5, 6, 8, 10]])


def test_validation_does_not_depend_on_how_sentences_are_batched():
    model = small_model()
    batches = [Batch.from_ids([row], [row]) for row in ([5, 7], [11], [13, 5, 6])]
    together = Batch.from_ids([[5, 7], [11], [13, 5, 6]], [[5, 7], [11], [13, 5, 6]])
    one, two = (validate(model, part, 0.1) for part in (batches, [together]))
    assert one == pytest.approx(two, rel=1e-5)


def test_validation_without_smoothing_is_the_negative_log_likelihood():
    report = validate(small_model(), [ONE, TWO], 0.0)
    assert report.loss == pytest.approx(report.nll, rel=1e-6)
    assert report.tokens == 12


def test_validation_is_the_written_out_loss_of_all_logits(monkeypatch):
    monkeypatch.setattr(step, "SCORED_AT_ONCE", 3)
    model = small_model()
    logits = model(ONE.src_ids, ONE.tgt_input)
    expected = label_smoothed_loss(logits, ONE.labels, 0.1, PAD)
    report = validate(model, [ONE], 0.1)
    assert report.tokens == expected.tokens == 6
    assert report.loss == pytest.approx(expected.loss.item() / 6, rel=1e-6)
    assert report.nll == pytest.approx(expected.nll.item() / 6, rel=1e-6)


def test_validation_never_holds_the_logits_of_a_whole_batch(monkeypatch):
    monkeypatch.setattr(step, "SCORED_AT_ONCE", 3)
    seen, original = [], step.label_smoothed_loss

    def loss(logits, *rest):
        seen.append(len(logits))
        return original(logits, *rest)

    monkeypatch.setattr(step, "label_smoothed_loss", loss)
    validate(small_model(), [ONE, TWO], 0.1)
    assert seen == [3, 3, 2, 3, 3]  # 2 × 4 positions, and 1 × 6


def test_validation_computes_in_the_precision_of_training(tmp_path, monkeypatch):
    seen, original = [], trainer.validate

    def then_note(model, batches, *rest):
        handle = model.decoder.layers[0].register_forward_hook(
            lambda *hooked: seen.append(torch.is_autocast_enabled("cpu"))
        )
        report = original(model, batches, *rest)
        handle.remove()
        return report

    monkeypatch.setattr(trainer, "validate", then_note)
    train(tmp_path, precision="bf16", validate_every=11)
    assert seen
    assert all(seen)


def test_validation_switches_dropout_off():
    model = small_model(dropout=0.5).train()
    assert validate(model, [ONE], 0.1) == validate(model, [ONE], 0.1)


@pytest.mark.parametrize("training", [True, False])
def test_validation_restores_the_mode(training):
    model = small_model().train(training)
    validate(model, [ONE], 0.1)
    assert {module.training for module in model.modules()} == {training}


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_mode_ends_after_an_error_too(training):
    model = small_model().train(training)

    def inside():
        with evaluation_mode(model):
            assert not model.training
            raise Crash

    with pytest.raises(Crash):
        inside()
    assert model.training is training


def test_the_callback_finds_the_model_in_evaluation_mode(tmp_path):
    modes = []
    made = trainer_of(tmp_path, on_validation=lambda: modes.append(mode()) or {})

    def mode():
        return made.model.training

    made.train()
    assert modes == [False] * 6
    assert made.model.training


def test_a_validation_leaves_no_trace_in_the_weights(whole, tmp_path):
    train(tmp_path, validate_every=11)
    assert same_file(whole, tmp_path, "step-00000011.safetensors")


COMPILED = """
import sys
from pathlib import Path

import test_trainer
import torch
from torch._dynamo.utils import counters

from transformer_lite.layers import DecoderLayer, EncoderLayer


def compile_layer(layer, dynamic):
    # Traced as for any backend; this one needs no C++ compiler.
    torch.nn.Module.compile(layer, backend="aot_eager", dynamic=dynamic)


for kind in (EncoderLayer, DecoderLayer):
    kind.compile = compile_layer
test_trainer.train(Path(sys.argv[1]), compile=True)
print("graphs", counters["stats"]["unique_graphs"])
"""


def test_compiled_layers_learn_the_same_in_few_compilations(whole, tmp_path):
    # In a process of its own, where no types are checked: the checks cannot be traced.
    ended = subprocess.run(
        [sys.executable, "-c", COMPILED, tmp_path],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}"},
    )
    graphs = int(re.search(r"graphs (\d+)", ended.stdout)[1])
    assert 2 <= graphs <= 4  # of two kinds, in training and in validation
    losses = [
        [record["train_loss"] for record in records(run) if "train_loss" in record]
        for run in (whole, tmp_path)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
