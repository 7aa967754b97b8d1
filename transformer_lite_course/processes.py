"""Processes that wait for programs of `torch.distributed`, so that none has to start.

`torchrun --nproc-per-node 2 FILE` imports PyTorch three times, which takes seconds. The
processes here have imported it, and run one file after the other. An exercise's check
hands them a reader's function. A hang is ended, and said.

Paper: §5.2
Chapter: why_eight_gpus_are_not_eight_times_faster
Tests: tests/course/test_processes.py
"""

import atexit
import json
import os
import pickle
import queue
import re
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

START_SECONDS = 180.0
"""So long processes may take to start: on a busy machine each imports for a while."""
RUN_SECONDS = 60.0
"""So long a program may take."""
ANSWER_SECONDS = 20.0
"""So long an answer to an exercise may take, which needs much less than a second."""
ALONE_SECONDS = 15.0
"""So long one process may go on when another has ended: it waits for nobody."""
NOT_JOINED = re.compile("connectFullMesh|EADDRINUSE")
"""In the errors of processes that did not find each other; they may try again."""
TRIES = 3
DIFFERENT = (
    "the processes made different calls; both have to make the same ones, such as "
    "`dist.all_reduce`, equally often and with tensors of one shape"
)
"""What it means that a process has lost the other one."""


class Waiting:
    """Some processes that wait for programs.

    Args:
        number: Of processes.
    """

    def __init__(self, number: int = 2) -> None:
        self.number = number
        self.workers: list[subprocess.Popen] = []
        self.readers: list[threading.Thread] = []
        self.replies: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()

    def run(self, path: Path | str, seconds: float = RUN_SECONDS) -> list[str]:
        """Run a file as torchrun would; return what each process printed.

        Args:
            path: The file.
            seconds: So long it may take.

        Raises:
            RuntimeError: A process failed; the message is that of its error.
            TimeoutError: Some processes wait for ever. They are ended.
        """
        for _ in range(TRIES):
            found = self._try(Path(path).absolute(), seconds)
            errors = [reply["error"] for reply in found.values() if reply["error"]]
            if not any(map(NOT_JOINED.search, errors)):
                break
        if errors:
            # Who only lost the others tells less than who failed.
            failed = [error for error in errors if "onnection" not in error]
            raise RuntimeError(failed[0] if failed else DIFFERENT)
        return [found[rank]["said"] for rank in range(self.number)]

    def _try(self, path: Path, seconds: float) -> dict[int, dict[str, Any]]:
        """Run a file once; return a reply of each process, by rank."""
        if not self.workers:
            self._start()
        with socket.create_server(("127.0.0.1", 0)) as free:
            # Another program may take the port before the processes do.
            task = {"port": free.getsockname()[1], "path": str(path)}
        for worker in self.workers:
            worker.stdin.write(json.dumps(task) + "\n")
            worker.stdin.flush()
        return self._collect(seconds, ALONE_SECONDS)

    def end(self) -> None:
        """End the processes; the next program starts new ones."""
        for worker in self.workers:
            worker.kill()
            worker.wait()
            worker.stdin.close()
        for reader in self.readers:  # at the end of the output, which has come now
            reader.join()
        for worker in self.workers:
            worker.stdout.close()
        self.readers = []
        self.workers = []
        self.replies = queue.Queue()

    def _start(self) -> None:
        here = str(Path(__file__).resolve().parents[1])
        paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "OMP_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "MASTER_ADDR": "127.0.0.1",
            "WORLD_SIZE": str(self.number),
        }
        for rank in range(self.number):
            worker = subprocess.Popen(
                [sys.executable, "-m", "transformer_lite_course.processes"],
                env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # an interrupt is for the notebook alone
            )
            self.workers.append(worker)
            reader = threading.Thread(
                target=_read, args=(rank, worker, self.replies), daemon=True
            )
            reader.start()
            self.readers.append(reader)
        self._collect(START_SECONDS, START_SECONDS)  # each says that it is ready

    def _collect(self, seconds: float, alone: float) -> dict[int, dict[str, Any]]:
        """Return a reply of each process, by rank."""
        found: dict[int, dict[str, Any]] = {}
        until = time.monotonic() + seconds
        while len(found) < self.number:
            try:
                rank, reply = self.replies.get(timeout=until - time.monotonic())
            except (queue.Empty, ValueError):
                lost = [r for r in range(self.number) if r not in found]
                self.end()
                names = " and ".join(map(str, lost))
                others = "the others have ended" if found else "none has ended"
                raise TimeoutError(
                    f"a hang: process {names} waits for a call that another process "
                    f"does not make ({others})."
                ) from None
            if reply is None:
                self.end()
                raise RuntimeError(f"process {rank} has crashed; perhaps {DIFFERENT}")
            found[rank] = reply
            until = min(until, time.monotonic() + alone)
        return found


def _read(rank: int, worker: subprocess.Popen, replies: queue.Queue) -> None:
    for line in worker.stdout:
        replies.put((rank, json.loads(line)))
    replies.put((rank, None))


@cache
def two_processes() -> Waiting:
    """Return two processes that wait; they end with this one."""
    waiting = Waiting(2)
    atexit.register(waiting.end)
    return waiting


def in_two_processes(answer: Callable, task: Callable) -> list[Any]:
    """Call `task(answer, processes)` in two processes; return what they return.

    The functions of a notebook are sent with what they use of it. What an answer prints
    is printed here.
    """
    import cloudpickle
    import torch  # a check has imported it

    with TemporaryDirectory() as folder:
        calls = cloudpickle.dumps((task, answer))
        (Path(folder) / "calls").write_bytes(calls)
        program = Path(folder) / "program.py"
        program.write_text(
            "from transformer_lite_course.processes import call_both\n"
            f"call_both({folder!r})\n",
            "utf-8",
        )
        for rank, said in enumerate(two_processes().run(program, ANSWER_SECONDS)):
            if said:
                print(f"process {rank}: {said}", end="")
        return [torch.load(Path(folder) / f"found-{rank}.pt") for rank in (0, 1)]


def call_both(folder: str) -> None:
    """Do what `in_two_processes` asks for, in one of the two."""
    import torch

    from transformer_lite.training.distributed import join_processes

    task, answer = pickle.loads((Path(folder) / "calls").read_bytes())
    with join_processes() as processes:
        found = task(answer, processes)
        torch.save(found, Path(folder) / f"found-{processes.rank}.pt")


def _serve() -> None:
    """Run each file that is named on a line, and say what it printed."""
    import transformer_lite.training.step  # noqa: F401

    out, sys.stdout = sys.stdout, sys.stderr
    print("{}", file=out, flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        os.environ["MASTER_PORT"] = str(task["port"])
        said, error = StringIO(), None
        sys.path.insert(0, str(Path(task["path"]).parent))
        try:
            with redirect_stdout(said):
                runpy.run_path(task["path"], run_name="__main__")
        except BaseException as failure:  # whatever a program does
            cause = f" ({failure.__cause__})" if failure.__cause__ else ""
            error = f"{type(failure).__name__}: {failure}{cause}"
        sys.path.pop(0)
        reply = {"said": said.getvalue(), "error": error}
        print(json.dumps(reply), file=out, flush=True)


if __name__ == "__main__":
    _serve()
