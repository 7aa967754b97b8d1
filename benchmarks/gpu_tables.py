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
from transformer_lite.precision import tf32_if_chosen
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
        for name in MODELS:
            measure = partial(measure_model, setup, name, config)
            yield f"{name}, {length} tokens", partial(measure, rows, length)
        for name in LAYERS:
            measure = partial(measure_layer, setup, name, config)
            yield f"layer: {name}, {length} tokens", partial(measure, rows, length)
    yield "one token more", partial(measure_one_more, setup, config)


def forward_and_backward(
    setup: Setup, module: nn.Module, forward: Callable[[], Tensor]
) -> dict[str, float]:
    """Return milliseconds of a forward pass, and of one with its backward pass."""

    def both() -> None:
        forward().backward()
        module.zero_grad()

    with tf32_if_chosen("tf32"):
        return {
            "forward_milliseconds": 1e3 * setup.seconds_of(forward),
            "forward_and_backward_milliseconds": 1e3 * setup.seconds_of(both),
        }


# Chapter 1


MODELS: dict[str, Callable[[ModelConfig], nn.Module]] = {
    "Transformer": Transformer,
    "recurrence with attention": lambda config: RecurrentModel(
        config.vocab_size, config.d_model, attention=True, dropout=config.dropout
    ),
}


def measure_model(
    setup: Setup, name: str, config: ModelConfig, rows: int, length: int
) -> dict:
    """Measure training on pairs of sentences of one length, EOS included."""
    ids = torch.randint(UNK + 1, config.vocab_size, (rows, length))
    ids[:, -1] = EOS
    targets = torch.cat([torch.full((rows, 1), BOS), ids], dim=1)
    batch = Batch(ids, targets, torch.arange(rows * length)).to(setup.device)
    objective = Objective(MODELS[name](config), SMOOTHING).to(setup.device)
    return {"sentences": rows} | forward_and_backward(
        setup,
        objective,
        lambda: (
            objective(batch.src_ids, batch.tgt_input, batch.labels, batch.real).loss
        ),
    )


# Chapter 4


def restricted(attention: MultiHeadAttention, x: Tensor) -> Tensor:
    """Let a word attend to its own block and the two beside it.

    All blocks lie side by side in one batch. At both ends of the sentence a block of
    zeros takes the missing one's place.
    """
    queries = x.unflatten(1, (-1, min(BLOCK, x.size(1))))
    beside = nn.functional.pad(queries, (0, 0, 0, 0, 1, 1))
    memory = torch.cat([beside[:, :-2], queries, beside[:, 2:]], dim=2)
    return attention(queries.flatten(0, 1), memory.flatten(0, 1)).view_as(x)


LAYERS = {
    "self-attention": (
        lambda config: MultiHeadAttention(config.d_model, config.num_heads),
        lambda layer, x: layer(x, x),
    ),
    "recurrent": (
        lambda config: nn.GRU(config.d_model, config.d_model, batch_first=True),
        lambda layer, x: layer(x)[0],
    ),
    "convolutional": (
        lambda config: nn.Conv1d(config.d_model, config.d_model, 3, padding=1),
        lambda layer, x: layer(x.mT).mT,
    ),
    "self-attention (restricted)": (
        lambda config: MultiHeadAttention(config.d_model, config.num_heads),
        restricted,
    ),
}
"""The rows of Table 1, as chapter 4 times them: how a layer is made, what it does."""


def measure_layer(
    setup: Setup, kind: str, config: ModelConfig, rows: int, length: int
) -> dict:
    """Measure one layer, on a batch and on a single sentence."""
    make, forward = LAYERS[kind]
    layer, found = make(config).to(setup.device), {"sentences": rows}
    for name, sentences in (("", rows), ("one_sentence_", 1)):
        x = torch.randn(sentences, length, config.d_model, device=setup.device)
        x.requires_grad_()  # as inside a model
        act = partial(lambda x: forward(layer, x).sum(), x)
        times = forward_and_backward(setup, layer, act)
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
