"""A Transformer built section by section from "Attention Is All You Need".

The names below are loaded when they are first asked for, so that importing the package
takes no time.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "BASE": "config",
    "BIG": "config",
    "ModelConfig": "config",
    "Transformer": "model",
    "Translator": "inference.translator",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
