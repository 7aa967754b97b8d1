"""The learning rate of Equation 3, and the optimizer of Section 5.3."""

import doctest

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import rate_in_words
from torch import nn, optim

from transformer_lite import optimizer
from transformer_lite.optimizer import adam, noam_rate, noam_schedule

examples = settings(max_examples=40, deadline=None, derandomize=True)
widths, warmups = st.integers(1, 2_048), st.integers(1, 20_000)


@examples
@given(st.integers(1, 300_000), widths, warmups)
def test_rate_is_the_formula_told_in_words(step, d_model, warmup):
    expected = rate_in_words(step, d_model, warmup)
    assert noam_rate(step, d_model, warmup) == pytest.approx(expected, rel=1e-12)


@examples
@given(st.integers(1, 100_000), widths, warmups)
def test_rate_rises_until_warmup_and_falls_after_it(step, d_model, warmup):
    now, later = (noam_rate(s, d_model, warmup) for s in (step, step + 1))
    assert (later > now) == (step < warmup)


def test_a_model_four_times_as_wide_learns_at_half_the_rate():
    narrow, wide = (noam_rate(997, d_model, 4_000) for d_model in (128, 512))
    assert wide == pytest.approx(narrow / 2)


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_scheduler_gives_every_step_its_rate(scale):
    optimizer = optim.SGD([nn.Parameter(torch.zeros(3))], lr=1.0)
    scheduler = noam_schedule(optimizer, d_model=32, warmup=7, scale=scale)
    rates = []
    for _ in range(23):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    expected = [scale * rate_in_words(step, 32, 7) for step in range(1, 24)]
    assert rates == pytest.approx(expected)


def test_first_step_of_adam_is_as_long_as_the_first_rate():
    weight = nn.Parameter(torch.tensor([5.0, 7.0]))
    optimizer = adam([weight])
    noam_schedule(optimizer, d_model=32, warmup=7, scale=1.0)
    (weight * torch.tensor([11.0, -13.0])).sum().backward()
    optimizer.step()
    rate = rate_in_words(1, 32, 7)
    assert weight.tolist() == pytest.approx([5 - rate, 7 + rate])


def test_doctests_of_the_module_run():
    results = doctest.testmod(optimizer)
    assert results.attempted >= 1
    assert results.failed == 0
