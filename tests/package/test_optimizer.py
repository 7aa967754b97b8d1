"""The learning rate of Equation 3, and the optimizer of Section 5.3."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import rate_in_words
from torch import nn, optim

from transformer_lite.optimizer import adam, noam_rate, noam_schedule, peak_step

examples = settings(max_examples=40, deadline=None, derandomize=True)
widths, warmups = st.integers(1, 2_048), st.integers(1, 20_000)


@examples
@given(st.integers(1, 300_000), widths, warmups)
def test_rate_is_the_formula_told_in_words(step, d_model, warmup):
    expected = rate_in_words(step, d_model, warmup)
    assert noam_rate(step, d_model, warmup) == pytest.approx(expected, rel=1e-12)


def rates_of(optimizer, steps, **schedule):
    """The learning rate of each step."""
    scheduler = noam_schedule(optimizer, d_model=32, warmup=7, **schedule)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def some_optimizer(rate):
    return optim.SGD([nn.Parameter(torch.zeros(3))], lr=rate)


def test_adam_has_no_rate_of_its_own():
    with pytest.raises(TypeError, match="rate"):
        adam([nn.Parameter(torch.zeros(3))])


@pytest.mark.parametrize("rate", [1.0, 0.3])
def test_scheduler_multiplies_the_optimizers_rate(rate):
    expected = [rate * rate_in_words(step, 32, 7) for step in range(1, 24)]
    assert rates_of(some_optimizer(rate), 23) == pytest.approx(expected)


def test_rate_falls_linearly_to_zero_in_a_cooldown():
    rates = rates_of(some_optimizer(1.0), 31, max_steps=30, cooldown=10)
    shares = [rate / rate_in_words(n, 32, 7) for n, rate in enumerate(rates, start=1)]
    assert shares[:21] == pytest.approx([1.0] * 21)
    assert shares[21:] == pytest.approx([n / 10 for n in range(9, -1, -1)])


def test_adam_has_the_papers_beta_and_epsilon():
    settings_of_adam = adam([nn.Parameter(torch.zeros(3))], rate=1.0).defaults
    assert settings_of_adam["betas"] == (0.9, 0.98)
    assert settings_of_adam["eps"] == 1e-9
    assert settings_of_adam["weight_decay"] == 0


def test_the_highest_rate_is_found_without_trying_every_step():
    for steps, warmup, cooldown in product(range(1, 9), range(1, 11), range(9)):
        if cooldown <= steps:
            optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
            schedule = noam_schedule(optimizer, 7, warmup, steps, cooldown)
            (factor,) = schedule.lr_lambdas
            highest = max(map(factor, range(steps)))
            peak = peak_step(factor, warmup, steps, cooldown)
            assert factor(peak) == pytest.approx(highest)

    def of_a_long_run(done):
        return noam_rate(done + 1, 512, 4000)

    assert peak_step(of_a_long_run, 4000, 10**10, 0) == 3999
