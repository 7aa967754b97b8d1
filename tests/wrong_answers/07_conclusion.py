"""Wrong answers to the exercises of 7, by check and by mistake."""

import nbformat
import torch
from loading import ROOT
from torch import nn
from torch.nn import functional as F

from transformer_lite.model import Encoder


def story():
    """The story's vision Transformer, from its own cells."""
    path = ROOT / "notebooks" / "07_conclusion.ipynb"
    names = {"torch": torch, "nn": nn, "F": F, "Encoder": Encoder}
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.source.startswith(("class Patches(", "class VisionTransformer(")):
            exec(cell.source, names)
    return names["VisionTransformer"]


VISION = story()


def given():
    """What exercise 2 changes, and what it finds, without the training."""

    def share_read(kind, left=False, seed=0):
        return 0.5 if left and kind is not VISION else 1.0

    return {"VisionTransformer": VISION, "share_read": share_read}


def through_layers(model, x):
    for layer in model.encoder.layers:
        x = layer(x, torch.ones(1, 1, 1, 17).bool())
    return x


def reads(
    begin=lambda model, x: x,
    layers=through_layers,
    answer=lambda x: x[:, 0],
    head=lambda model, x: model.head(x),
):
    """A vision Transformer without positions, but for what is changed."""

    class Candidate(VISION):
        def forward(self, images):
            x = layers(self, begin(self, self.encoder.embedding(images)))
            return head(self, answer(x))

    return Candidate


def with_positions(change):
    """The story's vision Transformer, with its positions changed at the start."""

    class Candidate(VISION):
        def __init__(self, config):
            super().__init__(config)
            change(self.encoder.positions.encoding)

    return Candidate


def count_with(biases=9):
    """The right count, but for the biases."""

    def candidate(vocabulary, positions, d_model, layers):
        inside = 12 * d_model**2 + (biases + 4) * d_model
        return (vocabulary + positions + 2) * d_model + layers * inside

    return candidate


# fmt: off
WRONG = {
    "check_gpt_parameters": {
        "no biases": count_with(biases=0),
        "no biases in the attention": count_with(biases=5),
        "an output matrix of its own": lambda v, *rest: count_with()(2 * v, *rest),
        "no positions": lambda v, p, d, n: count_with()(v, 0, d, n),
        "GPT-2's number for all": lambda *sizes: 124_439_808,
        "GPT-2's vocabulary for all": lambda v, p, d, n: count_with()(50_257, p, d, n),
        "a text": lambda *sizes: str(count_with()(*sizes)),
        "an error": lambda *sizes: 1 / 0,
    },
    "check_any_order": {
        "the positions kept": VISION,
        "zeros that are learned": with_positions(nn.init.zeros_),
        "the same position for all, but the class token": reads(lambda model, x: x + model.encoder.positions.encoding[:1] * (torch.arange(17) > 0)[:, None]),
        "the patches in random order": reads(lambda model, x: model.encoder.positions(torch.cat([x[:, :1], x[:, 1 + torch.randperm(16)]], dim=1))),
        "the mean of all tokens": reads(answer=lambda x: x.mean(1)),
        "the mean of the patches": reads(answer=lambda x: x[:, 1:].mean(1)),
        "the last patch": reads(answer=lambda x: x[:, -1]),
        "no layers": reads(layers=lambda model, x: x),
        "all outputs": reads(answer=lambda x: x),
        "not the logits": reads(head=lambda model, x: x),
        "nothing": reads(head=lambda model, x: None),
        "an error": lambda config: 1 / 0,
    },
}

RIGHT = {
    "check_any_order": {
        "layer by layer": reads(),
        "zeros that stay": with_positions(lambda encoding: nn.init.zeros_(encoding).requires_grad_(False)),
        "taken off again": reads(lambda model, x: model.encoder.positions(x) - model.encoder.positions.encoding),
    },
}
# fmt: on
