"""Checkpoints are whole or absent, cannot run code, and average to their mean."""

import pickle
import resource
import signal
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import nn

from transformer_lite.training import checkpoint


def model_of(width=5, seed=3):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, width), nn.Linear(width, 2))


def saved(path, seed=3, width=5):
    checkpoint.save_weights(path, checkpoint.weights_of(model_of(width, seed)))
    return path


class RunsCode:
    """What a malicious file would hold: unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_weights_come_back_bit_for_bit(tmp_path):
    path = saved(tmp_path / "w.safetensors", seed=3)
    other = model_of(seed=7)
    checkpoint.load_weights(other, path)
    for name, tensor in checkpoint.weights_of(model_of(seed=3)).items():
        assert torch.equal(tensor, checkpoint.weights_of(other)[name])


def test_loading_keeps_parameters_trainable(tmp_path):
    model = model_of()
    checkpoint.load_weights(model, saved(tmp_path / "w.safetensors"))
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_transposed_tensor_can_be_saved(tmp_path):
    matrix = torch.arange(6.0).view(2, 3).T
    checkpoint.save_weights(tmp_path / "w.safetensors", {"matrix": matrix})
    read = checkpoint.read_weights(tmp_path / "w.safetensors")["matrix"]
    assert torch.equal(read, matrix)


def test_training_state_comes_back(tmp_path):
    state = {"step": 7, "position": (2, 3), "best": 0.5, "random": torch.arange(5)}
    checkpoint.save_training(tmp_path / "t.training.pt", state)
    loaded = checkpoint.load_training(tmp_path / "t.training.pt")
    assert {**loaded, "random": None} == {**state, "random": None}
    assert torch.equal(loaded["random"], state["random"])


def test_average_of_one_checkpoint_is_itself(tmp_path):
    path = saved(tmp_path / "w.safetensors")
    averaged, own = checkpoint.average([path]), checkpoint.read_weights(path)
    assert averaged.keys() == own.keys()
    assert all(torch.equal(averaged[name], own[name]) for name in own)


def test_average_of_three_is_numpys_mean(tmp_path):
    paths = [saved(tmp_path / f"{s}.safetensors", seed=s) for s in (3, 5, 7)]
    each = [checkpoint.read_weights(path) for path in paths]
    averaged = checkpoint.average(paths)
    assert len(averaged) == 4
    for name, tensor in averaged.items():
        stacked = np.stack([weights[name].double().numpy() for weights in each])
        assert tensor.dtype == torch.float32
        np.testing.assert_array_equal(
            tensor.numpy(), stacked.mean(axis=0).astype(np.float32)
        )


def test_without_checkpoints_there_is_no_average():
    with pytest.raises(ValueError, match="no checkpoints to average"):
        checkpoint.average([])


@pytest.mark.parametrize("other", ["width", "names"])
def test_checkpoints_of_different_models_are_not_averaged(tmp_path, other):
    one, two = saved(tmp_path / "1.safetensors"), tmp_path / "2.safetensors"
    if other == "width":
        saved(two, width=7)
    else:
        checkpoint.save_weights(two, {"name": torch.ones(3)})
    with pytest.raises(ValueError, match=r"2\.safetensors: belongs to another model"):
        checkpoint.average([one, two])


def test_a_checkpoint_of_another_shape_is_refused(tmp_path):
    path, model = saved(tmp_path / "w.safetensors", width=7), model_of()
    before = {n: t.clone() for n, t in checkpoint.weights_of(model).items()}
    with pytest.raises(ValueError, match=r"w\.safetensors: .*another configuration"):
        checkpoint.load_weights(model, path)
    after = checkpoint.weights_of(model)
    assert all(torch.equal(after[name], before[name]) for name in before)


def test_weights_cut_short_anywhere_are_named_with_a_remedy(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    path = saved(tmp_path / "checkpoints" / "w.safetensors")
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"w\.safetensors: .*damaged.*delete it"):
            checkpoint.read_weights(path)


def test_a_missing_checkpoint_is_not_called_damaged(tmp_path):
    with pytest.raises(ValueError, match=r"w\.safetensors: no such") as caught:
        checkpoint.read_weights(tmp_path / "w.safetensors")
    assert "delete it" not in str(caught.value)


def test_a_training_state_cut_short_anywhere_is_named_with_a_remedy(tmp_path):
    path = tmp_path / "t.training.pt"
    checkpoint.save_training(path, {"step": 3, "random": torch.arange(7)})
    whole = path.read_bytes()
    for length in range(0, len(whole), 29):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"t\.training\.pt: .*damaged.*delete"):
            checkpoint.load_training(path)


@pytest.mark.parametrize(
    "content",
    [b"hello world", b"\x80\x02}q\x00.", b"PK\x03\x04", b"\n", b"\x80\x04I", b"e"],
)
def test_a_file_that_is_no_training_state_is_named(tmp_path, content):
    path = tmp_path / "t.training.pt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"t\.training\.pt: .*damaged"):
        checkpoint.load_training(path)


def complaint(path):
    """What loading a training state is refused with, if it is."""
    try:
        checkpoint.load_training(path)
    except ValueError as error:
        return str(error)


def test_no_flipped_bit_of_a_training_state_gives_a_foreign_error(tmp_path):
    path = tmp_path / "t.training.pt"
    checkpoint.save_training(path, {"step": 3, "random": torch.arange(7)})
    whole, complaints = path.read_bytes(), []
    for place in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[place] ^= 0b100
        path.write_bytes(damaged)
        complaints.append(complaint(path))
    refused = [text for text in complaints if text]
    assert len(refused) >= 20
    assert all("t.training.pt: the training state is damaged" in t for t in refused)


def test_a_missing_training_state_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"t\.training\.pt: "):
        checkpoint.load_training(tmp_path / "t.training.pt")


@pytest.mark.parametrize("writer", ["torch", "pickle"])
def test_code_in_a_training_state_does_not_run(tmp_path, writer):
    path, victim = tmp_path / "t.training.pt", tmp_path / "victim"
    if writer == "torch":
        torch.save({"step": RunsCode(victim)}, path)
    else:
        path.write_bytes(pickle.dumps({"step": RunsCode(victim)}, protocol=2))
    with pytest.raises(ValueError, match=r"t\.training\.pt"):
        checkpoint.load_training(path)
    assert not victim.exists()


def test_the_malicious_file_of_the_test_above_would_run(tmp_path):
    victim = tmp_path / "victim"
    pickle.loads(pickle.dumps(RunsCode(victim))).close()
    assert victim.exists()


def test_pickled_weights_do_not_run(tmp_path):
    path, victim = tmp_path / "w.safetensors", tmp_path / "victim"
    torch.save({"weight": RunsCode(victim)}, path)
    with pytest.raises(ValueError, match=r"w\.safetensors"):
        checkpoint.read_weights(path)
    assert not victim.exists()


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


@pytest.mark.parametrize("kind", ["weights", "training"])
def test_a_checkpoint_that_does_not_fit_on_the_disk_leaves_the_old_one(tmp_path, kind):
    path, large = tmp_path / "it", {"weight": torch.zeros(101, 103)}
    save = {"weights": checkpoint.save_weights, "training": checkpoint.save_training}
    save[kind](path, {"weight": torch.zeros(3)})
    before = path.read_bytes()
    with nearly_full_disk(), pytest.raises(OSError, match=r"it: cannot be written"):
        save[kind](path, large)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["it"]
