"""Memory that was freed is there for the next tensor."""

import subprocess
import sys

import pytest

SCRIPT = """
import resource
import torch
from transformer_lite.allocation import keep_freed_memory

def pages_cleared():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(4_000_000)  # 16 MB
        torch.ones(16_000_000)  # 64 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
pages_cleared()
print(pages_cleared())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="for the allocator of Linux")
def test_memory_is_not_cleared_again():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 1_000  # without the call some 195,000 pages of 4 KB
