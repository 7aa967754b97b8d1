"""The file of what a run measured."""

import re
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.flop_counter import FlopCounterMode

from transformer_lite.config import (
    BASE,
    TINY,
    ModelConfig,
    Recipe,
    TrainConfig,
    load_recipe,
)
from transformer_lite.model import Transformer
from transformer_lite.training.distributed import ONE_CPU
from transformer_lite.training.metrics import (
    Metrics,
    announcement,
    flops_per_token,
    run_summary,
)


def test_records_come_back_in_order(tmp_path):
    metrics = Metrics(tmp_path / "run")
    metrics.add(1, loss=2.5)
    metrics.add(2, translations=["schön"])
    assert metrics.read() == [
        {"step": 1, "loss": 2.5},
        {"step": 2, "translations": ["schön"]},
    ]


def lines(metrics):
    return metrics.path.read_text(encoding="utf-8").count("\n")


def test_the_records_of_a_second_are_written_together(tmp_path, monkeypatch):
    clock = iter([10.0, 10.0, 10.4, 10.8, 11.2, 11.2])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    metrics = Metrics(tmp_path)
    metrics._events = mock.Mock()
    written = []
    for step in range(1, 5):
        metrics.add(step)
        written.append(lines(metrics))
    assert written == [1, 1, 1, 4]


def test_leaving_writes_what_waits(tmp_path):
    with Metrics(tmp_path) as metrics:
        for step in range(1, 6):
            metrics.add(step)
        assert lines(metrics) < 5
    assert lines(metrics) == 5


def test_forgetting_leaves_the_steps_up_to_the_checkpoint(tmp_path):
    metrics = Metrics(tmp_path)
    for step in (1, 2, 3, 3, 4):
        metrics.add(step)
    metrics.forget_after(3)
    assert [record["step"] for record in metrics.read()] == [1, 2, 3, 3]


def test_an_unfinished_line_is_not_a_record(tmp_path):
    metrics = Metrics(tmp_path)
    metrics.add(1)
    with metrics.path.open("a") as file:
        file.write('{"step": 2, "lo')
    assert [record["step"] for record in metrics.read()] == [1]
    metrics.forget_after(1)
    metrics.add(2)
    assert [record["step"] for record in metrics.read()] == [1, 2]


def test_a_run_without_records_has_none(tmp_path):
    assert Metrics(tmp_path).read() == []


def test_a_line_cut_inside_a_letter_is_not_a_record(tmp_path):
    metrics = Metrics(tmp_path)
    metrics.add(1)
    with metrics.path.open("ab") as file:
        file.write('{"translations": ["gr\u00fc'.encode()[:-1])
    assert [record["step"] for record in metrics.read()] == [1]


@pytest.mark.parametrize("line", ["garbage", "[1]", "{}", '{"step": "one"}'])
def test_a_damaged_line_is_named(tmp_path, line):
    metrics = Metrics(tmp_path)
    metrics.add(1)
    with metrics.path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2: .*delete"):
        metrics.read()


def scalars(run):
    events = EventAccumulator(str(run / "tensorboard"))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_numbers_are_tensorboard_scalars_too(tmp_path):
    with Metrics(tmp_path) as metrics:
        metrics.add(1, train_loss=2.5, rate=0.125)
        metrics.add(2, train_loss=1.5, translations=["schön"])
    assert scalars(tmp_path) == {
        "train_loss": [(1, 2.5), (2, 1.5)],
        "rate": [(1, 0.125)],
    }


def test_events_of_steps_that_are_taken_again_are_purged(tmp_path, monkeypatch):
    now = time.time()
    for first in (1, 3):
        # TensorBoard reads files by the seconds in their names; a run resumes later.
        monkeypatch.setattr(time, "time", lambda first=first: now + 10 * first)
        with Metrics(tmp_path) as metrics:
            metrics.forget_after(first - 1)
            for step in range(first, 5):
                metrics.add(step, rate=float(10 * first + step))
    assert scalars(tmp_path)["rate"] == [(1, 11.0), (2, 12.0), (3, 33.0), (4, 34.0)]


MODEL = replace(TINY, vocab_size=101)


def test_operations_of_the_base_model_are_six_for_each_weight_and_token():
    # The usual rule of thumb, which leaves out the products of attention.
    matrices = 63_045_632 - 37_000 * 512 + 37_000 * 512  # the output layer counts
    assert flops_per_token(BASE, 25) == pytest.approx(6 * matrices, rel=0.05)


def test_operations_are_those_of_a_real_forward_and_backward_pass():
    model = Transformer(replace(MODEL, attention="explicit", dropout=0.0))
    ids = torch.randint(4, 101, (1, 13))
    with FlopCounterMode(display=False) as counter:
        model(ids, ids).sum().backward()
    counted = counter.get_total_flops() / 13
    assert flops_per_token(MODEL, 13) == pytest.approx(counted, rel=0.02)


def test_a_step_of_the_paper_on_eight_devices_is_announced():
    train = TrainConfig(batch_tokens=3125, global_batch_tokens=25_000)
    recipe = Recipe(data=Path("data"), model=MODEL, train=train)
    processes = replace(ONE_CPU, world_size=8)
    text = announcement(recipe, Transformer(MODEL), 4_500_000, 27.5, processes)
    assert "4,500,000 pairs, 27.5 target tokens each" in text
    assert "8 × cpu" in text
    assert "8 × 3,125 tokens at most, 1 on each device; " in text
    assert re.search(r"\d\.\d\de\+\d\d floating-point operations", text)
    assert "100,000 steps, about 20.2 epochs" in text


def announced(model, **train):
    recipe = Recipe(data=Path("data"), model=model, train=TrainConfig(**train))
    return announcement(recipe, Transformer(MODEL), 40, 7.0, ONE_CPU)


def test_the_highest_rate_is_announced():
    # 512^-0.5 · 4000^-0.5, at the end of the warm-up.
    assert "rate       7.0e-04 at its highest, in step 4,000\n" in announced(BASE)


def test_a_run_that_ends_while_the_rate_rises_announces_its_last_rate():
    # 512^-0.5 · 1000 · 4000^-1.5
    assert "rate       1.7e-04 at its highest, in step 1,000\n" in announced(
        BASE, max_steps=1000
    )


@pytest.mark.parametrize("recipe", ["toy", "multi30k_de", "wmt14_base", "wmt14_big"])
def test_no_recipe_of_the_package_has_too_high_a_rate(recipe):
    recipe = load_recipe(recipe)
    text = announcement(recipe, Transformer(MODEL), 40, 7.0, ONE_CPU)
    assert "warning" not in text


def test_a_rate_at_which_nothing_is_learned_is_warned_of():
    # As somebody had it who got nothing but empty translations: 0.0125.
    text = announced(MODEL, warmup_steps=50, max_steps=600)
    assert re.search(r"128 wide .* above a rate of 7.8e-03; .*warmup_steps", text)


@pytest.mark.parametrize(("bleu", "warned"), [(0.0, True), (31.25, False)])
def test_a_model_that_does_not_translate_is_said_to(tmp_path, bleu, warned):
    with Metrics(tmp_path) as metrics:
        metrics.add(1, tokens=6, tokens_per_second=1, train_loss=3.0, skipped_steps=0)
        metrics.add(1, valid_loss=2.0, valid_perplexity=7.5, valid_bleu=bleu)
        text = run_summary(Recipe(data=Path("data")), metrics)
    assert ("this model does not translate yet; " in text) == warned


def test_a_summary_adds_up_what_was_measured(tmp_path):
    metrics = Metrics(tmp_path)
    speeds = {"tokens": 600, "tokens_per_second": 100, "train_loss": 3.0}
    with metrics:
        for step in (1, 2):
            metrics.add(step, **speeds, skipped_steps=3)
            metrics.add(
                step, valid_loss=2.0 + step, valid_perplexity=7.5, valid_bleu=31.25
            )
    recipe = Recipe(data=Path("data"), model=ModelConfig())
    text = run_summary(recipe, metrics)
    assert "2, 1,200 target tokens" in text
    assert "0:00:12, 100 target tokens a second" in text
    assert "perplexity 7.50 at step 1" in text
    assert "BLEU 31.2" in text
    assert "skipped    3 steps" in text


def test_a_parsers_summary_has_its_f1(tmp_path):
    with Metrics(tmp_path) as metrics:
        metrics.add(1, tokens=6, tokens_per_second=1, train_loss=3.0, skipped_steps=0)
        found = {"valid_f1": 81.25, "valid_well_formed": 93.0}
        metrics.add(1, valid_loss=2.0, valid_perplexity=7.5, **found)
        text = run_summary(Recipe(data=Path("data")), metrics)
    assert "bracket F1 81.2 at the end, 93 % of outputs are trees" in text
    assert "BLEU" not in text


STEP = {"tokens": 6, "tokens_per_second": 3, "train_loss": 3.0, "skipped_steps": 0}


def test_a_summary_of_a_run_without_validations_tells_its_steps(tmp_path):
    with Metrics(tmp_path) as metrics:
        metrics.add(1, **STEP)
        text = run_summary(Recipe(data=Path("data")), metrics)
    assert "steps      1, 6 target tokens" in text
    assert "validation" not in text


def test_a_summary_of_a_run_without_records_says_so(tmp_path):
    text = run_summary(Recipe(data=Path("data")), Metrics(tmp_path))
    assert re.match(r"steps +none in .*metrics\.jsonl\naverage ", text)
