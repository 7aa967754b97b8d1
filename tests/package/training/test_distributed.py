"""Two processes that act as one."""

import os
import re
import shutil
import signal
import socket
import time
import traceback
from dataclasses import astuple
from datetime import timedelta
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
import torch
from small_runs import before_step, free_port, pairs, send
from torch import distributed as dist
from torch import multiprocessing, optim
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from transformer_lite import batching
from transformer_lite.batching import Batch, BatchStream, fixed_batches
from transformer_lite.config import ModelConfig, TrainConfig
from transformer_lite.model import Transformer
from transformer_lite.runs import weights
from transformer_lite.runs.folder import RunFolder
from transformer_lite.training import checkpoint
from transformer_lite.training.distributed import (
    ONE_CPU,
    _meeting_point,
    join_processes,
)
from transformer_lite.training.step import Objective, train_step, validate
from transformer_lite.training.trainer import Trainer

EXACT = {"rtol": 0, "atol": 1e-12}
# Target tokens, EOS counted: 17 for the first process, 3 for the second.
SHARDS = (
    ([[5, 7, 11], [13, 6, 17, 19]], [[9, 10, 12, 14, 15, 16, 18], [20, 21] * 4]),
    ([[23, 8]], [[22, 4]]),
)
FIRST = [Batch.from_ids(*shard) for shard in SHARDS]
# Two further batches for each process.
MORE = (
    [Batch.from_ids([[5]], [[9, 9]]), Batch.from_ids([[6, 7]], [[11]])],
    [Batch.from_ids([[8, 5, 6]], [[13, 15, 17]]), Batch.from_ids([[21]], [[23]])],
)
BATCHES = [*MORE[0], *MORE[1], FIRST[0]]
TWO = {"WORLD_SIZE": "2", "RANK": "0"}
THREADS = Path("/proc/self/task")
SEVEN_STEPS = {"batch_tokens": 12, "global_batch_tokens": 48, "rate_scale": 0.1}
SEVEN_STEPS |= {"max_steps": 7, "warmup_steps": 3}
SEVEN_STEPS |= {"validate_every": 7, "checkpoint_every": 7}


def some_model(dropout=0.0):
    """The same model in float64 wherever it is made."""
    torch.manual_seed(1)
    shape = {"vocab_size": 29, "num_layers": 1, "d_model": 15, "d_ff": 23}
    model = Transformer(ModelConfig(**shape, num_heads=3, dropout=dropout))
    return Objective(model.double(), 0.1)


def one_step(model, batches, **processes):
    """Take a step whose length is the gradient, and return what it measured."""
    optimizer = optim.SGD(model.parameters(), lr=1.0)
    return train_step(model, batches, optimizer, seed=(1, 7), **processes)


def weights_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def trainer_of(processes, out, precision=None):
    """The trainer of seven steps of four batches each, dropout included."""
    config = TrainConfig(**SEVEN_STEPS, precision=precision or "fp32")
    sides = pairs(41)
    number = batching.batches_per_step(config)
    place = (number, processes.rank, processes.world_size)
    stream = BatchStream(*sides, config.batch_tokens, config.seed, *place)
    model = some_model(dropout=0.3).model
    model = model.float() if precision else model
    validation = fixed_batches(*sides, 100)
    samples = mock.Mock(side_effect=MemoryError)  # which never end a run
    return Trainer(model, stream, validation, config, out, processes, samples)


def trained(processes, out, precision=None):
    """The weights after these steps, in float64 unless a precision is given."""
    made = trainer_of(processes, out, precision)
    assert made.train()
    return weights_of(made.model)


def stopped_by_the_second(processes, out):
    """What each process finds on leaving a run that a signal to the second stopped."""

    def slow_save(path, tensors):
        time.sleep(3)
        weights.save_weights(path, tensors)

    slow = mock.patch.object(checkpoint, "save_weights", slow_save)
    with slow, pytest.MonkeyPatch.context() as patch:
        if processes.rank == 1:
            before_step(patch, 3, send(signal.SIGTERM))
        made = trainer_of(processes, out)
        finished = made.train()
    left_with = [path.name for path in RunFolder(out).all_checkpoints()]
    processes.gather(None)
    if processes.rank == 0:
        shutil.copytree(out, out.with_name("stopped"))
    processes.gather(None)
    stopped_at = (made.state.step, weights_of(made.model))
    return {"finished": finished, "left_with": left_with, "stopped_at": stopped_at}


def shared_validation(processes):
    """A validation whose model counts the batches that it is given."""
    model, given = some_model().model, []
    model.encoder.register_forward_hook(lambda *hooked: given.append(1))
    report = validate(model, BATCHES, 0.1, processes=processes)
    return *astuple(report), len(given)


def mistake(act):
    try:
        act()
    except ValueError as error:
        return str(error)


def mistakes_of_one(processes, results):
    """What is said where only one of the processes finds a mistake."""
    first, stopped = processes.rank == 0, results / "stopped"
    own = stopped if first else results / "own"
    found = {"missing": mistake(trainer_of(processes, own).train)}
    if not first:
        shutil.copytree(stopped, own)
        (newest,) = RunFolder(own).all_checkpoints()
        weights.save_weights(newest, weights.weights_of(some_model().model))
    found["different"] = mistake(trainer_of(processes, own).train)
    return found


def counted_sum(sums, bucket):
    """What DistributedDataParallel does with a bucket of gradients, counted."""
    sums.append(bucket.index())
    return default_hooks.allreduce_hook(None, bucket)


def become(rank, port, world_size=2):
    """Set what torchrun would set for one of some processes."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "MASTER_PORT": port}
    place["WORLD_SIZE"] = world_size
    os.environ |= {name: str(value) for name, value in place.items()}
    os.environ["MASTER_ADDR"] = "127.0.0.1"


def steps_together(processes):
    """What this process's model is after a step of one batch, and of three."""
    rank, model = processes.rank, some_model()
    parallel = DistributedDataParallel(model)
    report = one_step(parallel, [FIRST[rank]], processes=processes)
    accumulated, sums = some_model(dropout=0.3), []
    parallel = DistributedDataParallel(accumulated)
    parallel.register_comm_hook(sums, counted_sum)
    one_step(parallel, [FIRST[rank], *MORE[rank]], processes=processes)
    return {
        "weights": weights_of(model),
        "report": astuple(report),
        "accumulated": weights_of(accumulated),
        "sums": len(sums),
    }


def table_after_a_step(processes, out):
    """A constant of the model, another on each process, after a step."""
    made = trainer_of(processes, out)
    objective = made._objective()
    table = next(made.model.buffers())
    table.fill_(processes.rank)
    one_step(objective, [FIRST[processes.rank]], processes=processes)
    return table.unique().tolist()


def as_rank(rank, port, results):
    """Do everything that the tests look at, and write what was found into a file."""
    become(rank, port)
    try:
        with join_processes() as processes:
            found = {
                **steps_together(processes),
                "trained": trained(processes, results / f"run{rank}"),
                "wrote": (results / f"run{rank}").exists(),
                **stopped_by_the_second(processes, results / "run"),
                "resumed": trained(processes, results / "run"),
                "validation": shared_validation(processes),
                "table": table_after_a_step(processes, results / f"table{rank}"),
                **mistakes_of_one(processes, results),
            }
            for precision in ("fp32", "bf16", "fp16"):
                out = results / precision
                found[precision] = trained(processes, out, precision)
        found["threads"] = [thread.read_text() for thread in THREADS.glob("*/comm")]
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


@pytest.fixture(scope="module")
def two_processes(results, fork_server):
    """What rank 0 and rank 1 found."""
    arguments = (free_port(), results)
    multiprocessing.start_processes(as_rank, arguments, 2, start_method="forkserver")
    return [torch.load(results / f"{rank}.pt") for rank in (0, 1)]


@pytest.mark.skipif(not THREADS.exists(), reason="finds threads in /proc")
def test_no_thread_of_a_group_outlives_it(two_processes):
    # Such a thread can crash the process while Python ends.
    for found in two_processes:
        assert not [name for name in found["threads"] if "gloo" in name]


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "5")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    message = "process 5 of this machine has no GPU: there are 3; start torchrun"
    with pytest.raises(ValueError, match=message), join_processes():
        pass


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"WORLD_SIZE": "2"}, "RANK: not set; let torchrun"),
        ({"RANK": "1"}, "RANK = 1: too large for WORLD_SIZE = 1"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE = 'two': no number; let torchrun"),
        (TWO, "MASTER_ADDR: not set"),
        (TWO | {"MASTER_ADDR": "a"}, "MASTER_PORT: not set"),
        (TWO | {"MASTER_ADDR": "", "MASTER_PORT": "1"}, "MASTER_ADDR: not set"),
        (TWO | {"MASTER_ADDR": "a", "MASTER_PORT": "0"}, "MASTER_PORT = 0: not from 1"),
        (TWO | {"MASTER_ADDR": "a", "MASTER_PORT": "65536"}, "not from 1 to 65535"),
        ({"WORLD_SIZE": "0"}, "RANK = 0: too large for WORLD_SIZE = 0"),
    ],
)
def test_half_of_torchruns_variables_are_refused_by_name(monkeypatch, place, message):
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message), join_processes():
        pass


@pytest.mark.parametrize("host", ["127.0.0.1", "no.such.host.invalid"])
def test_a_place_where_processes_cannot_meet_is_named(monkeypatch, host):
    with socket.create_server(("", 0)) as taken:
        place = {"MASTER_ADDR": host, "MASTER_PORT": str(taken.getsockname()[1])}
        if host != "127.0.0.1":
            place["MASTER_PORT"] = str(free_port())
            brief = partial(dist.rendezvous, timeout=timedelta(seconds=1))
            monkeypatch.setattr(dist, "rendezvous", brief)
        for name, value in (TWO | place).items():
            monkeypatch.setenv(name, value)
        message = f"MASTER_ADDR = {host}, MASTER_PORT = {place['MASTER_PORT']}; take "
        with pytest.raises(ConnectionError, match=message) as raised, join_processes():
            pass
    assert "\n" not in str(raised.value)


def test_without_a_count_of_restarts_it_is_the_first_attempt(monkeypatch):
    server = dist.TCPStore("127.0.0.1", port=0, is_master=True)
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port)}
    for name, value in (TWO | place).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT", raising=False)
    _meeting_point().set("key", "value")
    assert server.get("attempt-0/key") == b"value"


def test_two_processes_with_17_and_3_tokens_take_the_step_of_one(two_processes):
    model = some_model()
    report = one_step(model, FIRST)
    assert report.tokens == 17 + 3
    assert (weights_of(model) - weights_of(some_model())).norm() > 0.01
    for found in two_processes:
        assert_close(found["weights"], weights_of(model), **EXACT)
        assert found["report"] == pytest.approx(astuple(report), rel=1e-5)


def test_two_processes_with_three_batches_each_are_one_with_six(two_processes):
    # Dropout is on: what it drops depends on the batch's place in the step alone.
    model = some_model(dropout=0.3)
    rows = zip(*MORE, strict=True)
    one_step(model, [*FIRST, *(batch for row in rows for batch in row)])
    for found in two_processes:
        assert_close(found["accumulated"], weights_of(model), **EXACT)


def test_gradients_are_summed_once_a_step_and_not_with_every_batch(two_processes):
    assert [found["sums"] for found in two_processes] == [1, 1]


def test_tables_of_constants_are_not_sent_with_every_step(two_processes):
    assert [found["table"] for found in two_processes] == [[0], [1]]


def test_one_process_and_two_take_the_same_steps_of_a_recipe(two_processes, tmp_path):
    expected = trained(ONE_CPU, tmp_path / "run")
    for found in two_processes:
        assert_close(found["trained"], expected, **EXACT)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_two_processes_learn_in_half_precision_as_in_fp32(two_processes, precision):
    first, second = (found[precision] for found in two_processes)
    assert torch.equal(first, second)
    start = weights_of(some_model().model.float())
    exact = two_processes[0]["fp32"] - start
    assert 0 < (first - start - exact).norm() < 0.2 * exact.norm()


def test_processes_share_out_a_validation_and_agree_on_its_result(two_processes):
    expected = shared_validation(ONE_CPU)
    assert expected[-1] == 5
    assert [found["validation"][-1] for found in two_processes] == [3, 2]
    for found in two_processes:
        assert found["validation"][:-1] == pytest.approx(expected[:-1], rel=1e-12)


def test_the_first_process_alone_writes(two_processes):
    assert [found["wrote"] for found in two_processes] == [True, False]


def test_no_process_leaves_a_stopped_run_before_its_checkpoint_is_whole(two_processes):
    # The signal reached the second process; saving took the first three seconds.
    for found in two_processes:
        assert not found["finished"]
        assert found["left_with"] == ["step-00000003.extra.safetensors"]
    (first, own), (second, other) = (found["stopped_at"] for found in two_processes)
    assert first == second == 3
    assert torch.equal(own, other)


def test_two_processes_resume_as_if_nothing_had_stopped_them(two_processes):
    first, second = (found["resumed"] for found in two_processes)
    assert torch.equal(first, two_processes[0]["trained"])
    assert torch.equal(first, second)


def test_one_process_resumes_what_two_began(two_processes, results):
    resumed = trained(ONE_CPU, results / "stopped")
    assert_close(resumed, two_processes[0]["trained"], **EXACT)


def test_a_mistake_that_one_process_finds_ends_both(two_processes):
    other, own = (found["missing"] for found in two_processes)
    message = r"00003\.extra\.training\.pt: not found.*one common folder"
    assert re.search(message, own)
    assert other == f"process 1: {own}"


def test_both_processes_end_where_their_checkpoints_differ(two_processes):
    for found in two_processes:
        assert "extra.safetensors: not the same file" in found["different"]


def test_a_process_says_that_another_is_lost_before_a_signal_ends_it(
    fork_server, tmp_path
):
    given = (left_alone, (free_port(), tmp_path), 2)
    both = multiprocessing.start_processes(
        *given, join=False, daemon=True, start_method="forkserver"
    ).processes
    for process in both:
        process.join(120)
    assert [process.exitcode for process in both] == [0, -signal.SIGKILL]
    said = (tmp_path / "said").read_text()
    assert "process 0 lost another process of the run; the last checkpoint" in said
