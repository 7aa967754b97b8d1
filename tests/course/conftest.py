"""One server makes the processes of all checks of parts."""

import multiprocessing
from multiprocessing import forkserver

import pytest

from transformer_lite_course import grading


@pytest.fixture(scope="session", autouse=True)
def server():
    # The first optimizer of a process imports torch._dynamo, which takes two seconds.
    multiprocessing.set_forkserver_preload([grading.__name__, "torch._dynamo"])
    forkserver.ensure_running()
