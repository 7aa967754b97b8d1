"""What a run says about itself."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_lite.config import BASE, TINY, ModelConfig, TrainConfig
from transformer_lite.distributed import ONE_CPU
from transformer_lite.metrics import Metrics
from transformer_lite.model import Transformer
from transformer_lite.recipe import Recipe
from transformer_lite.run_report import announcement, flops_per_token, run_summary

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
