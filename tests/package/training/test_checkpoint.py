"""Checkpoints are whole or absent, cannot run code, and the right ones are kept."""

import pickle
import signal

import pytest
import torch
from small_runs import (
    interrupt,
    names,
    same_file,
    same_weights,
    saved_steps,
    train,
    trainer_of,
    without_speed,
)

from transformer_lite.runs.folder import RunFolder
from transformer_lite.runs.weights import average, read_weights
from transformer_lite.training.checkpoint import load_training, save_training

# The training state in its file

DAMAGED = "the training state is damaged, or too large for the memory"


class RunsCode:
    """What a malicious file would hold: unpickling it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.fixture
def state(tmp_path):
    """The file of a training state."""
    path = tmp_path / "checkpoints" / "step-00000003.training.pt"
    save_training(path, {"step": 3, "moments": torch.arange(7)})
    return path


def test_a_training_state_cut_short_anywhere_is_named_with_a_remedy(state):
    whole = state.read_bytes()
    for length in range(0, len(whole), 29):
        state.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=rf"3\.training\.pt: {DAMAGED}; no other"):
            load_training(state)


def test_no_flipped_bit_of_a_training_state_gives_a_foreign_error(state):
    whole, refused = state.read_bytes(), []
    for place in range(0, len(whole), 5):
        damaged = bytearray(whole)
        damaged[place] ^= 0b100
        state.write_bytes(damaged)
        try:
            load_training(state)
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) >= 20
    assert all(f"3.training.pt: {DAMAGED}; no" in text for text in refused)
    assert not any("weights_only" in text for text in refused)  # it would run the file


@pytest.mark.parametrize("writer", ["torch", "pickle"])
def test_code_in_a_training_state_does_not_run(state, tmp_path, writer):
    victim = tmp_path / "victim"
    malicious = {"step": RunsCode(victim)}
    if writer == "torch":
        torch.save(malicious, state)
    else:
        state.write_bytes(pickle.dumps(malicious, protocol=2))
    with pytest.raises(ValueError, match=r"3\.training\.pt"):
        load_training(state)
    assert not victim.exists()
    pickle.loads(pickle.dumps(malicious))["step"].close()
    assert victim.exists()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing interrupted."""
    run = tmp_path_factory.mktemp("whole")
    train(run)
    return run


@pytest.mark.parametrize("kind", [".safetensors", ".training.pt"])
@pytest.mark.parametrize("kept", [1, 2])
def test_the_remedy_of_a_damaged_file_works(whole, tmp_path, monkeypatch, kind, kept):
    interrupt(tmp_path, monkeypatch, 8, "crash", average_checkpoints=kept)
    newest = tmp_path / "checkpoints" / "step-00000006.safetensors"
    damaged = newest.with_suffix(kind)
    damaged.write_bytes(damaged.read_bytes()[:100])
    with pytest.raises(ValueError, match=rf"6\{kind}: .*delete step-00000006\.\*, and"):
        trainer_of(tmp_path).train()
    newest.unlink()
    train(tmp_path)
    assert same_file(whole, tmp_path)
    assert without_speed(tmp_path) == without_speed(whole)


def test_a_checkpoint_without_training_state_is_named(tmp_path, monkeypatch):
    interrupt(tmp_path, monkeypatch, 5, "crash")
    (tmp_path / "checkpoints" / "step-00000003.training.pt").unlink()
    with pytest.raises(ValueError, match=r"has weights, but no step-….training\.pt"):
        trainer_of(tmp_path).train()


def test_a_foreign_training_state_is_named(tmp_path):
    train(tmp_path, max_steps=3)
    save_training(tmp_path / "checkpoints" / "step-00000003.training.pt", {"step": 3})
    with pytest.raises(ValueError, match=r"3\.training\.pt: .*; no other takes"):
        trainer_of(tmp_path).train()


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda state: state | {"step": 2},
        lambda state: state | {"best_loss": 1.0},
        lambda state: state | {"position": (0, 1, 2)},
        lambda state: state["optimizer"]["state"][0].update(exp_avg=torch.zeros(3)),
    ],
    ids=["another step", "another loss", "no position", "moments of another model"],
)
def test_a_changed_training_state_is_named(tmp_path, change, is_recorded):
    train(tmp_path, max_steps=3)
    path = tmp_path / "checkpoints" / "step-00000003.training.pt"
    state = load_training(path)
    save_training(path, change(state) or state)
    if not is_recorded:
        RunFolder(tmp_path).checksums.unlink()
        if load_training(path)["best_loss"] == 1.0:
            return  # it cannot be known
    with pytest.raises(
        ValueError, match=r"step-00000003\..*; no other takes its place"
    ):
        trainer_of(tmp_path).train()


@pytest.mark.parametrize("kind", [".safetensors", ".training.pt"])
def test_one_flipped_bit_of_a_checkpoint_is_noticed(tmp_path, kind):
    train(tmp_path, max_steps=6)
    path = tmp_path / "checkpoints" / f"step-00000006{kind}"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"0006\..*: .*delete step-00000006"):
        trainer_of(tmp_path).train()


def test_a_run_does_not_resume_from_another_models_checkpoint(tmp_path, monkeypatch):
    interrupt(tmp_path, monkeypatch, 5, "crash", d_ff=13)
    message = r"step-00000003\.safetensors: .*\[13\] in the file"
    with pytest.raises(ValueError, match=message):
        trainer_of(tmp_path).train()


@pytest.mark.parametrize("kept", [1, 2, 3, 5])
def test_at_most_two_checkpoints_can_be_resumed_from(tmp_path, kept):
    train(tmp_path, average_checkpoints=kept, checkpoint_every=1)
    states = [name.removesuffix(".training.pt") for name in names(tmp_path, "*.pt")]
    weights = [path.stem for path in RunFolder(tmp_path).step_checkpoints()]
    assert len(weights) == max(kept, 2)  # one may be damaged
    assert states == weights[-2:]


def test_raising_the_interval_deletes_no_earlier_checkpoint(tmp_path):
    train(tmp_path, max_steps=6, average_checkpoints=5)
    train(tmp_path, max_steps=10, average_checkpoints=5, checkpoint_every=5)
    assert saved_steps(tmp_path) == [3, 6, 10]


def test_weights_of_steps_that_are_taken_again_are_not_averaged(tmp_path):
    often = {"checkpoint_every": 2, "average_checkpoints": 50}
    train(tmp_path, max_steps=8, **often)
    (tmp_path / "checkpoints" / "step-00000008.training.pt").unlink()
    train(tmp_path, max_steps=9, **often | {"checkpoint_every": 7})
    assert saved_steps(tmp_path) == [2, 4, 6, 7, 9]


def test_checkpoints_are_written_by_the_clock_where_minutes_are_given(tmp_path):
    for minutes, expected in ((1e-9, [8, 9, 10, 11]), (1000.0, [11])):
        run = tmp_path / str(minutes)
        train(run, checkpoint_minutes=minutes, average_checkpoints=4)
        assert saved_steps(run) == expected


def test_a_signal_at_a_regular_checkpoint_adds_none(tmp_path, monkeypatch):
    interrupt(tmp_path, monkeypatch, 6, signal.SIGTERM)
    assert saved_steps(tmp_path) == [3, 6]
    assert not names(tmp_path, "*.extra.*")


@pytest.mark.parametrize("minutes", [None, 1e-9])
def test_a_checkpoint_of_a_signal_is_in_no_average(tmp_path, monkeypatch, minutes):
    interrupt(tmp_path, monkeypatch, 5, signal.SIGTERM)
    assert names(tmp_path, "step-*.safetensors") == [
        "step-00000003.safetensors",
        "step-00000005.extra.safetensors",
    ]
    train(tmp_path, average_checkpoints=50, checkpoint_minutes=minutes)
    assert "step-00000003.safetensors" in names(tmp_path)
    assert not names(tmp_path, "*00000005*")


@pytest.mark.parametrize(("step", "averaged"), [(2, [2]), (5, [3, 5])])
def test_a_run_may_end_where_a_signal_stopped(tmp_path, monkeypatch, step, averaged):
    interrupt(tmp_path, monkeypatch, step, signal.SIGTERM)
    folder = RunFolder(tmp_path)
    stopped = read_weights(folder.weights_after(step, extra=True))
    train(tmp_path, max_steps=step)
    paths = [folder.weights_after(number) for number in averaged]
    assert folder.all_checkpoints() == paths
    assert same_weights(read_weights(paths[-1]), stopped)
    assert same_weights(read_weights(folder.average), average(paths))
