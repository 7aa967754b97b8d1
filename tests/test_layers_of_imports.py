"""A module imports only from layers below its own."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "transformer_lite"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LAYERS = PROJECT["tool"]["transformer_lite"]["layers"]
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path.stem for path in PACKAGE.glob("*.py") if "__" not in path.stem)


def imported_modules(source):
    """Names of the package's modules that a source imports, wherever it does so."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = "transformer_lite" if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            if module == "transformer_lite":
                found |= {f"{module}.{name.name}" for name in node.names}
            else:
                found.add(module)
    inside = {name for name in found if name.split(".")[0] == "transformer_lite"}
    return {".".join(name.split(".")[1:2]) for name in inside}


@pytest.mark.parametrize(
    "line",
    [
        "import transformer_lite.model",
        "import transformer_lite.model as m",
        "from transformer_lite.model import Transformer",
        "from transformer_lite import model",
        "from .model import Transformer",
        "from . import model",
        "def late():\n    from transformer_lite.model import Transformer",
    ],
)
def test_every_way_to_import_a_module_is_seen(line):
    assert imported_modules(line) == {"model"}


def test_the_layers_hold_every_module_once():
    listed = sorted(name for names in LAYERS for name in names)
    assert listed == MODULES


def test_there_are_imports_to_check():
    sources = [(PACKAGE / f"{name}.py").read_text("utf-8") for name in MODULES]
    assert len(MODULES) >= 18
    assert sum(len(imported_modules(source)) for source in sources) >= 20


@pytest.mark.parametrize("name", MODULES)
def test_module_imports_only_from_lower_layers(name):
    imported = imported_modules((PACKAGE / f"{name}.py").read_text("utf-8"))
    not_below = {other for other in imported if LAYER.get(other, 99) >= LAYER[name]}
    assert not not_below
