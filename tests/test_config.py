"""The configurations: the paper's defaults, and what is refused."""

import math
import re
from dataclasses import FrozenInstanceError, fields

import jaxtyping
import pytest
from hypothesis import settings

from transformer_lite.config import (
    BASE,
    BIG,
    TINY,
    ModelConfig,
    SearchConfig,
    TrainConfig,
)

TABLES = {"model": ModelConfig, "train": TrainConfig, "search": SearchConfig}
KEYS = [
    (table, entry.name) for table, config in TABLES.items() for entry in fields(config)
]

examples = settings(max_examples=40, deadline=None, derandomize=True)


@pytest.fixture(autouse=True, scope="module")
def _types_unchecked():
    """As for a user, who gets the package's own errors for a value of a wrong type."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def test_there_are_keys_to_check():
    assert len(KEYS) >= 20


def test_a_configuration_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        BASE.d_model = 7


@pytest.mark.parametrize("config", TABLES.values())
def test_a_configuration_takes_keywords_only(config):
    with pytest.raises(TypeError, match="positional"):
        config(7)


@pytest.mark.parametrize("config", [BASE, BIG, TINY])
def test_a_preset_has_heads_that_divide_its_width(config):
    assert config.d_model % config.num_heads == 0


def test_tiny_is_smaller_than_base():
    assert all(
        getattr(TINY, name) < getattr(BASE, name)
        for name in ("num_layers", "d_model", "d_ff", "num_heads")
    )


IMPOSSIBLE = [
    *((ModelConfig, "vocab_size", value) for value in (4, 0, -5)),
    *((ModelConfig, "num_layers", value) for value in (0, -1)),
    (ModelConfig, "d_model", 0),
    (ModelConfig, "d_ff", 0),
    *((ModelConfig, "num_heads", value) for value in (0, -8, 3, 1_024)),
    (ModelConfig, "d_k", 0),
    (ModelConfig, "d_v", -1),
    *((ModelConfig, "dropout", value) for value in (1.0, -0.1, math.nan)),
    (ModelConfig, "positions", "rotary"),
    (ModelConfig, "max_len", 0),
    (ModelConfig, "attention", "flash"),
    (TrainConfig, "batch_tokens", 0),
    (TrainConfig, "max_steps", 0),
    (TrainConfig, "warmup_steps", 0),
    *((TrainConfig, "rate_scale", value) for value in (0.0, -1.0, math.nan, math.inf)),
    *((TrainConfig, "label_smoothing", value) for value in (1.0, -0.1)),
    (TrainConfig, "average_checkpoints", 0),
    (TrainConfig, "checkpoint_every", 0),
    (TrainConfig, "validate_every", -1),
    (TrainConfig, "precision", "fp8"),
    *((TrainConfig, "global_batch_tokens", value) for value in (0, -1)),
    *((TrainConfig, "checkpoint_minutes", value) for value in (0, -1.0, math.nan)),
    (TrainConfig, "seed", -1),
    (SearchConfig, "beam_size", 0),
    *((SearchConfig, "alpha", value) for value in (-0.1, math.nan, math.inf)),
    (SearchConfig, "max_extra", 0),
    (SearchConfig, "batch_sentences", 0),
]


@pytest.mark.parametrize(("config", "name", "value"), IMPOSSIBLE)
def test_an_impossible_value_is_named_with_its_field_and_a_remedy(config, name, value):
    message = rf"^{name} = {re.escape(repr(value))} .*; (give|choose|make) "
    with pytest.raises(ValueError, match=message):
        config(**{name: value})


def test_every_field_has_an_impossible_value_that_is_tried():
    tried = {(config, name) for config, name, _ in IMPOSSIBLE}
    either = {(TrainConfig, "compile")}  # true and false are both possible
    assert tried | either == {(TABLES[table], name) for table, name in KEYS}


def test_heads_need_not_divide_the_width_when_both_widths_are_given():
    config = ModelConfig(d_model=15, num_heads=7, d_k=2, d_v=3)
    assert (config.d_k, config.d_v) == (2, 3)


@pytest.mark.parametrize("given", ["d_k", "d_v"])
def test_one_given_width_does_not_free_the_other(given):
    with pytest.raises(ValueError, match=r"num_heads = 7 .* 15, or give"):
        ModelConfig(d_model=15, num_heads=7, **{given: 2})
