"""The label-smoothed loss: against PyTorch, the authors' code, and by its gradient."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import authors_loss
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lite.loss import label_smoothed_loss
from transformer_lite.tokenizer import PAD

EXACT = {"rtol": 0, "atol": 1e-10}
VOCAB = 13

examples = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)
smoothings = st.floats(0.01, 0.9)


def some_logits(seed, length=7, padding=0):
    """Logits in float64 that want a gradient, and labels that end in padding."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(length, VOCAB, generator=generator, dtype=torch.float64)
    labels = torch.randint(1, VOCAB, (length,), generator=generator)
    labels[length - padding :] = PAD
    return (3 * logits).requires_grad_(), labels


def gradient_of(loss, logits):
    return torch.autograd.grad(loss, logits)[0]


def pytorchs_loss(logits, labels, smoothing):
    """F.cross_entropy, whose ε is spread over the right token as well."""
    return F.cross_entropy(
        logits,
        labels,
        ignore_index=PAD,
        label_smoothing=smoothing * VOCAB / (VOCAB - 1),
        reduction="sum",
    )


@examples
@given(seeds, smoothings, st.integers(0, 5))
def test_loss_is_pytorchs_with_smoothing_times_v_over_v_minus_1(
    seed, smoothing, padding
):
    logits, labels = some_logits(seed, padding=padding)
    loss = label_smoothed_loss(logits, labels, smoothing, PAD).loss
    assert_close(loss, pytorchs_loss(logits, labels, smoothing), **EXACT)


@examples
@given(seeds, smoothings, st.integers(0, 5))
def test_gradient_is_pytorchs(seed, smoothing, padding):
    logits, labels = some_logits(seed, padding=padding)
    loss = label_smoothed_loss(logits, labels, smoothing, PAD).loss
    expected = pytorchs_loss(logits, labels, smoothing)
    assert_close(gradient_of(loss, logits), gradient_of(expected, logits), **EXACT)


@examples
@given(seeds, smoothings)
def test_loss_is_the_authors_plus_the_entropy_of_the_target(seed, smoothing):
    logits, labels = some_logits(seed)
    loss = label_smoothed_loss(logits, labels, smoothing, PAD).loss
    other = smoothing / (VOCAB - 1)
    entropy = -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(other)
    expected = authors_loss(logits, labels, smoothing).sum() + 7 * entropy
    assert_close(loss, expected, **EXACT)


@examples
@given(seeds, smoothings)
def test_gradient_is_the_authors(seed, smoothing):
    logits, labels = some_logits(seed)
    loss = label_smoothed_loss(logits, labels, smoothing, PAD).loss
    expected = authors_loss(logits, labels, smoothing).sum()
    assert_close(gradient_of(loss, logits), gradient_of(expected, logits), **EXACT)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradient_of_the_loss_is_right(smoothing):
    logits, labels = some_logits(5, length=3, padding=1)
    assert torch.autograd.gradcheck(
        lambda x: label_smoothed_loss(x, labels, smoothing, PAD).loss, logits
    )


def test_gradient_scales_with_what_the_loss_is_multiplied_by():
    logits, labels = some_logits(6)
    loss = label_smoothed_loss(logits, labels, 0.1, PAD).loss
    gradient = gradient_of(loss, logits)
    divided = label_smoothed_loss(logits, labels, 0.1, PAD).loss / 17
    assert_close(gradient_of(divided, logits), gradient / 17, **EXACT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_keeps_the_precision_of_the_logits(dtype):
    logits, labels = some_logits(7)
    sums = label_smoothed_loss(logits.to(dtype), labels, 0.1, PAD)
    assert (sums.loss.dtype, sums.nll.dtype) == (dtype, dtype)


def test_loss_of_bf16_logits_is_summed_in_fp32():
    logits, labels = some_logits(7)
    rounded = logits.detach().bfloat16()
    sums = label_smoothed_loss(rounded, labels, 0.1, PAD)
    assert sums.loss.dtype == torch.float32
    exact = label_smoothed_loss(rounded.double(), labels, 0.1, PAD)
    assert_close(sums.loss.double(), exact.loss.double(), rtol=1e-5, atol=0)


@examples
@given(seeds, st.integers(0, 6))
def test_without_smoothing_the_loss_is_the_negative_log_likelihood(seed, padding):
    logits, labels = some_logits(seed, padding=padding)
    sums = label_smoothed_loss(logits, labels, 0.0, PAD)
    expected = F.cross_entropy(logits, labels, ignore_index=PAD, reduction="sum")
    assert_close(sums.loss, expected, **EXACT)
    assert_close(sums.nll, expected, **EXACT)


def test_negative_log_likelihood_does_not_depend_on_the_smoothing():
    logits, labels = some_logits(8)
    hard, soft = (label_smoothed_loss(logits, labels, s, PAD).nll for s in (0.0, 0.4))
    assert_close(hard, soft, rtol=0, atol=0)


def test_negative_log_likelihood_is_a_measure_and_not_trained_on():
    logits, labels = some_logits(8)
    assert not label_smoothed_loss(logits, labels, 0.1, PAD).nll.requires_grad


@examples
@given(seeds, st.lists(st.integers(1, 11), min_size=2, max_size=5))
def test_loss_of_a_padded_batch_is_the_sum_of_its_members(seed, lengths):
    members = [some_logits(seed + i, length) for i, length in enumerate(lengths)]
    logits = torch.zeros(len(lengths), max(lengths), VOCAB, dtype=torch.float64)
    labels = torch.full((len(lengths), max(lengths)), PAD)
    for row, (one_logits, one_labels) in enumerate(members):
        logits[row, : len(one_labels)] = one_logits.detach()
        labels[row, : len(one_labels)] = one_labels
    together = label_smoothed_loss(logits, labels, 0.1, PAD)
    alone = [label_smoothed_loss(*member, 0.1, PAD) for member in members]
    assert_close(together.loss, sum(sums.loss for sums in alone), **EXACT)
    assert_close(together.nll, sum(sums.nll for sums in alone), **EXACT)
    assert together.tokens.item() == sum(lengths)


@examples
@given(seeds)
def test_logits_at_padding_have_no_influence_and_no_gradient(seed):
    logits, labels = some_logits(seed, padding=3)
    changed = logits.detach().clone()
    changed[4:] = 17.0
    loss = label_smoothed_loss(logits, labels, 0.1, PAD).loss
    assert_close(loss, label_smoothed_loss(changed, labels, 0.1, PAD).loss, **EXACT)
    gradient = gradient_of(loss, logits)
    assert not gradient[4:].any()
    assert gradient[:4].all()


@examples
@given(smoothings)
def test_loss_is_smallest_where_the_model_says_the_smoothed_target(smoothing):
    target = torch.full((1, VOCAB), smoothing / (VOCAB - 1), dtype=torch.float64)
    target[0, 5] = 1 - smoothing
    logits = target.log().requires_grad_()
    loss = label_smoothed_loss(logits, torch.tensor([5]), smoothing, PAD).loss
    assert gradient_of(loss, logits).abs().max() < 1e-12


def test_the_padding_id_is_the_given_one():
    logits, labels = some_logits(9)
    labels[:3] = 4
    labels[3:] = torch.tensor([1, 2, 3, 5])
    assert label_smoothed_loss(logits, labels, 0.1, pad_id=4).tokens.item() == 4
