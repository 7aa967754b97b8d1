"""What tests of several files ask for."""

import multiprocessing
import shutil
from multiprocessing import forkserver

import pytest
from playwright.sync_api import sync_playwright
from unchecked import unchecked

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def fork_server():
    """Processes of the start method "forkserver" begin with everything imported.

    torch takes two seconds, and torch._dynamo, which an optimizer needs, two more.
    """
    needed = ["transformer_lite_course.grading", "transformer_lite.training.run"]
    multiprocessing.set_forkserver_preload([*needed, "torch._dynamo"])
    forkserver.ensure_running()


@pytest.fixture(scope="module")
def types_unchecked():
    """Check no types, as for a user. A value of a wrong type meets our own errors."""
    with unchecked():
        yield


@pytest.fixture(scope="module")
def browser():
    """Chromium; a test that asks for it is skipped where there is none."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not program:
        pytest.skip("no Chromium on this machine")
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=program)
        yield chromium
        chromium.close()
