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
from contextlib import contextmanager, suppress
from copy import deepcopy
from itertools import repeat
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.queues import SimpleQueue
from threading import Thread

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
        super().__init__(translator.model, translator.tokenizer, translator.search)
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
    model = deepcopy(translator.model).cpu()
    copy = pickle.dumps(Translator(model, translator.tokenizer, translator.search))
    threads = max(1, torch.get_num_threads() // workers)
    theirs, ours = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(
        workers, context, _begin, (copy, devices, threads, theirs)
    )
    try:
        yield ParallelTranslator(translator, executor, workers)
    finally:
        ours.close()  # ends the workers, whatever they are doing
        executor.shutdown(cancel_futures=True)


def _begin(copy: bytes, devices: SimpleQueue, threads: int, parent: Connection) -> None:
    """Make this process a worker."""
    global _translator
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process answers it
    Thread(target=_end_with, args=(parent,), daemon=True).start()
    torch.set_num_threads(threads)
    keep_freed_memory()
    _translator = pickle.loads(copy)
    _translator.model.to(devices.get())


def _end_with(parent: Connection) -> None:
    """End this process when the other end is closed, be it by the parent's death."""
    with suppress(EOFError, OSError):
        parent.recv()
    os._exit(0)


def _search(sources: list[list[int]], search: SearchConfig) -> list[Hypothesis]:
    return _translator.search_batch(sources, search)
