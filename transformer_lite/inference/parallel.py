"""Translation by several processes at once: on CPUs one for each core is fastest.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/inference/test_parallel.py
"""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from transformer_lite.config import SearchConfig
from transformer_lite.inference.translator import Translator
from transformer_lite.training.hardware import keep_freed_memory


class ParallelTranslator:
    """Translates as one `Translator` does, on worker processes.

    Sentences of like length are dealt out among the workers, so that even a small text
    keeps all of them busy, and all for the same time.

    Args:
        translator: Makes the batches; its search is the workers'.
        workers: A connection to each worker.
    """

    def __init__(self, translator: Translator, workers: Sequence[Connection]) -> None:
        self._translator, self._workers = translator, workers

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """The translation of each sentence, in their order.

        Raises:
            ValueError: A sentence is longer than the model allows, or a worker died.
        """
        translations = [""] * len(sentences)
        # The longest go first: towards the end short ones even out the workers' times.
        waiting = self._translator.batches(sentences, shares=len(self._workers))
        idle, busy = list(self._workers), {}
        try:
            while waiting or busy:
                while waiting and idle:
                    rows, worker = waiting.pop(), idle.pop()
                    worker.send([sentences[i] for i in rows])
                    busy[worker] = rows
                for worker in wait(busy):
                    for i, found in zip(busy.pop(worker), worker.recv(), strict=True):
                        translations[i] = found
                    idle.append(worker)
        except (EOFError, ConnectionError):
            raise ValueError(
                f"one of {len(self._workers)} workers ended early, perhaps for want of "
                "memory; give fewer --workers"
            ) from None
        return translations


@contextmanager
def parallel_translator(
    translator: Translator, run: Path, weights: Path, workers: int
) -> Iterator[ParallelTranslator]:
    """A translator on worker processes, which end with the block.

    Args:
        translator: What the workers shall equal, loaded from `run`.
        run: The run's folder, which each worker loads for itself.
        weights: Its checkpoint.
        workers: Number of processes; they share this one's cores.
    """
    context = get_context("spawn")
    threads = max(1, torch.get_num_threads() // workers)
    connections, processes = [], []
    try:
        for _ in range(workers):
            own, theirs = context.Pipe()
            connections.append(own)
            arguments = (theirs, run, weights, translator.search, threads)
            processes.append(context.Process(target=_work, args=arguments, daemon=True))
            processes[-1].start()
            theirs.close()  # or the worker's end would not be noticed
        yield ParallelTranslator(translator, connections)
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _work(
    connection: Connection, run: Path, weights: Path, search: SearchConfig, threads: int
) -> None:
    """Translate what comes in, until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process answers it
    torch.set_num_threads(threads)
    keep_freed_memory()
    translator = Translator.load(run, weights)
    translator.search = search
    with suppress(EOFError, ConnectionError):
        while True:
            connection.send(translator.translate(connection.recv()))
