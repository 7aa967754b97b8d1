"""A run's result is written down with all that it depends on."""

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from transformer_lite.book.recurrent import RECORDING, recorded_runs
from transformer_lite.config import (
    ModelConfig,
    Recipe,
    SearchConfig,
    TrainConfig,
    load_recipe,
    recipe_from_dict,
)
from transformer_lite.data.corpora import Corpus
from transformer_lite.data.prepare import prepare
from transformer_lite.training.run import train_recipe

ROOT = Path(__file__).resolve().parents[1]
RESULTS = [*sorted((ROOT / "results").glob("*.json")), RECORDING]
RUNS = [path for path in RESULTS if '"scores"' in path.read_text(encoding="utf-8")]


def script(name):
    """A script of results/ as a module."""
    path = ROOT / "results" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = script("record")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    pairs = [("one two three"[: 3 + 4 * (i % 3)],) * 2 for i in range(30)]
    splits = {"train": pairs, "valid": pairs[:3], "test": pairs[:5]}
    prepare(Corpus("words", splits), folder / "data", 20, 64, skip_unusable=False)
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


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_stored_result_says_what_it_depends_on(path):
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["configuration"]
    assert stored["versions"]["torch"]
    assert stored["hardware"]["processor"]
    assert stored["commit"]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_a_stored_run_has_the_recipe_of_its_name(path):
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["curve"]
    recipe = load_recipe(path.stem)
    ran = recipe_from_dict(stored["configuration"])
    assert ran.train == recipe.train
    assert replace(ran.model, vocab_size=37_000) == recipe.model


def test_the_recurrent_models_are_trained_and_recorded_as_the_chapters_read_them(
    tmp_path, monkeypatch
):
    trainings = script("recurrent")
    small = {"train_pairs": 1300, "test_pairs": 17, "steps": 3, "warmup_steps": 2}
    small |= {"d_model": 8, "transformer_d_ff": 11, "batch_pairs": 5}
    monkeypatch.setattr(trainings, "CONFIGURATION", trainings.CONFIGURATION | small)
    stored = recorded_runs()
    trainings.main(tmp_path / "out.json", [(name, 7) for name in stored])
    runs = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["runs"]
    assert runs.keys() == stored.keys()
    for name, seeds in runs.items():
        assert seeds["7"].keys() == stored[name]["1"].keys()
        assert len(seeds["7"]["exact"]) == len(seeds["7"]["wrong_tokens"]) == 17
