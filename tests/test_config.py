"""The configurations: the paper's defaults, and what is refused."""

import dataclasses
import math
import re
from dataclasses import FrozenInstanceError, asdict, fields
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.config import (
    BASE,
    BIG,
    TABLE_3,
    TINY,
    ModelConfig,
    Recipe,
    SearchConfig,
    TrainConfig,
    load_recipe,
    recipe_from_dict,
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
    (TrainConfig, "precision", "fp16"),
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
    assert tried == {(TABLES[table], name) for table, name in KEYS}


def test_heads_need_not_divide_the_width_when_both_widths_are_given():
    config = ModelConfig(d_model=15, num_heads=7, d_k=2, d_v=3)
    assert (config.d_k, config.d_v) == (2, 3)


@pytest.mark.parametrize("given", ["d_k", "d_v"])
def test_one_given_width_does_not_free_the_other(given):
    with pytest.raises(ValueError, match=r"num_heads = 7 .* 15, or give"):
        ModelConfig(d_model=15, num_heads=7, **{given: 2})


# Recipes


def write(folder, text):
    path = folder / "some.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_recipe_states_only_what_differs(tmp_path):
    path = write(tmp_path, 'data = "data/toy"\n[model]\nd_ff = 17\n[train]\nseed = 3\n')
    expected = Recipe(
        data=Path("data/toy"), model=ModelConfig(d_ff=17), train=TrainConfig(seed=3)
    )
    assert load_recipe(path) == expected


@pytest.mark.parametrize("row", TABLE_3)
def test_a_recipe_survives_being_written_down(row):
    recipe = Recipe(data=Path("d"), model=TABLE_3[row], search=SearchConfig(alpha=0.3))
    assert recipe_from_dict(asdict(recipe) | {"data": "d"}) == recipe


def test_a_whole_number_may_stand_for_a_number():
    alpha = recipe_from_dict({"data": "d", "search": {"alpha": 1}}).search.alpha
    assert isinstance(alpha, float)


WRONG_RECIPES = {
    "unknown table": (
        'data = "d"\n[modle]\n',
        'unknown key "modle"; the keys are data',
    ),
    "unknown key": (
        'data = "d"\n[model]\nd_modle = 7',
        'key "model.d_modle"; the keys',
    ),
    "no data": ("[model]\nd_model = 64", 'key "data" is missing; name the folder'),
    "data no text": ("data = 7", '"?data"?( =| is) 7'),
    "no table": ('data = "d"\nmodel = 7', '"model" is 7; make it a table'),
    "text for number": (
        'data = "d"\n[model]\nd_ff = "7"',
        "model.d_ff = '7' .*; give a",
    ),
    "fraction for whole": (
        'data = "d"\n[model]\nd_ff = 7.5',
        "model.d_ff = 7.5 .*whole",
    ),
    "truth for number": (
        'data = "d"\n[train]\nseed = true',
        "train.seed = True .*whole",
    ),
    "number for text": (
        'data = "d"\n[model]\nattention = 7',
        "attention = 7 .*one of fused, explicit",
    ),
    "impossible": (
        'data = "d"\n[train]\nmax_steps = 0',
        "train.max_steps = 0 .*at least",
    ),
    "no choice": (
        'data = "d"\n[train]\nprecision = "x"',
        "precision = 'x' .*fp32, bf16",
    ),
    "not TOML": ("data = ", "not a TOML file"),
}


@pytest.mark.parametrize(
    ("text", "message"), WRONG_RECIPES.values(), ids=WRONG_RECIPES.keys()
)
def test_a_wrong_recipe_is_refused_with_its_file_and_the_key(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: .*{message}"):
        load_recipe(path)


def test_a_recipe_that_is_not_utf8_is_refused_with_its_file(tmp_path):
    path = tmp_path / "some.toml"
    path.write_bytes(b'data = "\xff"')
    with pytest.raises(ValueError, match=r"some\.toml: not a TOML file"):
        load_recipe(path)


def test_a_recipe_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none\.toml: no such recipe; give the path"):
        load_recipe(tmp_path / "none.toml")


ANY_VALUE = st.one_of(
    st.integers(-5, 10_000),
    st.floats(),
    st.booleans(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.sampled_from(["fused", "learned", "auto"]),
)


@examples
@given(st.sampled_from(KEYS), ANY_VALUE)
def test_any_value_of_any_key_is_taken_or_refused_by_name(key, value):
    table, name = key
    try:
        recipe = recipe_from_dict({"data": "d", table: {name: value}})
    except ValueError as error:
        wrong = str(error)
        assert wrong.startswith((f"{table}.{name} = ", f"{table}.num_heads = "))
        assert "; " in wrong
    else:
        taken = dataclasses.asdict(recipe)[table]
        assert taken[name] == value
