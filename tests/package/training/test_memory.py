"""The memory of a step, as it is predicted and as PyTorch's tracker finds it."""

from dataclasses import replace

import pytest
import torch

from results.step_memory import tracked
from transformer_lite.config import TABLE_3, ModelConfig
from transformer_lite.model import Transformer
from transformer_lite.training.memory import step_memory

SMALL = ModelConfig(
    vocab_size=3001, num_layers=2, d_model=66, num_heads=2, d_ff=145, max_len=64
)
KINDS = {
    "plain": SMALL,
    "narrow heads": replace(SMALL, d_k=11, d_v=11),
    "no dropout": replace(SMALL, dropout=0.0),
    "learned positions": replace(SMALL, positions="learned"),
}


def require_close(config, sentences, length, precision, rel):
    with torch.device("meta"):
        model = Transformer(config)
    predicted = step_memory(model, sentences * length, precision)
    found = tracked(config, sentences, length, precision)
    assert found["PARAM"] + found["BUFFER"] == predicted.weights
    assert found["GRAD"] == predicted.gradients
    assert found["OPT"] == pytest.approx(predicted.moments, rel=1e-3)
    assert found["Total"] == pytest.approx(sum(predicted), rel=rel)
    return predicted, found


@pytest.mark.parametrize(
    ("kind", "precision"),
    [
        ("plain", "fp32"),
        ("no dropout", "fp32"),
        ("narrow heads", "bf16"),
        ("learned positions", "bf16"),
    ],
)
def test_the_memory_of_a_small_step_is_what_the_tracker_finds(kind, precision):
    require_close(KINDS[kind], 7, 23, precision, rel=0.03)


def test_the_memory_of_the_papers_model_with_two_layers_is_what_the_tracker_finds():
    # Row (C) of Table 3, with a recipe's batch; more layers take the tracker longer.
    predicted, _ = require_close(TABLE_3["C1"], 25, 125, "fp32", rel=0.01)
    assert predicted.activations > predicted.moments


@pytest.mark.parametrize("change", [{"attention": "explicit"}, {"d_k": 7}])
def test_attention_that_keeps_its_scores_is_not_predicted(change):
    with torch.device("meta"):
        model = Transformer(replace(SMALL, **change))
    assert step_memory(model, 100) is None
