"""The paper's hyper-parameters as data, and recipes that change some of them.

The defaults are the paper's base model and its settings for training and search. A
recipe is a TOML file that states only what differs.

Paper: Table 3, §5
Chapter: 06_2_model_variations
Tests: tests/package/test_config.py
"""

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

Rule = tuple[Callable[[Any], bool], str]
"""A test of a value, and the remedy if it fails."""


def _between(low: int, high: int) -> Rule:
    return lambda value: low <= value <= high, f"give {low} to {high:,}"


_COUNT = _between(1, 10**12)
_SIZE = _between(1, 10**6)
POSITIVE: Rule = (lambda value: 0 < value < math.inf, "give more than 0")
SHARE: Rule = (lambda value: 0 <= value < 1, "give 0 or more, less than 1")

REMEDIES = {
    bool: "choose true or false",
    float: "give a number",
    int: "give a whole number",
}
"""What to do about a value of another type."""


def _require(config: Any, rule: Rule, *names: str) -> None:
    """Raise an error if one of these fields breaks the rule; None passes."""
    fits, remedy = rule
    for name in names:
        value = getattr(config, name)
        if value is not None and not fits(value):
            raise ValueError(f"{name} = {value!r} is impossible; {remedy}")


def _require_types(config: Any) -> None:
    """Refuse a value that is not of its field's type; a whole number is a float too."""
    for name, expected in get_type_hints(type(config)).items():
        value, types = getattr(config, name), get_args(expected) or (expected,)
        if get_origin(expected) is Literal:
            fits, remedy = value in types, f"choose one of {', '.join(types)}"
        else:
            fits = type(value) in types or (float in types and type(value) is int)
            remedy = next(REMEDIES[kind] for kind in REMEDIES if kind in types)
        if not fits:
            raise ValueError(f"{name} = {value!r} is impossible; {remedy}")


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of a model: everything that Table 3 varies (Sections 3 and 6.2).

    Raises:
        ValueError: A value is impossible; the message names the field and a remedy.
    """

    vocab_size: int = 37_000
    """Entries of the vocabulary shared by source and target (§5.1)."""
    num_layers: int = 6
    """Layers in the encoder, and as many in the decoder: N (§3.1)."""
    d_model: int = 512
    """Width of every sub-layer's output (§3.1)."""
    d_ff: int = 2048
    """Width inside the feed-forward networks (§3.3)."""
    num_heads: int = 8
    """Attention heads: h (§3.2.2)."""
    d_k: int | None = None
    """Width of a head's queries and keys; by default d_model / num_heads (§3.2.2)."""
    d_v: int | None = None
    """Width of a head's values; by default d_model / num_heads (§3.2.2)."""
    dropout: float = 0.1
    """Residual dropout: P_drop (§5.4)."""
    positions: Literal["sinusoidal", "learned"] = "sinusoidal"
    """Kind of positional encoding; "learned" is row (E) of Table 3 (§3.5)."""
    max_len: int = 1024
    """Tokens of the longest sequence that the model takes."""
    attention: Literal["fused", "explicit"] = "fused"
    """PyTorch's attention kernel, or Equation 1 written out; the results are equal."""

    def __post_init__(self) -> None:
        _require_types(self)
        _require(self, _between(1, 1000), "num_layers")
        _require(self, _SIZE, "d_model", "d_ff", "num_heads", "d_k", "d_v", "max_len")
        _require(self, _between(5, 10**6), "vocab_size")
        _require(self, SHARE, "dropout")
        for name in ("d_k", "d_v"):
            if getattr(self, name) is None and self.d_model % self.num_heads:
                raise ValueError(
                    f"num_heads = {self.num_heads} is impossible; make it divide "
                    f"d_model = {self.d_model}, or give {name}"
                )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a model is trained (Section 5).

    Raises:
        ValueError: A value is impossible; the message names the field and a remedy.
    """

    batch_tokens: int = 25_000
    """Most source tokens, and most target tokens, of a batch, with padding (§5.1).
    A process holds one batch at a time in its memory."""
    global_batch_tokens: int | None = None
    """Tokens of a step over all processes, rounded to whole batches; by default a step
    is one batch. The number of processes does not change a step."""
    max_steps: int = 100_000
    """Optimizer steps of the whole run (§5.2)."""
    warmup_steps: int = 4_000
    """Steps over which the learning rate rises (§5.3)."""
    # Deviation D11: the authors' code has such a factor, the paper does not.
    rate_scale: float = 1.0
    """Factor on the learning rate of Equation 3 (§5.3)."""
    # Deviation D15: the paper's rate never reaches zero.
    cooldown_steps: int = 0
    """Steps at the end of the run over which the learning rate falls linearly to 0."""
    # Deviation D17: neither the paper nor the authors' recipes clip gradients.
    clip_norm: float | None = None
    """Length to which longer gradients are shortened; by default none are."""
    label_smoothing: float = 0.1
    """Probability taken from the right token and spread over the others (§5.4)."""
    average_checkpoints: int = 5
    """Number of last checkpoints that are averaged at the end (§6.1). The run keeps
    that many, but at least two."""
    checkpoint_every: int = 1_000
    """Steps between checkpoints."""
    checkpoint_minutes: float | None = None
    """Minutes between checkpoints (§6.1), instead of checkpoint_every."""
    validate_every: int = 1_000
    """Steps between validations."""
    precision: Literal["auto", "fp32", "tf32", "bf16", "fp16"] = "auto"
    """Arithmetic of the matrix products; "auto" asks the hardware."""
    compile: bool = False
    """Whether PyTorch compiles the layers: slow at the start, faster afterwards."""
    seed: int = 1
    """Seed of the initial weights, of dropout and of the order of batches."""

    def __post_init__(self) -> None:
        _require_types(self)
        _require(self, _COUNT, "batch_tokens", "global_batch_tokens", "max_steps")
        _require(self, _COUNT, "warmup_steps", "average_checkpoints")
        _require(self, _COUNT, "checkpoint_every", "validate_every")
        _require(self, POSITIVE, "rate_scale", "clip_norm", "checkpoint_minutes")
        _require(self, SHARE, "label_smoothing")
        _require(self, _between(0, 2**63 - 1), "seed")
        _require(self, _between(0, self.max_steps), "cooldown_steps")


@dataclass(frozen=True, kw_only=True)
class SearchConfig:
    """How a translation is searched for (Section 6.1).

    Raises:
        ValueError: A value is impossible; the message names the field and a remedy.
    """

    beam_size: int = 4
    """Hypotheses kept at every step, at most 1,000; 1 is greedy search."""
    alpha: float = 0.6
    """Exponent of the length penalty, at most 10."""
    max_extra: int = 50
    """A translation has at most this many tokens more than its source."""
    batch_sentences: int = 128
    """Sentences translated at once."""

    def __post_init__(self) -> None:
        _require_types(self)
        _require(self, _COUNT, "max_extra", "batch_sentences")
        # Each beam has its own past in memory; wider ones find worse translations.
        _require(self, _between(1, 1000), "beam_size")
        _require(self, _between(0, 10), "alpha")


BASE = ModelConfig()
BIG = replace(BASE, d_model=1024, d_ff=4096, num_heads=16, dropout=0.3)
TINY = replace(BASE, num_layers=2, d_model=128, d_ff=512, num_heads=4)

TABLE_3 = {
    "base": BASE,
    "A1": replace(BASE, num_heads=1),
    "A2": replace(BASE, num_heads=4),
    "A3": replace(BASE, num_heads=16),
    "A4": replace(BASE, num_heads=32),
    "B1": replace(BASE, d_k=16),
    "B2": replace(BASE, d_k=32),
    "C1": replace(BASE, num_layers=2),
    "C2": replace(BASE, num_layers=4),
    "C3": replace(BASE, num_layers=8),
    "C4": replace(BASE, d_model=256),
    "C5": replace(BASE, d_model=1024),
    "C6": replace(BASE, d_ff=1024),
    "C7": replace(BASE, d_ff=4096),
    "D1": replace(BASE, dropout=0.0),
    "D2": replace(BASE, dropout=0.2),
    "D3": BASE,  # what differs is label_smoothing = 0.0, a field of TrainConfig
    "D4": BASE,  # and here label_smoothing = 0.2
    "E": replace(BASE, positions="learned"),
    "big": BIG,
}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that defines a training run: its data and three configurations."""

    data: Path
    """Folder that `prepare` wrote; a relative path is one from where you are."""
    begin_with: str | None = None
    """Run or trained model whose weights are the initial ones, to train on from."""
    model: ModelConfig = field(default_factory=ModelConfig)
    """The model; its vocab_size is taken from the data."""
    train: TrainConfig = field(default_factory=TrainConfig)
    """The training."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """The search for translations."""


RECIPES = Path(__file__).parent / "recipes"
"""The recipes that come with the package."""
RECIPE_NAMES = sorted(path.stem for path in RECIPES.glob("*.toml"))


def load_recipe(recipe: str | Path) -> Recipe:
    """Read a recipe from a TOML file.

    The file has the key `data` and may have `begin_with` and the tables `[model]`,
    `[train]` and `[search]`. Their keys are the fields of the configurations.

    Args:
        recipe: The name of one that comes with the package, such as "toy", or a path.

    Raises:
        ValueError: The file is not TOML, or a key or a value is wrong; the message
            names the file, the key, the value and the remedy.
    """
    packaged = RECIPES / f"{recipe}.toml"
    path = packaged if packaged.exists() else Path(recipe)
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        close = get_close_matches(str(recipe), RECIPE_NAMES, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(
            f'"{recipe}": no such recipe; give one of {", ".join(RECIPE_NAMES)}, or '
            f"the path of a .toml file{hint}"
        ) from None
    except (ValueError, RecursionError) as error:  # neither UTF-8 nor TOML
        raise ValueError(f"{path}: not a TOML file: {error}") from error
    try:
        return recipe_from_dict(tables)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def recipe_from_dict(tables: Mapping[str, Any]) -> Recipe:
    """Make a recipe from nested dictionaries, as files hold them or `asdict` gives.

    Raises:
        ValueError: A key or a value is wrong; the message names it and the remedy.
    """
    configs = {"model": ModelConfig, "train": TrainConfig, "search": SearchConfig}
    _require_keys("", tables, ["data", "begin_with", *configs])
    data = tables.get("data")
    if isinstance(data, Path):
        data = str(data)
    if not isinstance(data, str):
        raise ValueError('the key "data" is missing; name the folder of `prepare`')
    if "\0" in data or any(map(_is_surrogate, data)):
        raise ValueError(f'"data" is {data!r}, no path; name the folder of `prepare`')
    parts = {}
    for table, config in configs.items():
        values = tables.get(table, {})
        if not isinstance(values, Mapping):
            raise ValueError(f'"{table}" is {values!r}; make it a table [{table}]')
        _require_keys(f"{table}.", values, [entry.name for entry in fields(config)])
        try:
            parts[table] = config(**values)
        except ValueError as error:
            raise ValueError(f"{table}.{error}") from error
    begin_with = tables.get("begin_with")
    if not isinstance(begin_with, str | None):
        raise ValueError(f'"begin_with" is {begin_with!r}; name a run or a model')
    return Recipe(data=Path(data), begin_with=begin_with, **parts)


def _is_surrogate(character: str) -> bool:
    """Return whether a character stands in no text: half of one in UTF-16."""
    return "\ud800" <= character <= "\udfff"


def _require_keys(prefix: str, given: Mapping[str, Any], known: list[str]) -> None:
    for key in given:
        if key not in known:
            raise ValueError(
                f'unknown key "{prefix}{key}"; the keys are {", ".join(known)}'
            )
