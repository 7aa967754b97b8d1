"""Translation by several processes at once: on CPUs one for each core is fastest.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/inference/test_parallel.py
"""

import os
import pickle
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from copy import deepcopy
from itertools import repeat
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread, current_thread, main_thread

import torch

from transformer_lite.config import SearchConfig
from transformer_lite.inference.translator import Translator
from transformer_lite.search import Hypothesis
from transformer_lite.training.hardware import keep_freed_memory


class ParallelTranslator(Translator):
    """Translates as one `Translator` does, its batches searched by worker processes.

    Sentences of like length are dealt out among the workers, so that even a small text
    keeps all of them busy, and all for the same time.

    Args:
        translator: Whose equals the workers are.
        executor: The workers.
        workers: Their number.
    """

    def __init__(
        self, translator: Translator, executor: ProcessPoolExecutor, workers: int
    ) -> None:
        super().__init__(
            translator.model, translator.tokenizer, translator.search, translator.target
        )
        self.executor, self.workers = executor, workers

    def _search_all(
        self, batches: list[list[list[int]]], search: SearchConfig
    ) -> Iterator[list[Hypothesis]]:
        try:
            yield from self.executor.map(_search, batches, repeat(search))
        except BrokenProcessPool:
            raise ValueError(
                f"one of {self.workers} workers ended early, perhaps for want of "
                "memory; give fewer --workers"
            ) from None


@contextmanager
def parallel_translator(
    translator: Translator, workers: int
) -> Iterator[ParallelTranslator]:
    """A translator on worker processes, which end with the block.

    Args:
        translator: What the workers shall equal; each gets a copy of its model.
        workers: Number of processes. They share this one's cores, and on GPUs each of
            them has one of its own.

    Raises:
        ValueError: There are more workers than GPUs.
    """
    gpus = torch.cuda.device_count()
    if gpus and workers > gpus:
        raise ValueError(
            f"--workers {workers} need a GPU each, and there are {gpus}; give at most "
            "as many"
        )
    context = get_context("spawn")
    devices = context.SimpleQueue()
    for number in range(workers):
        devices.put(f"cuda:{number}" if gpus else "cpu")
    threads = max(1, torch.get_num_threads() // workers)
    with TemporaryDirectory() as folder:
        # By a file: through a pipe each worker would hold the next one's start up.
        copy = Path(folder, "translator.pickle")
        copy.write_bytes(_pickled(translator))
        executor = ProcessPoolExecutor(
            workers, context, _begin, (copy, devices, threads)
        )
        others = set(active_children())
        try:
            with _interrupts_ignored():
                for _ in range(workers):  # all of them start at once
                    executor.submit(os.getpid)
            yield ParallelTranslator(translator, executor, workers)
        finally:
            for process in set(active_children()) - others:
                process.terminate()
            executor.shutdown(cancel_futures=True)


def _pickled(translator: Translator) -> bytes:
    """The translator, its model on the CPU."""
    model = deepcopy(translator.model).cpu()
    copy = Translator(model, translator.tokenizer, translator.search, translator.target)
    return pickle.dumps(copy)


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Have the processes that begin in the block leave Ctrl-C to the first one."""
    if current_thread() is not main_thread():  # which alone may change it
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin(copy: Path, devices: SimpleQueue, threads: int) -> None:
    """Make this process a worker."""
    global _translator
    Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)
    keep_freed_memory()
    try:
        _translator = pickle.loads(copy.read_bytes())
        _translator.model.to(devices.get())
    except Exception as error:  # raised here, it would be lost with the process
        _translator = error


def _end_with_parent() -> None:
    """End this process when the one that began it ends, in whichever way."""
    parent_process().join()
    os._exit(0)


def _search(sources: list[list[int]], search: SearchConfig) -> list[Hypothesis]:
    """What this worker finds, if it could become one."""
    if isinstance(_translator, Exception):
        raise ValueError(
            f"a worker could not begin ({type(_translator).__name__}: {_translator}); "
            "mend that, or give fewer --workers"
        )
    return _translator.search_batch(sources, search)
