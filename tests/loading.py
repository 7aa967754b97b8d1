"""Load the book's tools and Sphinx extensions, which belong to no package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]


def load(path: str) -> ModuleType:
    """Load a module by its path below book/, such as "tools/make_map.py"."""
    file, before = ROOT / "book" / path, list(sys.path)
    spec = importlib.util.spec_from_file_location(f"book_{file.stem}", file)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(ROOT / "book" / "tools"))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module
