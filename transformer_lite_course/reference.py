"""All parts as the book has them, by the names and arguments of the course.

They stand in for parts that are not written, and the checks compare with them. Most are
the package's own; the functions defined here take the course's arguments.

Paper: §3, 5.1, 5.3–5.4, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_checks.py
"""

# ruff: noqa: F401  (the parts are imported for others)

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from transformer_lite import batching, loss, search
from transformer_lite.attention import MultiHeadAttention, scaled_dot_product_attention
from transformer_lite.embeddings import Embedding, sinusoidal_encoding
from transformer_lite.layers import AddAndNorm, DecoderLayer, EncoderLayer, FeedForward
from transformer_lite.masks import causal_mask, padding_mask
from transformer_lite.model import Transformer
from transformer_lite.optimizer import noam_rate


def label_smoothed_loss(
    logits: Tensor, labels: Tensor, smoothing: float, pad_id: int
) -> tuple[Tensor, Tensor]:
    """Return the sum of the losses of all real labels, and their number."""
    sums = loss.label_smoothed_loss(logits, labels, smoothing, pad_id)
    return sums.loss, sums.tokens


def take_step(
    loss_of: Callable[[Any], tuple[Tensor, Tensor]],
    batches: Sequence[Any],
    optimizer: Optimizer,
    schedule: LRScheduler,
) -> float:
    """Take one step on all batches together; return the mean loss of their tokens."""
    total, tokens = 0.0, 0
    for batch in batches:
        batch_loss, batch_tokens = loss_of(batch)
        batch_loss.backward()
        total, tokens = total + batch_loss.item(), tokens + int(batch_tokens)
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad /= tokens
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    return total / tokens


def pad(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Return the rows as one tensor, filled up with `pad_id` at the end."""
    length = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (length - len(row))] for row in rows])


def teacher_forcing(
    targets: Sequence[Sequence[int]], bos_id: int, eos_id: int, pad_id: int
) -> tuple[Tensor, Tensor]:
    """Return what the decoder reads, and the token that should follow each of these."""
    read = pad([[bos_id, *target] for target in targets], pad_id)
    return read, pad([[*target, eos_id] for target in targets], pad_id)


def token_batches(
    lengths: Sequence[int], batch_tokens: int, seed: int
) -> list[list[int]]:
    """Return the batches of one epoch, each as the numbers of its sentences."""
    without_eos = np.array(lengths) - 1  # the package counts EOS itself
    buckets = batching.token_buckets(without_eos, without_eos, batch_tokens, (seed,))
    return [bucket.tolist() for bucket in buckets]


class _Prefixes(NamedTuple):
    """The state of a search whose model reads all tokens again at every step."""

    ids: Tensor
    """Tokens so far, batch × beams × length."""

    def reorder(self, beams: Tensor) -> "_Prefixes":
        """Let beam j go on from beam beams[0, j]."""
        return _Prefixes(self.ids[:, beams[0]])

    def keep(self, sentences: Tensor) -> "_Prefixes":
        """Keep these sentences alone."""
        return _Prefixes(self.ids[sentences])


def greedy_search(
    next_log_probs: Callable[[Tensor], Tensor],
    bos_id: int,
    eos_id: int,
    max_length: int,
) -> list[int]:
    """Take the likeliest token every time; return the tokens without BOS and EOS."""
    return beam_search(next_log_probs, bos_id, eos_id, max_length, 1, 0.0)


def beam_search(
    next_log_probs: Callable[[Tensor], Tensor],
    bos_id: int,
    eos_id: int,
    max_length: int,
    beam_size: int,
    alpha: float,
) -> list[int]:
    """Return the finished output with the highest score, without BOS and EOS."""

    def step(last_ids: Tensor, state: _Prefixes) -> tuple[Tensor, _Prefixes]:
        ids = torch.cat([state.ids, last_ids[:, :, None]], dim=2)
        return next_log_probs(ids[0])[None], _Prefixes(ids)

    nothing = _Prefixes(torch.empty(1, 1, 0, dtype=torch.long))
    limit = torch.tensor([max_length])
    given = step, nothing, limit, bos_id, eos_id, beam_size, alpha
    ((best,),) = search.beam_search(*given)
    return best.ids
