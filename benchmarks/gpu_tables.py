"""What chapters 1 and 4 time on one core, timed on a GPU."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from gpu_speed import SMOOTHING, Part
from gpu_workload import Setup
from torch import Tensor, nn

from transformer_lite.attention import MultiHeadAttention
from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig
from transformer_lite.masks import padding_mask
from transformer_lite.model import Transformer
from transformer_lite.precision import matrix_products
from transformer_lite.tokenizer import BOS, EOS, PAD, UNK
from transformer_lite.training.step import Objective
from transformer_lite_book.recurrent import RecurrentModel

BLOCK = 64
"""Restricted self-attention: a block of so many words reads itself and the one before
and after it."""
SENTENCES = 16
"""So many outputs become longer at once."""
LONGEST_OUTPUT = 1_024


def chapters_tables(setup: Setup) -> Iterator[Part]:
    """Measure everything that depends on the length, short lengths first.

    All sizes are those of the base model. Every length has as many tokens in all, so a
    longer sentence has fewer beside it. Matrix products are in tf32.
    """
    longest = max(setup.lengths)
    config = replace(setup.models["base"], max_len=longest + 2, dropout=0.0)
    for length in setup.lengths:
        rows = longest // length
        for name, make in MODELS.items():
            measure = partial(measure_model, setup, make, config)
            yield f"{name}, {length} tokens", partial(measure, rows, length)
        for name, make in LAYERS.items():
            measure = partial(measure_layer, setup, make, config)
            yield f"layer: {name}, {length} tokens", partial(measure, rows, length)
    yield "one token more", partial(measure_one_more, setup, config)


def forward_and_backward(
    setup: Setup, module: nn.Module, forward: Callable[[], Tensor]
) -> dict[str, float]:
    """Return milliseconds of a forward pass, and of one with its backward pass."""

    def both() -> None:
        forward().backward()
        module.zero_grad()

    with matrix_products("tf32"):
        return {
            "forward_milliseconds": 1e3 * setup.seconds_of(forward),
            "forward_and_backward_milliseconds": 1e3 * setup.seconds_of(both),
        }


# Chapter 1


Make = Callable[[ModelConfig], nn.Module]
MODELS: dict[str, Make] = {
    "Transformer": Transformer,
    "recurrence with attention": lambda config: RecurrentModel(
        config.vocab_size, config.d_model, attention=True, dropout=config.dropout
    ),
}


def measure_model(
    setup: Setup, make: Make, config: ModelConfig, rows: int, length: int
) -> dict:
    """Measure training on pairs of sentences of one length, EOS included."""
    ids = torch.randint(UNK + 1, config.vocab_size, (rows, length))
    ids[:, -1] = EOS
    targets = torch.cat([torch.full((rows, 1), BOS), ids], dim=1)
    batch = Batch(ids, targets, torch.arange(rows * length)).to(setup.device)
    objective = Objective(make(config), SMOOTHING).to(setup.device)
    return {"sentences": rows} | forward_and_backward(
        setup,
        objective,
        lambda: (
            objective(batch.src_ids, batch.tgt_input, batch.labels, batch.real).loss
        ),
    )


# Chapter 4


class RestrictedAttention(nn.Module):
    """Self-attention in which a word reads its own block and the two beside it.

    At both ends of the sentence a block of zeros takes the missing one's place.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(config.d_model, config.num_heads)

    def forward(self, x: Tensor) -> Tensor:
        """Attend, all blocks side by side in one batch."""
        block = min(BLOCK, x.size(1))
        queries = x.unflatten(1, (-1, block))
        beside = nn.functional.pad(queries, (0, 0, 0, 0, 1, 1))
        memory = torch.cat([beside[:, :-2], queries, beside[:, 2:]], dim=2)
        return self.attention(queries.flatten(0, 1), memory.flatten(0, 1)).view_as(x)


class SelfAttention(MultiHeadAttention):
    """Multi-head attention of a sentence to itself."""

    def forward(self, x: Tensor) -> Tensor:
        """Attend."""
        return super().forward(x, x)


class Recurrence(nn.GRU):
    """A gated recurrent unit."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the states."""
        return super().forward(x)[0]


class Convolution(nn.Conv1d):
    """A convolution over three words."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a vector for each word."""
        return super().forward(x.mT).mT


LAYERS: dict[str, Make] = {
    "self-attention": lambda c: SelfAttention(c.d_model, c.num_heads),
    "recurrent": lambda c: Recurrence(c.d_model, c.d_model, batch_first=True),
    "convolutional": lambda c: Convolution(c.d_model, c.d_model, 3, padding=1),
    "self-attention (restricted)": RestrictedAttention,
}
"""The rows of Table 1, as chapter 4 times them."""


def measure_layer(
    setup: Setup, make: Make, config: ModelConfig, rows: int, length: int
) -> dict:
    """Measure one layer, on a batch and on a single sentence."""
    layer, found = make(config).to(setup.device), {"sentences": rows}
    for name, sentences in (("", rows), ("one_sentence_", 1)):
        x = torch.randn(sentences, length, config.d_model, device=setup.device)
        x.requires_grad_()  # as inside a model
        times = forward_and_backward(setup, layer, lambda x=x: layer(x).sum())
        found |= {f"{name}{key}": value for key, value in times.items()}
    return found


@torch.inference_mode()
def measure_one_more(setup: Setup, config: ModelConfig) -> dict:
    """Measure the step to an output of so many tokens, with the cache and without."""
    model = Transformer(config).to(setup.device).eval()
    lengths = [length for length in setup.lengths if length <= LONGEST_OUTPUT]
    shape = (SENTENCES, max(lengths))
    ids = torch.randint(UNK + 1, config.vocab_size, shape, device=setup.device)
    src_ids = ids[:, :20]
    mask = padding_mask(src_ids, PAD)
    memory, state = model.encoder(src_ids, mask), model.start(src_ids)
    cached, whole = [], []
    for step, last_ids in enumerate(ids.T, start=1):
        if step in lengths:
            again = partial(model.decoder.step, last_ids[:, None], state)
            cached.append(1e3 * setup.seconds_of(again))
            prefix = ids[:, :step]
            again = partial(model.decoder.hidden, prefix, memory, mask)
            whole.append(1e3 * setup.seconds_of(again))
        _, state = model.decoder.step(last_ids[:, None], state)
    return {
        "sentences": SENTENCES,
        "lengths": lengths,
        "with_cache_milliseconds": cached,
        "whole_prefix_milliseconds": whole,
    }
