"""Weights are whole or absent, cannot run code, and average to their mean."""

import resource
import signal
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

from transformer_lite.runs.weights import (
    SCALES,
    average,
    in_8_bits,
    load_weights,
    quantize,
    read_weights,
    save_weights,
    weights_of,
)


def model_of(width=5, seed=3):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, width), nn.Linear(width, 2))


def saved(path, seed=3, width=5):
    save_weights(path, weights_of(model_of(width, seed)))
    return path


def test_weights_come_back_bit_for_bit_and_trainable(tmp_path):
    other = model_of(seed=7)
    load_weights(other, saved(tmp_path / "w.safetensors", seed=3))
    for name, tensor in weights_of(model_of(seed=3)).items():
        assert torch.equal(tensor, weights_of(other)[name])
    assert all(parameter.requires_grad for parameter in other.parameters())


def test_a_transposed_tensor_can_be_saved(tmp_path):
    matrix = torch.arange(6.0).view(2, 3).T
    save_weights(tmp_path / "w.safetensors", {"matrix": matrix})
    assert torch.equal(read_weights(tmp_path / "w.safetensors")["matrix"], matrix)


def test_rounding_errs_by_half_a_step_of_each_row():
    matrix = torch.randn(5, 40) * torch.tensor([[1e-3], [1], [100], [0], [1]])
    numbers, scales = quantize(matrix)
    error = (numbers * scales[:, None] - matrix).abs().amax(dim=1)
    assert (error <= 0.5001 * matrix.abs().amax(dim=1) / 127).all()
    assert numbers.abs().amax(dim=1).tolist() == [127, 127, 127, 0, 127]


def test_weights_of_8_bits_load_like_others_and_take_a_quarter(tmp_path):
    path, model = tmp_path / "w.safetensors", nn.Linear(701, 41)
    exact = {name: torch.randn_like(t) for name, t in weights_of(model).items()}
    save_weights(path, in_8_bits(exact))
    assert path.stat().st_size == pytest.approx(701 * 41, rel=0.03)
    load_weights(model, path)
    assert torch.equal(model.bias, exact["bias"])  # vectors are not rounded
    step = exact["weight"].abs().amax(dim=1, keepdim=True) / 127
    assert ((model.weight - exact["weight"]).abs() <= 0.5001 * step).all()


def test_rounding_rounded_weights_again_changes_nothing():
    once = in_8_bits({"matrix": torch.randn(53, 41)})
    again = in_8_bits({"matrix": once["matrix"] * once[f"matrix{SCALES}"][:, None]})
    assert torch.equal(again["matrix"], once["matrix"])


EIGHT = torch.ones(5, 3, dtype=torch.int8)
DAMAGED = {
    "no scales": ({"m": EIGHT}, "m has 8 bits and no scale for each row"),
    "too few scales": ({"m": EIGHT, f"m{SCALES}": torch.ones(3)}, "m has 8 bits and"),
    "a vector": ({"m": EIGHT[0], f"m{SCALES}": torch.ones(3)}, "m has 8 bits and no"),
    "a scalar": ({"m": EIGHT[0, 0], f"m{SCALES}": torch.tensor(1.0)}, "m has 8 bits"),
    "whole scales": (
        {"m": EIGHT, f"m{SCALES}": EIGHT[:, 0]},
        "8 bits and no|no number",
    ),
    "no matrix": ({f"m{SCALES}": torch.ones(5)}, "are the scales of no matrix of 8"),
    **{
        f"scale {scale}": ({"m": EIGHT, f"m{SCALES}": torch.full((5,), scale)}, message)
        for scale, message in [
            (0.0, "scale that is no number above 0"),
            (-1.0, "scale that is no number above 0"),
            (float("nan"), "scale that is no number above 0"),
            (float("inf"), "scale that is too large"),
        ]
    },
    "an overflow": (
        {"m": 2 * EIGHT, f"m{SCALES}": torch.full((5,), 3e38)},
        "scale that is too large",
    ),
    **{
        str(kind): ({"m": torch.ones(5, 3).to(kind)}, f"m is of {kind}; weights are")
        for kind in (
            *(torch.uint8, torch.int32, torch.bool, torch.complex64),
            *(torch.float8_e4m3fn, torch.float8_e5m2),
        )
    },
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_what_is_no_weight_is_named(tmp_path, kind):
    stored, message = DAMAGED[kind]
    save_weights(tmp_path / "w.safetensors", stored)
    with pytest.raises(ValueError, match=rf"w\.safetensors: .*damaged \(.*{message}"):
        read_weights(tmp_path / "w.safetensors")


@pytest.mark.parametrize("seeds", [(3,), (3, 5, 7)])
def test_the_average_is_numpys_mean(tmp_path, seeds):
    paths = [saved(tmp_path / f"{seed}.safetensors", seed) for seed in seeds]
    each = [read_weights(path) for path in paths]
    averaged = average(paths)
    assert averaged.keys() == each[0].keys()
    for name, tensor in averaged.items():
        stacked = np.stack([weights[name].double().numpy() for weights in each])
        expected = stacked.mean(axis=0).astype(np.float32)
        np.testing.assert_array_equal(tensor.numpy(), expected)


def test_checkpoints_of_different_models_are_not_averaged(tmp_path):
    one = saved(tmp_path / "1.safetensors")
    other_width = saved(tmp_path / "2.safetensors", width=7)
    other_names = tmp_path / "3.safetensors"
    save_weights(other_names, {"name": torch.ones(3)})
    for other in (other_width, other_names):
        with pytest.raises(ValueError, match=f"{other.name}: has other shapes"):
            average([one, other])
    with pytest.raises(ValueError, match="no checkpoints to average"):
        average([])


def test_weights_of_another_shape_are_refused_and_change_nothing(tmp_path):
    path, model = saved(tmp_path / "w.safetensors", width=7), model_of()
    with pytest.raises(ValueError, match=r"w\.safetensors: .* is \[7.* in the model"):
        load_weights(model, path)
    after, before = weights_of(model), weights_of(model_of())
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_weights_cut_short_anywhere_are_named_with_a_remedy(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    path = saved(tmp_path / "checkpoints" / "step-00000007.safetensors")
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(
            ValueError, match=r"07\.safetensors: .*damaged.*train again"
        ):
            read_weights(path)
    saved(path.with_name("step-00000003.safetensors"))
    with pytest.raises(ValueError, match=r"damaged.*delete step-00000007\.\*, and"):
        read_weights(path)


def test_what_the_system_refuses_to_read_is_not_called_damaged(tmp_path):
    path = tmp_path / "checkpoints" / "w.safetensors"
    path.mkdir(parents=True)
    with pytest.raises(OSError, match=r"Is a directory: .*w\.safetensors"):
        read_weights(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named_with_a_remedy(tmp_path, value):
    (tmp_path / "checkpoints").mkdir()
    path = tmp_path / "checkpoints" / "w.safetensors"
    save_weights(path, {"good": torch.ones(3), "spoilt": torch.tensor([1.0, value])})
    message = r"damaged \(spoilt .* not finite\); "
    with pytest.raises(ValueError, match=message):
        read_weights(path)


def test_a_file_that_is_no_checkpoint_is_not_to_be_deleted(tmp_path):
    (tmp_path / "text.txt").write_text("the\n")
    for name in ("text.txt", "nothing.safetensors"):
        with pytest.raises(ValueError, match=f"{name}: ") as caught:
            read_weights(tmp_path / name)
        assert "delete " not in str(caught.value)


def test_pickled_weights_which_could_run_code_are_refused(tmp_path):
    torch.save({"weight": torch.ones(3)}, tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=r"w\.safetensors"):
        read_weights(tmp_path / "w.safetensors")


@contextmanager
def nearly_full_disk():
    """Let no file of this process grow beyond 4 KiB, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_weights_that_do_not_fit_on_the_disk_leave_the_old_ones(tmp_path):
    path = tmp_path / "it"
    save_weights(path, {"weight": torch.zeros(3)})
    before = path.read_bytes()
    with nearly_full_disk(), pytest.raises(OSError, match="it: cannot be written"):
        save_weights(path, {"weight": torch.zeros(101, 103)})
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["it"]
