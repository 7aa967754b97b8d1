"""Several processes that act as one: start them together, sum over all of them.

Paper: §5.2
Chapter: the_multi_gpu_trainer
Tests: tests/package/training/test_distributed.py, tests/package/training/test_ranks.py
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch

# Imported before any group exists: its functions keep the group that they find as a
# default argument. DistributedDataParallel would import it later, and then Gloo's
# threads would outlive the group, and could crash the process while Python ends.
import torch.distributed.nn
from torch import Tensor
from torch import distributed as dist


@dataclass(frozen=True, kw_only=True)
class Processes:
    """This process's place among all that train together."""

    rank: int
    """Number of this process, from 0; only rank 0 writes files."""
    world_size: int
    """Number of processes."""
    device: torch.device

    def all_reduce(self, values: Tensor) -> Tensor:
        """Return the sum of every process's tensor, the same on all of them."""
        if self.world_size > 1:
            values = values.clone()
            dist.all_reduce(values)
        return values

    def any_rank(self, value: bool) -> bool:
        """Return whether the value is true on at least one process."""
        return bool(self.all_reduce(torch.tensor(int(value), device=self.device)))

    def gather(self, value: Any) -> list[Any]:
        """Return every process's value, in the order of their ranks."""
        values = [value] * self.world_size
        if self.world_size > 1:
            dist.all_gather_object(values, value)
        return values

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """If the block fails on one process, raise an error on all of them.

        Nothing inside the block may wait for the other processes.

        Raises:
            Exception: What the block raised here.
            ValueError: The block raised an error on another process.
        """
        try:
            yield
        except Exception as error:
            with suppress(RuntimeError):  # to tell the others is second to this error
                self._failures(str(error) or repr(error))
            raise
        for rank, message in enumerate(self._failures(None)):
            if message is not None:
                raise ValueError(f"process {rank}: {message}")

    def _failures(self, message: str | None) -> list[str | None]:
        """Return every process's message, None where all is well; [] if it is so."""
        return self.gather(message) if self.any_rank(message is not None) else []


ONE_CPU = Processes(rank=0, world_size=1, device=torch.device("cpu"))


@contextmanager
def join_processes() -> Iterator[Processes]:
    """Join the processes that torchrun started; yield this process's place among them.

    torchrun sets environment variables; without them a process is alone. Each process
    takes the GPU of its local rank, or the CPU if there is no GPU.

    Make a DistributedDataParallel in a function that the block calls. One that outlives
    the block keeps the group's threads.

    After an error NCCL's group ends with the process: to destroy it would wait for the
    other processes, which may wait for this one. Gloo's is destroyed at once. The next
    SIGTERM is ignored: torchrun sends one when a process has failed, and this one has
    an error to report.

    Raises:
        ValueError: A variable is missing or wrong, or this machine has fewer GPUs than
            processes.
        ConnectionError: The processes cannot meet at MASTER_ADDR and MASTER_PORT. Or
            one is lost, and Gloo has noticed; with NCCL no error is raised: this
            process waits for the GPU, until torchrun ends it, by SIGKILL 30 seconds
            after SIGTERM, or NCCL's watchdog, at the latest after 10 minutes.
    """
    rank, local_rank, world_size = _place()
    device = _device(local_rank)
    try:
        if world_size > 1:
            dist.init_process_group(
                "nccl" if device.type == "cuda" else "gloo",
                store=_meeting_point(),
                rank=rank,
                world_size=world_size,
            )
        yield Processes(rank=rank, world_size=world_size, device=device)
    except BaseException as error:
        if world_size > 1:
            with suppress(ValueError):  # not in the main thread
                before = signal.getsignal(signal.SIGTERM)
                signal.signal(signal.SIGTERM, lambda n, _: signal.signal(n, before))
            if dist.is_initialized() and dist.get_backend() == "gloo":
                _destroy_group()  # its threads would abort the process
            if _is_lost_connection(error):
                raise ConnectionError(
                    f"process {rank} lost another process of the run; the last "
                    "checkpoint is intact, and the same command resumes from it "
                    "(torchrun does so by itself with --max-restarts)"
                ) from error
        raise
    if world_size > 1:
        _destroy_group()


def _destroy_group() -> None:
    """Destroy the group, once Gloo's threads have let the last tensors go.

    A thread needs Python's lock for that. PyTorch 2.6 waits for the threads' end while
    it holds the lock; in 2.13, only a DistributedDataParallel that outlives the group
    does.
    """
    time.sleep(0.1)  # without the lock
    dist.destroy_process_group()


def _place() -> tuple[int, int, int]:
    """Return this process's rank, its rank on this machine, and how many there are."""
    numbers = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "1"}
    numbers = {name: os.environ.get(name, numbers[name]) for name in numbers}
    wrong = [f"{n} = {v!r}: no number" for n, v in numbers.items() if not v.isdecimal()]
    if not wrong:
        rank, local_rank, world_size, port = map(int, numbers.values())
        needed = ("RANK", "MASTER_ADDR", "MASTER_PORT") if world_size > 1 else ()
        wrong = [f"{name}: not set" for name in needed if not os.environ.get(name)]
        if needed and not 0 < port < 2**16:
            wrong = [f"MASTER_PORT = {port}: not from 1 to 65535"]
        if rank >= world_size:
            wrong = [f"RANK = {rank}: too large for WORLD_SIZE = {world_size}"]
    if wrong:
        raise ValueError(
            f"{wrong[0]}; let torchrun start the processes, which sets it, or unset "
            "RANK and WORLD_SIZE to train in one"
        )
    return rank, local_rank, world_size


def _device(local_rank: int) -> torch.device:
    """Choose this process's GPU, or the CPU if the machine has no GPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        raise ValueError(
            f"process {local_rank} of this machine has no GPU: there are "
            f"{torch.cuda.device_count()}; start torchrun with that --nproc-per-node"
        )
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


def _meeting_point() -> dist.Store:
    """Return the store through which the processes of this attempt find each other.

    A store is a small server of keys and values, run by the first process or by
    torchrun. Each process writes its own address into it and reads those of the others;
    then they talk directly.

    A store that torchrun runs outlives a restart. A prefix for each attempt keeps
    processes from finding addresses of dead ones there and waiting for them for ever.
    Machines may count their attempts differently, so the book's command for several of
    them has torchrun share no store (https://github.com/pytorch/pytorch/issues/135712).
    """
    try:
        store, _, _ = next(dist.rendezvous("env://"))
    except (ValueError, RuntimeError) as error:  # a plain one in PyTorch 2.6
        raise ConnectionError(
            "no meeting at MASTER_ADDR = {MASTER_ADDR}, MASTER_PORT = {MASTER_PORT}; "
            "take the first machine's address and a free port".format(**os.environ)
        ) from error
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return dist.PrefixStore(f"attempt-{attempt}", store)
    return store


def _is_lost_connection(error: Exception) -> bool:
    """Return whether a connection failed; Gloo raises a plain RuntimeError."""
    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and "gloo" in str(error).lower()
    )
