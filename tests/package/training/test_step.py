"""One step: every token weighs the same, and nothing spoils the weights."""

import copy
import math
from dataclasses import astuple, replace

import pytest
import torch
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from transformer_lite.batching import Batch
from transformer_lite.config import TINY, ModelConfig
from transformer_lite.loss import label_smoothed_loss
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam
from transformer_lite.tokenizer import PAD
from transformer_lite.training import step
from transformer_lite.training.step import (
    Objective,
    evaluation_mode,
    flops_per_token,
    train_step,
    validate,
)

SHAPE = {"vocab_size": 17, "num_layers": 1, "d_model": 6, "d_ff": 7, "num_heads": 2}
ONE = Batch.from_ids([[5, 7], [11]], [[5, 7, 9], [11]])
TWO = Batch.from_ids([[13, 5, 6, 8, 10]], [[13, 5, 6, 8, 10]])


def objective_of(dropout=0.0, smoothing=0.1, precision="fp32"):
    torch.manual_seed(3)
    model = Transformer(ModelConfig(**SHAPE, dropout=dropout, max_len=23))
    return Objective(model, smoothing, precision)


def sgd(objective):
    """Make an optimizer whose step is the gradient."""
    return torch.optim.SGD(objective.parameters(), lr=1.0)


def weights_of(objective):
    return torch.cat([p.detach().flatten() for p in objective.parameters()])


def test_the_objective_is_the_loss_of_the_models_logits():
    objective = objective_of().double()
    sums = objective(ONE.src_ids, ONE.tgt_input, ONE.labels, ONE.real)
    logits = objective.model(ONE.src_ids, ONE.tgt_input)
    expected = label_smoothed_loss(logits, ONE.labels, 0.1, PAD)
    assert_close(tuple(sums), tuple(expected), rtol=0, atol=1e-12)


def test_a_step_on_two_batches_is_a_step_on_all_their_tokens():
    last = [13, 5, 6, 8, 10]
    both = Batch.from_ids([[5, 7], [11], last], [[5, 7, 9], [11], last])
    results = []
    for batches in ([ONE, TWO], [both]):
        objective = objective_of().double()
        report = train_step(objective, batches, sgd(objective))
        results.append((astuple(report), weights_of(objective)))
    (one, first), (two, second) = results
    assert one == pytest.approx(two, rel=1e-6)
    assert_close(first, second, rtol=0, atol=1e-12)


def test_a_step_leaves_no_gradient_behind():
    objective = objective_of()
    train_step(objective, [ONE], sgd(objective))
    assert all(parameter.grad is None for parameter in objective.parameters())


def test_the_gradients_norm_is_the_length_of_the_step():
    objective = objective_of()
    before = weights_of(objective).clone()
    report = train_step(objective, [ONE, TWO], sgd(objective))
    length = (weights_of(objective) - before).norm().item()
    assert report.gradient_norm == pytest.approx(length, rel=1e-4)


@pytest.mark.parametrize("clip_norm", [0.01, 1000.0])
def test_a_gradient_longer_than_the_limit_is_shortened_to_it(clip_norm):
    free, clipped = objective_of().double(), objective_of().double()
    before = weights_of(free).clone()
    expected = train_step(free, [ONE, TWO], sgd(free))
    report = train_step(clipped, [ONE, TWO], sgd(clipped), clip_norm=clip_norm)
    assert report == expected  # the norm is that of the gradient as it was
    share = min(1.0, clip_norm / report.gradient_norm)
    moved = share * (weights_of(free) - before)
    assert_close(weights_of(clipped) - before, moved, rtol=1e-4, atol=1e-12)


def dropped(seed):
    generator_state = torch.get_rng_state()
    objective = objective_of(dropout=0.5)
    torch.set_rng_state(generator_state)  # making the model seeded the generator
    train_step(objective, [ONE, TWO], sgd(objective), seed)
    return weights_of(objective)


def test_the_seed_decides_what_is_dropped_whatever_was_drawn_before():
    first = dropped((1, 5))
    torch.rand(7)
    assert torch.equal(dropped((1, 5)), first)
    assert not torch.equal(dropped((1, 6)), first)
    assert not torch.equal(dropped((2, 5)), first)


def test_two_batches_of_a_step_do_not_drop_the_same_entries():
    objective = objective_of(dropout=0.5)
    seen = []
    objective.model.encoder.dropout.register_forward_hook(
        lambda module, inputs, output: seen.append(output == 0)
    )
    train_step(objective, [ONE, ONE], sgd(objective), (1, 5))
    assert not torch.equal(*seen)


def spoil(objective, value=math.nan):
    with torch.no_grad():
        objective.model.encoder.layers[0].feed_forward.w_1.bias[0] = value


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_step_on_a_loss_that_is_no_number_is_not_taken(value):
    objective = objective_of()
    spoil(objective, value)
    before = weights_of(objective).clone()
    assert not train_step(objective, [ONE], sgd(objective)).is_taken
    assert torch.equal(weights_of(objective).nan_to_num(), before.nan_to_num())


def test_a_step_on_a_gradient_that_is_no_number_is_not_taken():
    objective = objective_of()
    weight = objective.model.decoder.embedding.weight
    weight.register_hook(lambda gradient: gradient * math.inf)
    before = weights_of(objective).clone()
    report = train_step(objective, [ONE], sgd(objective))
    assert math.isfinite(report.loss)
    assert not report.is_taken
    assert torch.equal(weights_of(objective), before)


def test_a_step_not_taken_leaves_adam_as_it_was():
    objective = objective_of()
    optimizer = adam(objective.parameters(), 0.01)
    train_step(objective, [ONE], optimizer)
    spoil(objective)
    before = copy.deepcopy(optimizer.state_dict()["state"])
    assert not train_step(objective, [ONE], optimizer).is_taken
    for number, state in optimizer.state_dict()["state"].items():
        assert all(torch.equal(state[name], before[number][name]) for name in state)


def scaler_of(scale):
    return torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1000)


def test_a_step_beyond_fp16s_range_is_left_out_and_the_scale_halved():
    objective, scaler = objective_of(precision="fp16"), scaler_of(2.0**40)
    before = weights_of(objective).clone()
    report = train_step(objective, [ONE, TWO], sgd(objective), scaler=scaler)
    assert not report.is_taken
    assert torch.equal(weights_of(objective), before)
    assert scaler.get_scale() == 2.0**39


def test_validation_is_the_written_out_loss_of_all_logits(monkeypatch):
    monkeypatch.setattr(step, "SCORED_AT_ONCE", 3)
    model = objective_of().model
    logits = model(ONE.src_ids, ONE.tgt_input)
    expected = label_smoothed_loss(logits, ONE.labels, 0.1, PAD)
    report = validate(model, [ONE], 0.1)
    assert report.tokens == expected.tokens == 6
    assert report.loss == pytest.approx(expected.loss.item() / 6, rel=1e-6)
    assert report.nll == pytest.approx(expected.nll.item() / 6, rel=1e-6)


def test_validation_does_not_depend_on_how_sentences_are_batched():
    rows, model = ([5, 7], [11], [13, 5, 6]), objective_of().model
    apart = [Batch.from_ids([row], [row]) for row in rows]
    together = [Batch.from_ids(rows, rows)]
    one, two = (validate(model, batches, 0.1) for batches in (apart, together))
    assert astuple(one) == pytest.approx(astuple(two), rel=1e-5)


def test_validation_computes_in_the_precision_of_training():
    model = objective_of().model
    exact, half = (validate(model, [ONE, TWO], 0.1, p).loss for p in ("fp32", "bf16"))
    assert exact != half
    assert exact == pytest.approx(half, rel=0.01)


def test_validation_switches_dropout_off():
    model = objective_of(dropout=0.5).model.train()
    assert validate(model, [ONE], 0.1) == validate(model, [ONE], 0.1)


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_mode_ends_even_after_an_error(training):
    model = objective_of().model.train(training)
    with pytest.raises(KeyError), evaluation_mode(model):
        raise KeyError
    assert {module.training for module in model.modules()} == {training}


@pytest.mark.parametrize("src_length", [5, 13])
def test_operations_are_those_of_a_real_forward_and_backward_pass(src_length):
    config = replace(TINY, vocab_size=101)
    model = Transformer(replace(config, attention="explicit", dropout=0.0))
    ids = torch.randint(4, 101, (1, 13))
    with FlopCounterMode(display=False) as counter:
        model(ids[:, :src_length], ids).sum().backward()
    counted = counter.get_total_flops() / 13
    assert flops_per_token(config, 13, src_length) == pytest.approx(counted, rel=0.02)
    if src_length == 13:
        assert flops_per_token(config, 13) == flops_per_token(config, 13, 13)
