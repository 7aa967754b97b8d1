"""Change a trained translator while it computes, or train it on; score its outputs."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from transformer_lite import Translator
from transformer_lite.batching import Batch
from transformer_lite.config import SearchConfig
from transformer_lite.data.corpora import load_corpus
from transformer_lite.inference.scores import bleu_of
from transformer_lite.loss import label_smoothed_loss
from transformer_lite.optimizer import adam
from transformer_lite.tokenizer import PAD

GREEDY = SearchConfig(beam_size=1, batch_sentences=100)

Pairs = tuple[list[str], list[str]]
"""Sentences and their translations."""


def pairs_of(corpus: str, split: str, number: int, first: int = 0) -> Pairs:
    """Return `number` sentences of a split, from `first` on, and their translations."""
    pairs = list(load_corpus(corpus).splits[split])[first : first + number]
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def german_bleu(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Return BLEU with two decimals."""
    return round(bleu_of("de").corpus_score(outputs, [references]).score, 2)


def train_on(
    model: Any,
    batches: Iterable[Batch],
    smoothing: float,
    rates: Sequence[float],
    seed: int,
) -> None:
    """Train a trained model for one more step on each batch.

    Args:
        rates: The learning rate of each step.
        seed: Of the dropout.
    """
    model.requires_grad_().train()
    torch.manual_seed(seed)
    optimizer = adam(model.parameters(), rates[0])
    for batch, rate in zip(batches, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        logits = model(batch.src_ids, batch.tgt_input)
        sums = label_smoothed_loss(logits, batch.labels, smoothing, PAD)
        optimizer.zero_grad()
        (sums.loss / sums.tokens).backward()
        optimizer.step()
    model.eval()


def attention_sublayers(model: Any) -> dict[str, Any]:
    """Return a Transformer's attention sub-layers by name, from the source up."""
    sublayers = {}
    for stack, kind, of in (
        ("encoder", "self_attention", "encoder, layer {}"),
        ("decoder", "self_attention", "decoder, layer {}"),
        ("decoder", "cross_attention", "cross, layer {}"),
    ):
        for number, layer in enumerate(getattr(model, stack).layers, start=1):
            sublayers[of.format(number)] = getattr(layer, kind)
    return sublayers


@contextmanager
def without_heads(
    attention: Any, heads: Collection[int], instead: Tensor | None = None
) -> Iterator[None]:
    """Let these heads of an attention sub-layer give something else inside the block.

    Args:
        instead: What each head gives, (heads, d_v); by default zeros.
    """
    chosen = sorted(heads)

    def replaced(_: Any, given: tuple[Tensor]) -> tuple[Tensor]:
        outputs = given[0].unflatten(-1, (attention.num_heads, -1)).clone()
        outputs[..., chosen, :] = 0 if instead is None else instead[chosen]
        return (outputs.flatten(-2),)

    hook = attention.w_o.register_forward_pre_hook(replaced)
    try:
        yield
    finally:
        hook.remove()


def faded_encoder(encoder: Any, part: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Return an encoder's `forward` that adds `part` of x in each sub-layer."""

    def forward(ids: Tensor, mask: Tensor) -> Tensor:
        x = encoder.positions(encoder.embedding(ids))
        for layer in encoder.layers:
            attended = layer.self_attention(x, x, mask)
            x = layer.after_self_attention.norm(part * x + attended)
            x = layer.after_feed_forward.norm(part * x + layer.feed_forward(x))
        return x

    return forward


@torch.inference_mode()
def with_units(
    translator: Translator,
    source: str,
    units: Sequence[int],
    values: Sequence[float],
    columns: Tensor | None = None,
) -> list[str]:
    """Translate a sentence once for each unit, which has the value at all positions.

    Args:
        units: Units of the last decoder layer's network.
        values: The value of each.
        columns: Other answers in place of the units', one in a row.
    """
    network = translator.model.decoder.layers[-1].feed_forward
    rows, value = torch.arange(len(units)), torch.tensor(values).float()[:, None]

    def set_units(_: Any, given: tuple[Tensor], output: Tensor) -> Tensor:
        by_row = output.reshape(len(units), -1, output.size(-1)).clone()
        by_row[rows, :, list(units)] = value if columns is None else 0.0
        return by_row.view_as(output)

    def write(_: Any, given: tuple[Tensor], output: Tensor) -> Tensor:
        by_row = output.reshape(len(units), -1, output.size(-1))
        return (by_row + (value * columns)[:, None]).view_as(output)

    hooks = [network.w_1.register_forward_hook(set_units)]
    if columns is not None:
        hooks.append(network.register_forward_hook(write))
    # No sentence leaves the batch before all are done, so that row i stays row i.
    with patch("transformer_lite.search.DONE_SHARE", 1.0):
        texts = translator.translate([source] * len(units))
    for hook in hooks:
        hook.remove()
    return texts


def with_each_unit(translator: Translator, source: str, value: float) -> list[str]:
    """Translate a sentence once for each unit of the last network, set to a value."""
    network = translator.model.decoder.layers[-1].feed_forward
    return [
        text
        for units in torch.arange(network.w_1.out_features).split(128)
        for text in with_units(translator, source, units.tolist(), [value] * len(units))
    ]
