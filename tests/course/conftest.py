"""What the tests of the course ask for."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def fork_server_of_checks(fork_server):
    """All checks of parts run in its processes."""
