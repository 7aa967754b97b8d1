"""Recipes: what they state, and what is refused."""

import dataclasses
import re
from dataclasses import asdict, fields
from pathlib import Path

import jaxtyping
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.batching import batches_per_step
from transformer_lite.config import (
    TABLE_3,
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
        "precision = 'x' .*fp32, tf32, bf16, fp16",
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
    path.write_bytes(b'# a recipe\ndata = "\xff"')
    with pytest.raises(ValueError, match=r"some\.toml, line 2: not UTF-8; save"):
        load_recipe(path)


def test_a_recipe_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none\.toml: no such recipe; .*toy"):
        load_recipe(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("slip", "meant"), [("toyy", "toy"), ("multi30k", "multi30k_de")]
)
def test_a_slip_in_a_recipes_name_is_answered_with_the_right_one(slip, meant):
    with pytest.raises(ValueError, match=rf"file: did you mean {meant}\?$"):
        load_recipe(slip)


def test_a_runs_folder_in_the_place_of_the_recipe_is_named(tmp_path):
    with pytest.raises(ValueError, match=rf"^{tmp_path}: a folder; give .* as --out"):
        load_recipe(tmp_path)


PAGE = Path(__file__).parents[1] / "book" / "command_line.md"
TORCHRUN = re.findall(r"^torchrun (?:\\\n|.)*", PAGE.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("command", TORCHRUN)
def test_the_processes_of_the_pages_commands_share_a_step_of_the_paper(command):
    given = dict(re.findall(r"--?([a-z.-]+) (\d+)", command))
    world_size = int(given["nproc-per-node"]) * int(given.get("nnodes", 1))
    train = load_recipe(re.search(r"train (\w+)", command)[1]).train
    tokens = int(given.get("train.batch-tokens", train.batch_tokens))
    train = dataclasses.replace(train, batch_tokens=tokens)
    assert tokens * batches_per_step(train, world_size) == pytest.approx(
        25_000, rel=0.01
    )


def test_the_page_has_commands_for_one_machine_and_for_several():
    assert ["--nnodes" in command for command in TORCHRUN] == [False, True]


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
