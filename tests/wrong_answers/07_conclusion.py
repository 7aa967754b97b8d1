"""Wrong answers to the exercises of 7, by check and by mistake."""

import torch

from transformer_lite.masks import causal_mask


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
    "check_prefix": {
        "causal everywhere": lambda length, prefix: causal_mask(length),
        "everything": lambda length, prefix: torch.ones(length, length).bool(),
        "half of the words": lambda length, prefix: causal_mask(length) | (torch.arange(length) < length // 2),
        "turned over": lambda length, prefix: (causal_mask(length) | (torch.arange(length) < prefix)).mT,
        "numbers": lambda length, prefix: (causal_mask(length) | (torch.arange(length) < prefix)).int(),
        "for a batch": lambda length, prefix: (causal_mask(length) | (torch.arange(length) < prefix))[None],
        "nothing": lambda length, prefix: None,
        "an error": lambda length, prefix: causal_mask(length)[length],
    },
}
# fmt: on
