"""Wrong answers to the exercises of 7, by check and by mistake."""

import torch

from transformer_lite.masks import causal_mask


def count_with(**changes):
    """The right count, with one thing or another forgotten or counted twice."""

    def candidate(vocabulary, positions, d_model, layers):
        matrices, biases = changes.get("matrices", 12), changes.get("biases", 9)
        norms = changes.get("norms", 2) * 2 * d_model
        inside = matrices * d_model**2 + biases * d_model + norms
        rows = vocabulary * changes.get("embeddings", 1)
        rows += positions * changes.get("positions", 1)
        last = changes.get("last", 2) * d_model
        return rows * d_model + layers * inside + last

    return candidate


WRONG = {
    "check_gpt_parameters": {
        "no biases": count_with(biases=0),
        "no biases in the attention": count_with(biases=5),
        "no biases in the feed-forward network": count_with(biases=4),
        "an output matrix of its own": count_with(embeddings=2),
        "no positions": count_with(positions=0),
        "no last norm": count_with(last=0),
        "norms without biases": count_with(norms=1, last=1),
        "one norm in a layer": count_with(norms=1),
        "no output map in the attention": count_with(matrices=11, biases=8),
        "cross-attention, too": count_with(matrices=16, biases=13),
        "a feed-forward network as wide as the model": count_with(matrices=6, biases=6),
        "one layer": lambda v, p, d, n: count_with()(v, p, d, 1),
        "GPT-2's number for all": lambda *sizes: 124_439_808,
        "GPT-2's vocabulary for all": lambda v, p, d, n: count_with()(50_257, p, d, n),
        "in millions": lambda *sizes: round(count_with()(*sizes) / 1e6),
        "a text": lambda *sizes: str(count_with()(*sizes)),
        "with a decimal point": lambda *sizes: float(count_with()(*sizes)),
        "nothing": lambda *sizes: None,
        "an error": lambda *sizes: 1 / 0,
    },
    "check_prefix": {
        "causal everywhere": lambda length, prefix: causal_mask(length),
        "everything": lambda length, prefix: torch.ones(length, length).bool(),
        "queries for keys": lambda length, prefix: (
            causal_mask(length) | (torch.arange(length) < prefix)[:, None]
        ),
        "one word too many": lambda length, prefix: (
            causal_mask(length) | (torch.arange(length) <= prefix)
        ),
        "later words without the prompt": lambda length, prefix: (
            causal_mask(length)
            & ~(
                (torch.arange(length) < prefix)
                & (torch.arange(length) >= prefix)[:, None]
            )
            | (torch.arange(length) < prefix) & (torch.arange(length) < prefix)[:, None]
        ),
        "half of the words": lambda length, prefix: (
            causal_mask(length) | (torch.arange(length) < length // 2)
        ),
        "turned over": lambda length, prefix: (
            (causal_mask(length) | (torch.arange(length) < prefix)).mT
        ),
        "a list": lambda length, prefix: (
            causal_mask(length) | (torch.arange(length) < prefix)
        ).tolist(),
        "numbers": lambda length, prefix: (
            causal_mask(length) | (torch.arange(length) < prefix)
        ).int(),
        "one word too few": lambda length, prefix: (
            causal_mask(length) | (torch.arange(length) < prefix - 1)
        ),
        "for a batch": lambda length, prefix: (
            causal_mask(length) | (torch.arange(length) < prefix)
        )[None],
        "nothing": lambda length, prefix: None,
        "an error": lambda length, prefix: causal_mask(length)[length],
    },
}
