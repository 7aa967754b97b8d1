"""Two processes that act as one."""

import os
import re
import shutil
import signal
import socket
import time
import traceback
from itertools import count
from unittest import mock

import pytest
import torch
from torch import distributed as dist
from torch import multiprocessing, optim
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from transformer_lite.batching import (
    Batch,
    BatchStream,
    Sequences,
    batches_per_step,
    fixed_batches,
)
from transformer_lite.config import ModelConfig, TrainConfig
from transformer_lite.model import Transformer
from transformer_lite.training import checkpoint, trainer
from transformer_lite.training.checkpoint import save_weights
from transformer_lite.training.checkpoint import weights_of as weights_by_name
from transformer_lite.training.distributed import ONE_CPU, join_processes
from transformer_lite.training.folder import RunFolder
from transformer_lite.training.step import Objective, train_step, validate
from transformer_lite.training.trainer import Trainer

EXACT = {"rtol": 0, "atol": 1e-12}
# Target tokens, EOS counted: 17 for the first process, 3 for the second.
SHARDS = (
    ([[5, 7, 11], [13, 6, 17, 19]], [[9, 10, 12, 14, 15, 16, 18], [20, 21] * 4]),
    ([[23, 8]], [[22, 4]]),
)


# Two further batches for each process.
MORE = (
    [Batch.from_ids([[5]], [[9, 9]]), Batch.from_ids([[6, 7]], [[11]])],
    [Batch.from_ids([[8, 5, 6]], [[13, 15, 17]]), Batch.from_ids([[21]], [[23]])],
)


def some_model(dropout=0.0):
    """The same model in float64 wherever it is made."""
    torch.manual_seed(1)
    shape = {"vocab_size": 29, "num_layers": 1, "d_model": 15, "d_ff": 23}
    model = Transformer(ModelConfig(**shape, num_heads=3, dropout=dropout))
    return Objective(model.double(), 0.1)


def one_step(model, batches, **processes):
    """Take a step whose length is the gradient, and return what it measured."""
    optimizer = optim.SGD(model.parameters(), lr=1.0, fused=True)
    return train_step(model, batches, optimizer, seed=(1, 7), **processes)


def weights_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def trainer_of(processes, run, precision="fp32", model=None, **changes):
    """The trainer of seven steps of four batches each, dropout included."""
    config = TrainConfig(
        batch_tokens=12,
        global_batch_tokens=48,
        max_steps=7,
        warmup_steps=3,
        rate_scale=0.1,
        validate_every=7,
        checkpoint_every=7,
        precision=precision,
        **changes,
    )
    lists = [[4 + (i * j) % 25 for j in range(1, 2 + i % 7)] for i in range(41)]
    sides = (Sequences.from_lists(lists), Sequences.from_lists(lists))
    number = batches_per_step(config, processes.world_size)
    place = (number, processes.rank, processes.world_size)
    stream = BatchStream(*sides, config.batch_tokens, config.seed, *place)
    model = model or some_model(dropout=0.3).model
    return Trainer(model, stream, fixed_batches(*sides, 100), config, run, processes)


def trained_model(processes, run, **changes):
    made = trainer_of(processes, run, **changes)
    assert made.train()
    return made.model


def stop_after(step, of):
    """A patch of `train_step` that sends this process a signal in one step."""
    steps = count(1)

    def then_stop(*arguments):
        if next(steps) == step and of:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_step(*arguments)

    return mock.patch.object(trainer, "train_step", then_stop)


def slow_save(path, weights):
    time.sleep(3)
    save_weights(path, weights)


def stopped_by_the_second(processes, run):
    """What each process finds on leaving a run that a signal to the second stopped."""
    slow = mock.patch.object(checkpoint, "save_weights", slow_save)
    with slow, stop_after(3, of=processes.rank == 1):
        made = trainer_of(processes, run)
        finished = made.train()
    left_with = [path.name for path in RunFolder(run).resumable_checkpoints()]
    processes.gather(None)
    if processes.rank == 0:
        shutil.copytree(run, run.with_name("stopped"))
    processes.gather(None)
    return {
        "finished": finished,
        "left_with": left_with,
        "stopped_at": (made.state.step, weights_of(made.model)),
    }


BATCHES = [*MORE[0], *MORE[1], Batch.from_ids(*SHARDS[0])]


def shared_validation(processes):
    """A validation whose model counts the batches that it is given."""
    model, given = some_model().model, []
    model.encoder.register_forward_hook(lambda *hooked: given.append(1))
    report = validate(model, BATCHES, 0.1, processes=processes)
    return *report, len(given)


def mistake_in_resuming(processes, run):
    try:
        trainer_of(processes, run).train()
    except ValueError as error:
        return str(error)


def resumed_from_different_files(processes, stopped):
    """What is said where the second process sees no checkpoint, or another one."""
    own = stopped if processes.rank == 0 else stopped.with_name("own")
    if processes.rank == 1:
        shutil.copytree(stopped, own)
        (own / "checkpoints" / "step-00000003.stopped.safetensors").unlink()
    missing = mistake_in_resuming(processes, own)
    if processes.rank == 1:
        weights = dict(weights_by_name(some_model().model))
        save_weights(own / "checkpoints" / "step-00000003.stopped.safetensors", weights)
    return {"missing": missing, "different": mistake_in_resuming(processes, own)}


def counted_sum(sums, bucket):
    """What DistributedDataParallel does with a bucket of gradients, counted."""
    sums.append(bucket.index())
    return default_hooks.allreduce_hook(None, bucket)


def become(rank, port):
    """Set what torchrun would set for one of two processes."""
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def as_rank(rank, port, results):
    """What each of the two processes does; its results go into a file."""
    become(rank, port)
    try:
        with join_processes() as processes:
            own = torch.tensor([rank + 5, 7])
            model = some_model()
            parallel = DistributedDataParallel(model)
            batch = Batch.from_ids(*SHARDS[rank])
            report = one_step(parallel, [batch], processes=processes)
            accumulated, sums = some_model(dropout=0.3), []
            parallel = DistributedDataParallel(accumulated)
            parallel.register_comm_hook(sums, counted_sum)
            one_step(parallel, [batch, *MORE[rank]], processes=processes)
            trained = trained_model(processes, results / f"run{rank}")
            stopped = stopped_by_the_second(processes, results / "run")
            resumed = trained_model(processes, results / "run")
            halves = {
                precision: weights_of(
                    trained_model(
                        processes,
                        results / precision,
                        precision=precision,
                        model=some_model(dropout=0.3).model.float(),
                    )
                )
                for precision in ("fp32", "bf16", "fp16")
            }
            found = {
                "rank": processes.rank,
                "world_size": processes.world_size,
                "sum": processes.sum(own),
                "own": own,
                "weights": weights_of(model),
                "accumulated": weights_of(accumulated),
                "sums": len(sums),
                "trained": weights_of(trained),
                "wrote": (results / f"run{rank}").exists(),
                "report": (report.loss, report.nll, report.gradient_norm),
                "resumed": weights_of(resumed),
                "validation": tuple(shared_validation(processes)),
                **stopped,
                **halves,
                **resumed_from_different_files(processes, results / "stopped"),
            }
        found["left"] = not dist.is_initialized()
        torch.save(found, results / f"{rank}.pt")
    except Exception:
        traceback.print_exc()
        raise


def left_alone(rank, port, results):
    """The second process dies, and torchrun's signal reaches the first."""
    become(rank, port)
    try:
        with join_processes() as processes:
            processes.gather(None)
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            processes.gather(None)
    except ConnectionError as error:
        os.kill(os.getpid(), signal.SIGTERM)
        (results / "said").write_text(str(error))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder that the two processes write into."""
    return tmp_path_factory.mktemp("ranks")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def two_processes(results):
    """What rank 0 and rank 1 found."""
    multiprocessing.spawn(as_rank, args=(free_port(), results), nprocs=2)
    return [torch.load(results / f"{rank}.pt") for rank in (0, 1)]


@pytest.fixture(scope="module")
def one_process():
    """Weights and report after the same step taken by one process."""
    model = some_model()
    report = one_step(model, [Batch.from_ids(*shard) for shard in SHARDS])
    return weights_of(model), report


def test_each_process_knows_its_place(two_processes):
    places = [(found["rank"], found["world_size"]) for found in two_processes]
    assert places == [(0, 2), (1, 2)]


def test_a_sum_is_over_both_processes_and_the_same_on_each(two_processes):
    assert [found["sum"].tolist() for found in two_processes] == [[11, 14]] * 2


def test_a_sum_leaves_a_processs_own_tensor_as_it_was(two_processes):
    assert [found["own"].tolist() for found in two_processes] == [[5, 7], [6, 7]]


def test_the_processes_part_at_the_end(two_processes):
    assert all(found["left"] for found in two_processes)


def test_two_processes_with_17_and_3_tokens_give_the_gradient_of_one(
    two_processes, one_process
):
    expected, _ = one_process
    assert (expected - weights_of(some_model())).norm() > 0.01
    for found in two_processes:
        assert_close(found["weights"], expected, **EXACT)


def test_both_processes_have_the_same_weights_after_a_step(two_processes):
    first, second = (found["weights"] for found in two_processes)
    assert torch.equal(first, second)


def test_both_processes_report_the_loss_over_all_tokens(two_processes, one_process):
    _, report = one_process
    assert report.tokens == 17 + 3
    expected = (report.loss, report.nll, report.gradient_norm)
    for found in two_processes:
        assert found["report"] == pytest.approx(expected, rel=1e-5)


def test_two_batches_of_a_step_are_as_good_as_one(one_process):
    expected, _ = one_process
    (first_src, first_tgt), (second_src, second_tgt) = SHARDS
    together = Batch.from_ids(first_src + second_src, first_tgt + second_tgt)
    model = some_model()
    one_step(model, [together])
    assert_close(weights_of(model), expected, **EXACT)


def test_two_processes_with_three_batches_each_are_one_with_six(two_processes):
    # Dropout is on: what it drops depends on the batch's place in the step alone.
    model = some_model(dropout=0.3)
    batches = [Batch.from_ids(*shard) for shard in SHARDS]
    batches += [batch for row in zip(*MORE, strict=True) for batch in row]
    one_step(model, batches)
    for found in two_processes:
        assert_close(found["accumulated"], weights_of(model), **EXACT)


def test_gradients_are_summed_once_a_step_and_not_with_every_batch(two_processes):
    assert [found["sums"] for found in two_processes] == [1, 1]


def test_a_recipe_takes_the_same_steps_on_one_process_and_on_two(
    two_processes, tmp_path
):
    expected = weights_of(trained_model(ONE_CPU, tmp_path / "run"))
    for found in two_processes:
        assert_close(found["trained"], expected, **EXACT)


def test_all_processes_have_the_same_weights_after_many_steps(two_processes):
    first, second = (found["trained"] for found in two_processes)
    assert torch.equal(first, second)


def test_no_process_leaves_a_stopped_run_before_its_checkpoint_is_whole(two_processes):
    # The signal reached the second process; saving took the first three seconds.
    for found in two_processes:
        assert not found["finished"]
        assert found["left_with"] == ["step-00000003.stopped.safetensors"]


def test_processes_share_out_a_validation_and_agree_on_its_result(two_processes):
    expected = shared_validation(ONE_CPU)
    assert expected[-1] == 5
    assert [found["validation"][-1] for found in two_processes] == [3, 2]
    for found in two_processes:
        assert found["validation"][:-1] == pytest.approx(expected[:-1], rel=1e-12)


def test_processes_stop_after_the_same_step_with_the_same_weights(two_processes):
    (first, weights), (second, others) = (f["stopped_at"] for f in two_processes)
    assert first == second == 3
    assert torch.equal(weights, others)


def test_two_processes_resume_as_if_nothing_had_stopped_them(two_processes):
    first, second = (found["resumed"] for found in two_processes)
    assert torch.equal(first, two_processes[0]["trained"])
    assert torch.equal(first, second)


def test_one_process_resumes_what_two_began(two_processes, results):
    resumed = weights_of(trained_model(ONE_CPU, results / "stopped"))
    assert_close(resumed, two_processes[0]["trained"], **EXACT)


def test_all_processes_end_where_one_does_not_see_the_checkpoint(two_processes):
    said = r"step-00000003\.stopped\.safetensors: not found.*one common folder"
    first, second = (found["missing"] for found in two_processes)
    assert re.match(f"process 1: .*/own/.*{said}", first)
    assert re.match(f".*/own/.*{said}", second)


def test_all_processes_end_where_their_checkpoints_differ(two_processes):
    for found in two_processes:
        assert "stopped.safetensors: not the same file" in found["different"]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_two_processes_learn_in_half_precision_as_in_fp32(two_processes, precision):
    first, second = (found[precision] for found in two_processes)
    assert torch.equal(first, second)
    start = weights_of(some_model().model.float())
    exact = two_processes[0]["fp32"] - start
    assert 0 < (first - start - exact).norm() < 0.2 * exact.norm()


def test_the_first_process_alone_writes(two_processes):
    assert [found["wrote"] for found in two_processes] == [True, False]


def test_a_process_says_that_another_is_lost_before_a_signal_ends_it(tmp_path):
    spawned = multiprocessing.spawn(
        left_alone, args=(free_port(), tmp_path), nprocs=2, join=False, daemon=True
    )
    for process in spawned.processes:
        process.join(120)
    assert [process.exitcode for process in spawned.processes] == [0, -signal.SIGKILL]
    said = (tmp_path / "said").read_text()
    assert "process 0 lost another process of the run; the last checkpoint" in said


def test_a_process_that_is_alone_sums_nothing(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    with join_processes() as processes:
        assert (processes.rank, processes.world_size) == (0, 1)
        assert processes.sum(torch.tensor([7])).tolist() == [7]
        assert not dist.is_initialized()
