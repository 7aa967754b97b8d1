"""Memory that a process has freed, kept for its next tensors.

Paper: §5.2
Chapter: the_multi_gpu_trainer
Tests: tests/test_allocation.py
"""

import ctypes
import sys

# Parameters of mallopt(3), as malloc.h numbers them.
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, from now on.

    Every step frees tensors of many megabytes and asks for as many again. glibc gives
    them back to the system in between, which then has to clear each page anew: in the
    best passes of `benchmarks/README.md` 6 % of our time in training on CPUs, and up to
    a fifth of others'. Systems without glibc are left as they are.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_MAX, 0)  # large blocks, too, come from the heap
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)  # and the heap does not shrink
