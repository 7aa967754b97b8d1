"""The next step's batches, made while the device computes this step.

Paper: §5.2
Chapter: the_multi_gpu_trainer
Tests: tests/test_prefetch.py
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def prefetch(items: Iterator[Any]) -> Iterator[tuple[Any, float]]:
    """Each item with the seconds that were spent waiting for it.

    One item is made ahead, in a thread. An error in making it is raised where the
    item would have been given.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader") as loader:
        coming = loader.submit(next, items, None)
        while True:
            start = time.perf_counter()
            item = coming.result()
            waited = time.perf_counter() - start
            if item is None:
                return
            coming = loader.submit(next, items, None)
            yield item, waited
