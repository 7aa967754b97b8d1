"""The label-smoothed loss: against PyTorch, the authors' code, and by its gradient."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lite.loss import label_smoothed_loss
from transformer_lite.tokenizer import PAD

EXACT = {"rtol": 0, "atol": 1e-10}
VOCAB = 13

examples = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)
smoothings = st.floats(0.01, 0.9)


def some_logits(seed, padding=0):
    """Seven logits in float64 that want a gradient; their labels end in padding."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(7, VOCAB, generator=generator, dtype=torch.float64)
    labels = torch.randint(1, VOCAB, (7,), generator=generator)
    labels[7 - padding :] = PAD
    return (3 * logits).requires_grad_(), labels


def gradient_of(loss, logits):
    return torch.autograd.grad(loss, logits)[0]


@examples
@given(seeds, smoothings, st.integers(0, 5))
def test_loss_and_gradient_are_pytorchs_with_more_smoothing(seed, smoothing, padding):
    logits, labels = some_logits(seed, padding=padding)
    loss = label_smoothed_loss(logits, labels, smoothing, PAD).loss
    more = smoothing * VOCAB / (VOCAB - 1)
    options = {"ignore_index": PAD, "label_smoothing": more, "reduction": "sum"}
    expected = F.cross_entropy(logits, labels, **options)
    assert_close(loss, expected, **EXACT)
    assert_close(gradient_of(loss, logits), gradient_of(expected, logits), **EXACT)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(torch.bfloat16, torch.float32), (torch.float64, torch.float64)],
)
def test_loss_is_summed_in_fp32_at_least(dtype, expected):
    logits, labels = some_logits(7)
    rounded = logits.detach().to(dtype)
    sums = label_smoothed_loss(rounded, labels, 0.1, PAD)
    assert (sums.loss.dtype, sums.nll.dtype) == (expected, expected)
    exact = label_smoothed_loss(rounded.double(), labels, 0.1, PAD)
    assert_close(sums.loss.double(), exact.loss, rtol=1e-5, atol=0)


@examples
@given(seeds, st.floats(0, 0.9), st.integers(0, 6))
def test_negative_log_likelihood_is_not_smoothed(seed, smoothing, padding):
    logits, labels = some_logits(seed, padding=padding)
    nll = label_smoothed_loss(logits, labels, smoothing, PAD).nll
    expected = F.cross_entropy(logits, labels, ignore_index=PAD, reduction="sum")
    assert_close(nll, expected, **EXACT)
    assert not nll.requires_grad


def test_the_padding_id_is_the_given_one():
    logits, labels = some_logits(9)
    labels[:3] = 4
    labels[3:] = torch.tensor([1, 2, 3, 5])
    assert label_smoothed_loss(logits, labels, 0.1, pad_id=4).tokens.item() == 4
