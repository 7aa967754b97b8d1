"""What tests of several files ask for."""

import pytest
from unchecked import unchecked


@pytest.fixture(scope="module")
def types_unchecked():
    """Check no types, as for a user. A value of a wrong type meets our own errors."""
    with unchecked():
        yield
