"""A training run as data: a TOML file that only states what differs.

Paper: §5
Chapter: 06_2_model_variations
Tests: tests/test_recipe.py
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from transformer_lite.config import ModelConfig, SearchConfig, TrainConfig


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One training run, completely: its data and the three configurations."""

    data: Path
    """Folder that `prepare` wrote."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The model; its vocab_size is taken from the data."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """The training."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """The search for translations."""


def load_recipe(path: Path) -> Recipe:
    """A recipe read from a TOML file, which only states what differs.

    Args:
        path: A file with the key `data` and the tables `[model]`, `[train]` and
            `[search]`, whose keys are the fields of the configurations.

    Raises:
        ValueError: The file is not TOML, or a key or a value is wrong; the message
            names the file, the key, the value and the remedy.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(
            f"{path}: no such recipe; give the path of a .toml file"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a TOML file: {error}") from error
    try:
        return recipe_from_dict(tables)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def recipe_from_dict(tables: Mapping[str, Any]) -> Recipe:
    """A recipe from nested dictionaries, as TOML and JSON hold them.

    Raises:
        ValueError: A key or a value is wrong; the message names it and the remedy.
    """
    if "data" not in tables:
        raise ValueError('the key "data" is missing; name the folder of `prepare`')
    if not isinstance(tables["data"], str):
        raise ValueError(f'"data" is {tables["data"]!r}; name the folder of `prepare`')
    configs = {"model": ModelConfig, "train": TrainConfig, "search": SearchConfig}
    unknown = set(tables) - {"data", *configs}
    if unknown:
        known = ", ".join(["data", *configs])
        raise ValueError(f'unknown key "{min(unknown)}"; the keys are {known}')
    parts = {
        name: _config_from_dict(config, name, tables.get(name, {}))
        for name, config in configs.items()
    }
    return Recipe(data=Path(tables["data"]), **parts)


def _config_from_dict(config: type, table: str, values: Any) -> Any:
    if not isinstance(values, Mapping):
        raise ValueError(f'"{table}" is {values!r}; make it a table [{table}]')
    types = get_type_hints(config)
    for name, value in values.items():
        if name not in types:
            known = ", ".join(types)
            raise ValueError(f'unknown key "{table}.{name}"; the keys are {known}')
        if not _fits(value, types[name]):
            raise ValueError(
                f"{table}.{name} = {value!r} is impossible; "
                f"give {_described(types[name])}"
            )
    values = {
        n: float(v) if v is not None and float in _kinds(types[n]) else v
        for n, v in values.items()
    }
    try:
        return config(**values)
    except ValueError as error:
        raise ValueError(f"{table}.{error}") from error


def _fits(value: Any, expected: Any) -> bool:
    """Whether a value read from TOML or JSON may stand in a field."""
    if get_origin(expected) is Literal:
        return value in get_args(expected)
    if isinstance(value, bool) or expected is bool:
        return isinstance(value, bool) and expected is bool
    kinds = _kinds(expected)
    return isinstance(value, (*kinds, int) if float in kinds else kinds)


def _kinds(expected: Any) -> tuple[Any, ...]:
    """The types that a field may hold: int | None is two."""
    return get_args(expected) or (expected,)


def _described(expected: Any) -> str:
    if get_origin(expected) is Literal:
        return f"one of {', '.join(get_args(expected))}"
    if expected is bool:
        return "true or false"
    return "a number" if float in _kinds(expected) else "a whole number"
