"""A module imports only from layers below its own, and nothing imports in a circle."""

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports


def test_modules_import_only_from_lower_layers():
    assert lint_imports() == EXIT_STATUS_SUCCESS
