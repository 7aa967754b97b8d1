"""What tests of several files ask for."""

import shutil

import pytest
from playwright.sync_api import sync_playwright
from unchecked import unchecked

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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
