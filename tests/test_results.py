"""A run's result is written down with all that it depends on."""

import importlib.util
import json
from pathlib import Path

import pytest

from transformer_lite.config import ModelConfig, SearchConfig, TrainConfig
from transformer_lite.corpora import Corpus
from transformer_lite.preparation import prepare
from transformer_lite.recipe import Recipe, recipe_from_dict
from transformer_lite.training_run import train_recipe

ROOT = Path(__file__).resolve().parents[1]
STORED = sorted((ROOT / "results").glob("*.json"))

spec = importlib.util.spec_from_file_location("record", ROOT / "results" / "record.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    pairs = [("one two three"[: 3 + 4 * (i % 3)],) * 2 for i in range(30)]
    splits = {"train": pairs, "valid": pairs[:3], "test": pairs[:5]}
    prepare(Corpus("words", splits), folder / "data", 20, 64, skip_long=False)
    recipe = Recipe(
        data=folder / "data",
        model=ModelConfig(num_layers=1, d_model=6, d_ff=7, num_heads=2, max_len=64),
        train=TrainConfig(batch_tokens=60, max_steps=3, warmup_steps=2),
        search=SearchConfig(max_extra=3),
    )
    train_recipe(recipe, folder / "small")
    return tool.record(folder / "small", "test")


def test_greedy_and_beam_search_with_both_weights_are_scored(recorded):
    assert recorded["scores"].keys() == {
        f"{weights}, beam {size}" for weights in ("average", "last") for size in (1, 4)
    }
    for scores in recorded["scores"].values():
        assert scores["sentences"] == 5
        assert "tok:13a" in scores["signature"]


def test_what_the_run_measured_is_there(recorded):
    assert recorded["training"]["steps"] == 3
    assert recorded["training"]["target_tokens"] > 0
    assert [point["step"] for point in recorded["curve"]] == [3]


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_result_says_what_it_depends_on(path):
    stored = json.loads(path.read_text(encoding="utf-8"))
    recipe = recipe_from_dict(stored["configuration"])
    assert recipe.train.seed >= 0
    assert stored["versions"]["torch"]
    assert stored["hardware"]["processor"]
    assert stored["commit"]
    assert stored["curve"]
