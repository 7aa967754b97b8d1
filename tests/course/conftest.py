"""One server makes the processes of all checks of parts."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def processes_of_checks(server):
    """Begin with everything imported."""
