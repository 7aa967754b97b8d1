"""The loss on text that a model is not trained on.

Paper: §6.2
Chapter: 06_2_model_variations
Tests: tests/test_trainer.py
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn

from transformer_lite.batching import Batch
from transformer_lite.loss import label_smoothed_loss, perplexity
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import PAD


class Report(NamedTuple):
    """What a validation measured."""

    loss: float
    """Label-smoothed cross-entropy per target token, in nats."""
    nll: float
    """Negative log-likelihood per target token, in nats."""
    tokens: int
    """Target tokens."""

    @property
    def perplexity(self) -> float:
        """exp(nll)."""
        return perplexity(self.nll)


@torch.inference_mode()
def validate(model: Transformer, batches: Sequence[Batch], smoothing: float) -> Report:
    """The loss on batches that are not trained on, dropout switched off."""
    device = model.encoder.embedding.weight.device
    sums = torch.zeros(3, dtype=torch.float64)
    with evaluation_mode(model):
        for batch in (batch.to(device) for batch in batches):
            logits = model(batch.src_ids, batch.tgt_input)
            part = label_smoothed_loss(logits, batch.labels, smoothing, PAD)
            sums += torch.tensor([value.item() for value in part])
    loss, nll, tokens = sums.tolist()
    return Report(loss / tokens, nll / tokens, int(tokens))


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Switch dropout off inside the block, and back to what it was after it."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
