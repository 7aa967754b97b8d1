"""Configurations and recipes: the defaults, what a recipe states, what is refused."""

import math
import re
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.batching import batches_per_step
from transformer_lite.config import (
    BASE,
    BIG,
    RECIPES,
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

pytestmark = pytest.mark.usefixtures("types_unchecked")
examples = settings(max_examples=40, deadline=None, derandomize=True)


IMPOSSIBLE = [
    (ModelConfig, "vocab_size", 4),
    *((ModelConfig, "num_layers", value) for value in (0, 1_001)),
    *((ModelConfig, "d_model", value) for value in (0, 10**7)),
    (ModelConfig, "d_ff", 0),
    *((ModelConfig, "num_heads", value) for value in (0, 3, 1_024)),
    (ModelConfig, "d_k", 0),
    (ModelConfig, "d_v", -1),
    *((ModelConfig, "dropout", value) for value in (1.0, -0.1, math.nan)),
    (ModelConfig, "positions", "rotary"),
    (ModelConfig, "max_len", 0),
    (ModelConfig, "attention", "flash"),
    (TrainConfig, "batch_tokens", 0),
    (TrainConfig, "global_batch_tokens", 0),
    (TrainConfig, "max_steps", 0),
    (TrainConfig, "warmup_steps", 0),
    *((TrainConfig, "clip_norm", value) for value in (0.0, math.nan)),
    *((TrainConfig, "rate_scale", value) for value in (0.0, math.nan, math.inf)),
    *((TrainConfig, "cooldown_steps", value) for value in (-1, 100_001)),
    *((TrainConfig, "label_smoothing", value) for value in (1.0, -0.1)),
    (TrainConfig, "average_checkpoints", 0),
    (TrainConfig, "checkpoint_every", 0),
    *((TrainConfig, "checkpoint_minutes", value) for value in (0, math.nan)),
    (TrainConfig, "validate_every", -1),
    (TrainConfig, "precision", "fp8"),
    (TrainConfig, "compile", "yes"),
    *((TrainConfig, "seed", value) for value in (-1, 2**63)),
    (SearchConfig, "beam_size", 0),
    (SearchConfig, "beam_size", 1001),
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


@pytest.mark.parametrize("given", ["d_k", "d_v"])
def test_heads_need_not_divide_the_width_when_both_widths_are_given(given):
    config = ModelConfig(d_model=15, num_heads=7, d_k=2, d_v=3)
    assert (config.d_k, config.d_v) == (2, 3)
    with pytest.raises(ValueError, match=r"num_heads = 7 .* 15, or give"):
        ModelConfig(d_model=15, num_heads=7, **{given: 2})


def write(folder, text):
    path = folder / "some.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_recipe_states_only_what_differs(tmp_path):
    path = write(tmp_path, 'data = "data/toy"\n[model]\nd_ff = 17\n[train]\nseed = 3\n')
    parts = {"model": ModelConfig(d_ff=17), "train": TrainConfig(seed=3)}
    assert load_recipe(path) == Recipe(data=Path("data/toy"), **parts)


def test_every_recipe_of_the_package_can_be_read():
    recipes = {path.stem: load_recipe(path.stem) for path in RECIPES.glob("*.toml")}
    assert {"toy", "small", "multi30k_de", "parsing", "wmt14_base"} <= recipes.keys()
    assert all(recipe.data for recipe in recipes.values())


@pytest.mark.parametrize(
    ("name", "model", "steps", "averaged"),
    [("base", BASE, 100_000, 5), ("big", BIG, 300_000, 20)],
)
def test_recipes_of_wmt14_state_the_papers_runs(name, model, steps, averaged):
    recipe = load_recipe(f"wmt14_{name}")
    sizes = {"batch_tokens": 3125, "global_batch_tokens": 25_000, "max_steps": steps}
    every = {"checkpoint_minutes": 10, "validate_every": recipe.train.validate_every}
    train = TrainConfig(**sizes, **every, average_checkpoints=averaged)
    assert (recipe.model, recipe.train, recipe.search) == (model, train, SearchConfig())


def test_the_recipe_for_parsing_is_section_6_3s():
    recipe = load_recipe("parsing")
    assert recipe.model.num_layers == 4
    assert recipe.search.max_extra == 300
    assert recipe.model.max_len > recipe.search.max_extra + 500


def test_the_pages_commands_for_several_processes_train_recipes_of_the_package():
    page = Path(__file__).parents[2] / "book" / "command_line.md"
    pattern = re.compile(r"^torchrun (?:\\\n|.)*", re.MULTILINE)
    commands = pattern.findall(page.read_text("utf-8"))
    assert ["--nnodes" in command for command in commands] == [False, True, False]
    for command in commands:
        train = load_recipe(re.search(r"train (\w+)", command)[1]).train
        step = train.batch_tokens * batches_per_step(train)
        assert step == (2_000 if "train toy" in command else 25_000)


WRONG_RECIPES = {
    "unknown table": ('data = "d"\n[modle]', 'unknown key "modle"; the keys are data'),
    "unknown key": ('data = "d"\n[model]\nd_modle = 7', 'key "model.d_modle"; the key'),
    "no data": ("[model]\nd_model = 64", 'key "data" is missing; name the folder'),
    "no name": ('data = "d"\nbegin_with = 7', '"begin_with" is 7; name a run or a'),
    "no table": ('data = "d"\nmodel = 7', '"model" is 7; make it a table'),
    "text": ('data = "d"\n[model]\nd_ff = "7"', "model.d_ff = '7' .*; give a whole"),
    "fraction": ('data = "d"\n[model]\nd_ff = 7.5', "model.d_ff = 7.5 .*whole"),
    "truth": ('data = "d"\n[train]\nseed = true', "train.seed = True .*whole"),
    "impossible": (
        'data = "d"\n[train]\nmax_steps = 0',
        "train.max_steps = 0 .*give 1 to",
    ),
    "not TOML": ("data = ", "not a TOML file"),
    "too deep": (f"data = {'[' * 200_000}", "not a TOML file"),
    "not UTF-8": (b'data = "\xff"', "not a TOML file: .*utf-8"),
}


@pytest.mark.parametrize("kind", WRONG_RECIPES)
def test_a_wrong_recipe_is_refused_with_its_file_and_the_key(tmp_path, kind):
    text, message = WRONG_RECIPES[kind]
    path = tmp_path / "some.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: .*{message}"):
        load_recipe(path)


@pytest.mark.parametrize("name", ["", "nowhere/none.toml", ".", "toyy"])
def test_a_recipe_that_is_not_there_is_answered_with_those_that_are(name):
    with pytest.raises(ValueError, match=f'^"{name}": no such recipe; .*toy') as caught:
        load_recipe(name)
    assert ("did you mean toy?" in str(caught.value)) == (name == "toyy")


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
        named = (f"{table}.{name} = ", "model.num_heads = ", "train.cooldown_steps = ")
        assert wrong.startswith(named)
        assert "; " in wrong
    else:
        assert asdict(recipe)[table][name] == value


@pytest.mark.parametrize("name", ["\0", "a\ud800"])
def test_data_that_no_path_can_name_is_refused(name):
    with pytest.raises(ValueError, match="no path; name the folder of `prepare`"):
        recipe_from_dict({"data": name})
