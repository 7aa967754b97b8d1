"""One step: every token weighs the same, and nothing spoils the weights."""

import copy
import math
from dataclasses import replace
from unittest import mock

import pytest
import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from results.models import MODELS
from transformer_lite.attention import explicit_attention, fused_attention
from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig
from transformer_lite.layers import DecoderLayer
from transformer_lite.loss import label_smoothed_loss
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam
from transformer_lite.tokenizer import PAD
from transformer_lite.training import checkpoint
from transformer_lite.training.step import (
    Objective,
    causal_attention,
    train_step,
    use_causal_kernels,
)

KERNEL = F.scaled_dot_product_attention

ONE = Batch.from_ids([[5, 7], [11]], [[5, 7, 9], [11]])
TWO = Batch.from_ids([[13, 5, 6, 8, 10]], [[13, 5, 6, 8, 10]])


def objective_of(dropout=0.0, smoothing=0.1, precision="fp32"):
    torch.manual_seed(3)
    shape = {"vocab_size": 17, "num_layers": 1, "d_model": 6, "d_ff": 7}
    config = ModelConfig(**shape, num_heads=2, dropout=dropout, max_len=23)
    return Objective(Transformer(config), smoothing, precision)


def sgd(objective):
    """An optimizer whose step is the gradient."""
    return torch.optim.SGD(objective.parameters(), lr=1.0, fused=True)


def numbers(report):
    return (report.loss, report.nll, report.gradient_norm, report.tokens)


def weights_of(objective):
    weights = checkpoint.weights_of(objective.model)
    return torch.cat([tensor.flatten() for tensor in weights.values()])


def test_the_objective_is_the_loss_of_the_models_logits():
    objective = objective_of().double()
    sums = objective(ONE.src_ids, ONE.tgt_input, ONE.labels, ONE.real)
    logits = objective.model(ONE.src_ids, ONE.tgt_input)
    expected = label_smoothed_loss(logits, ONE.labels, 0.1, PAD)
    assert_close(tuple(sums), tuple(expected), rtol=0, atol=1e-12)


def test_a_step_on_two_batches_is_a_step_on_all_their_tokens():
    both = Batch.from_ids(
        [[5, 7], [11], [13, 5, 6, 8, 10]], [[5, 7, 9], [11], [13, 5, 6, 8, 10]]
    )
    results = []
    for batches in ([ONE, TWO], [both]):
        objective = objective_of().double()
        report = train_step(objective, batches, sgd(objective))
        results.append((numbers(report), weights_of(objective)))
    (one, first), (two, second) = results
    assert one == pytest.approx(two, rel=1e-6)
    assert_close(first, second, rtol=0, atol=1e-12)


def test_a_step_counts_the_tokens_that_are_not_padding():
    objective = objective_of()
    assert train_step(objective, [ONE, TWO], sgd(objective)).tokens == 4 + 2 + 6


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


def test_without_a_seed_each_step_drops_other_entries():
    torch.manual_seed(5)
    assert not torch.equal(dropped(None), dropped(None))


def test_two_batches_of_a_step_do_not_drop_the_same_entries():
    objective = objective_of(dropout=0.5)
    seen = []
    objective.model.encoder.dropout.register_forward_hook(
        lambda module, inputs, output: seen.append(output == 0)
    )
    train_step(objective, [ONE, ONE], sgd(objective), (1, 5))
    assert not torch.equal(*seen)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_step_on_a_loss_that_is_no_number_is_not_taken(value):
    objective = objective_of()
    with torch.no_grad():
        objective.model.encoder.layers[0].feed_forward.w_1.bias[0] = value
    before = weights_of(objective).clone()
    assert not train_step(objective, [ONE], sgd(objective)).is_finite
    assert torch.equal(weights_of(objective).nan_to_num(), before.nan_to_num())


def test_a_step_on_a_gradient_that_is_no_number_is_not_taken():
    objective = objective_of()
    weight = objective.model.decoder.embedding.weight
    weight.register_hook(lambda gradient: gradient * math.inf)
    before = weights_of(objective).clone()
    report = train_step(objective, [ONE], sgd(objective))
    assert math.isfinite(report.loss)
    assert not report.is_finite
    assert torch.equal(weights_of(objective), before)


def scaler_of(scale):
    return torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1000)


def test_a_step_in_fp16_is_near_one_in_fp32():
    steps = []
    for precision, scaler in (("fp32", None), ("fp16", scaler_of(2.0**10))):
        objective = objective_of(precision=precision)
        before = weights_of(objective).clone()
        train_step(objective, [ONE, TWO], sgd(objective), scaler=scaler)
        steps.append(weights_of(objective) - before)
    exact, rounded = steps
    assert not torch.equal(rounded, exact)
    assert (rounded - exact).norm() < 0.02 * exact.norm()


def test_a_step_beyond_fp16s_range_is_left_out_and_the_scale_halved():
    objective, scaler = objective_of(precision="fp16"), scaler_of(2.0**40)
    before = weights_of(objective).clone()
    report = train_step(objective, [ONE, TWO], sgd(objective), scaler=scaler)
    assert not report.is_finite
    assert torch.equal(weights_of(objective), before)
    assert scaler.get_scale() == 2.0**39


def test_an_optimizer_that_cannot_be_held_back_on_the_device_is_refused():
    objective = objective_of()
    unfused = torch.optim.SGD(objective.parameters(), lr=1.0)
    with pytest.raises(ValueError, match="unfused SGD; make it with fused=True"):
        train_step(objective, [ONE], unfused)


def test_a_step_not_taken_leaves_adam_as_it_was():
    objective = objective_of()
    optimizer = adam(objective.parameters())
    train_step(objective, [ONE], optimizer)
    with torch.no_grad():
        objective.model.encoder.layers[0].feed_forward.w_1.bias[0] = math.nan
    before = copy.deepcopy(optimizer.state_dict()["state"])
    assert not train_step(objective, [ONE], optimizer).is_finite
    for number, state in optimizer.state_dict()["state"].items():
        for name, tensor in state.items():
            assert torch.equal(tensor, before[number][name])


def test_a_step_after_one_that_was_not_taken_is_taken():
    objective = objective_of()
    optimizer, bias = sgd(objective), objective.model.encoder.layers[0].feed_forward.w_1
    value = bias.bias[0].item()
    with torch.no_grad():
        bias.bias[0] = math.nan
    train_step(objective, [ONE], optimizer)
    with torch.no_grad():
        bias.bias[0] = value
    before = weights_of(objective).clone()
    assert train_step(objective, [ONE], optimizer).is_finite
    assert not torch.equal(weights_of(objective), before)


@pytest.mark.parametrize(("stop", "asked"), [([], False), ([15], True)])
def test_a_report_says_whether_a_stop_was_asked_for(stop, asked):
    objective = objective_of()
    report = train_step(objective, [ONE], sgd(objective), stop=stop)
    assert report.asked_to_stop is asked


def test_tokens_of_other_processes_count_too():
    gradients = []
    for tokens in (None, 60):
        objective = objective_of().double()
        before = weights_of(objective).clone()
        train_step(objective, [ONE, TWO], sgd(objective), tokens=tokens)
        gradients.append(weights_of(objective) - before)
    assert_close(gradients[1] * 60, gradients[0] * 12, rtol=0, atol=1e-12)


# Masks that kernels make


def gradients(objective, dropout_seed=7):
    torch.manual_seed(dropout_seed)
    part = objective(ONE.src_ids, ONE.tgt_input, ONE.labels, ONE.real)
    return torch.autograd.grad(part.loss, list(objective.parameters()))


def test_causal_kernels_give_the_gradients_of_the_causal_mask():
    objective = objective_of(dropout=0.3).double()
    expected = gradients(objective)
    use_causal_kernels(objective.model)
    with mock.patch.object(F, "scaled_dot_product_attention", wraps=KERNEL) as kernel:
        own = gradients(objective)
    assert [call.kwargs.get("is_causal", False) for call in kernel.mock_calls] == [
        *(False, True, False)  # the encoder, the decoder's past, the encoder's output
    ]
    assert_close(own, expected, rtol=0, atol=1e-12)


def test_causal_kernels_leave_other_masks_to_a_search():
    objective = objective_of().double()
    model = objective.model.eval()
    beams = torch.tensor([[2, 5], [7, 11]])

    def scores():
        with torch.no_grad():
            state = model.start(ONE.src_ids)
            _, state = model.decoder.step(torch.tensor([[2], [2]]), state)
            state = state.reorder(torch.zeros(2, 2, dtype=torch.int64))
            return model.decoder.step(beams, state)[0]

    expected = scores()
    use_causal_kernels(model)
    assert torch.equal(scores(), expected)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_that_is_compared_can_be_trained_by_causal_kernels(name):
    config = ModelConfig(vocab_size=17, num_layers=2, d_model=6, d_ff=7, num_heads=2)
    model = MODELS[name](config)
    use_causal_kernels(model)
    changed = [part for part in model.modules() if isinstance(part, DecoderLayer)]
    assert len(changed) == (0 if name.startswith("recurrent") else 2)
    assert all(p.self_attention.attention is causal_attention for p in changed)
    assert all(p.cross_attention.attention is fused_attention for p in changed)


def test_an_attention_that_is_written_out_stays_so():
    torch.manual_seed(3)
    config = ModelConfig(vocab_size=17, num_layers=1, d_model=6, d_ff=7, num_heads=2)
    model = Transformer(replace(config, attention="explicit"))
    use_causal_kernels(model)
    attention = model.decoder.layers[0].self_attention.attention
    assert attention is explicit_attention


# What the host waits for

WAITING = {"item", "tolist", "cpu", "numpy", "nonzero", "__bool__", "__int__"}
WAITING |= {"__float__", "__index__", "masked_select", "unique", "is_nonzero"}
# What these are once they have reached the dispatcher, whoever called them.
ASKING = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal"}


class HostReads(TorchFunctionMode):
    """Counts the calls that make the host wait for what a device computes."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in WAITING:
            self.found.append(name)
        return function(*args, **(kwargs or {}))


class DispatchedReads(TorchDispatchMode):
    """The same for calls that no Python code makes."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = operator._schema.name.removeprefix("aten::")
        # Whoever indexes by a mask asks how often it is true.
        indices = args[1] if name in {"index", "index_put", "index_put_"} else []
        by_mask = any(x is not None and x.dtype == torch.bool for x in indices)
        if name in ASKING or by_mask:
            self.found.append(name)
        return operator(*args, **(kwargs or {}))


def reads_of(act):
    with HostReads() as called, DispatchedReads() as dispatched:
        result = act()
    return called.found + dispatched.found, result


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: bool(x.any()),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: float(x[0]),
    ],
)
def test_reads_are_counted(read):
    assert reads_of(lambda: read(torch.ones(3)))[0]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_a_step_reads_nothing_from_the_device(precision):
    objective = objective_of(dropout=0.1, precision=precision)
    optimizer = adam(objective.parameters())
    scaler = scaler_of(2.0**10) if precision == "fp16" else None

    def step():
        return train_step(
            objective, [ONE, TWO], optimizer, (1, 5), scaler=scaler, tokens=12
        )

    step()  # the first one makes Adam's moments
    found, report = reads_of(step)
    assert found == []
    assert reads_of(lambda: report.loss)[0] == ["tolist"]
