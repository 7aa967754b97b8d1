"""The package's front door: a few names, loaded when they are asked for."""

import doctest
import subprocess
import sys

import pytest

import transformer_lite
from transformer_lite import optimizer, search


@pytest.mark.parametrize("name", transformer_lite.__all__)
def test_every_name_at_the_door_is_the_one_from_its_module(name):
    item = getattr(transformer_lite, name)
    assert getattr(item, "__name__", name) == name
    assert name in dir(transformer_lite)


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(transformer_lite, "Transfomer")


def test_importing_the_package_does_not_load_pytorch():
    script = "import sys, transformer_lite; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


@pytest.mark.parametrize("module", [optimizer, search])
def test_the_examples_in_docstrings_are_right(module):
    results = doctest.testmod(module)
    assert results.attempted >= 1
    assert results.failed == 0
