"""The trained models that come with the package translate, and say what they are."""

import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from transformer_lite import Translator
from transformer_lite.runs.folder import PRETRAINED, RunFolder

RESULTS = Path(__file__).resolve().parents[3] / "results"
NAMES = sorted(path.name for path in PRETRAINED.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_it_is_small(name):
    files = [path for path in (PRETRAINED / name).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 8e6
    stored = load_file(RunFolder(PRETRAINED / name).average)
    kinds = {(tensor.dim(), tensor.dtype) for tensor in stored.values()}
    assert kinds == {(2, torch.int8), (1, torch.float32)}


@pytest.mark.parametrize("name", NAMES)
def test_its_card_has_data_licence_scores_and_limits(name):
    card = (PRETRAINED / name / "README.md").read_text(encoding="utf-8")
    run = re.search(r"results/(\S+)\.json", card)[1]
    result = json.loads((RESULTS / f"{run}.json").read_text(encoding="utf-8"))
    assert f"{result['corpus']['pairs']['train']:,} sentence" in card
    licence = {"multi30k": "non-commercial research", "tatoeba": "CC BY 2.0 FR"}
    assert licence.get(name.partition("_")[0], "CC BY 3.0") in card
    assert "## What it is not for" in card
    for split, scores in result["scores"].items():
        if split == "test" and "bleu" not in scores:
            continue  # a parser's card has the validation set alone
        found = float(re.search(rf"\| {split} \| ([\d.]+) ", card)[1])
        if "bleu" in scores:
            # Rounding the weights to 8 bits moves a few words.
            assert found == pytest.approx(scores["bleu"], abs=0.4)
        else:  # the card's are scores of constrained search
            assert found > scores["f1_all"]


def test_an_unknown_name_is_told_which_there_are():
    with pytest.raises(ValueError, match=r"trained model \(craft_parser"):
        Translator.load("multi30k_de_en")
