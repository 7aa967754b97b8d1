"""The fused loss: equal to the plain one in value and gradient, in any slices."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from transformer_lite import loss
from transformer_lite.loss import fused_label_smoothed_loss, label_smoothed_loss
from transformer_lite.tokenizer import PAD

EXACT = {"rtol": 0, "atol": 1e-10}
VOCAB, D_MODEL = 13, 5


def some_input(seed, shape=(2, 7), padding=0, dtype=torch.float64):
    """Decoder outputs and a matrix that want gradients, and labels."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(*shape, D_MODEL, generator=generator, dtype=dtype)
    weight = torch.randn(VOCAB, D_MODEL, generator=generator, dtype=dtype)
    labels = torch.randint(1, VOCAB, shape, generator=generator)
    labels[-1, shape[1] - padding :] = PAD
    return hidden.requires_grad_(), weight.requires_grad_(), labels


def plain(hidden, weight, labels, smoothing):
    return label_smoothed_loss(hidden @ weight.T, labels, smoothing, PAD)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.integers(0, 10_000),
    st.floats(0, 0.9),
    st.integers(0, 7),
    st.sampled_from([1, 2 * VOCAB, 5 * VOCAB, 1000 * VOCAB]),
)
def test_sums_and_gradients_are_those_of_the_plain_loss(
    seed, smoothing, padding, elements
):
    hidden, weight, labels = some_input(seed, padding=padding)
    expected = plain(hidden, weight, labels, smoothing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(loss.SLICE_ELEMENTS, "cpu", elements)
        sums = fused_label_smoothed_loss(hidden, weight, labels, smoothing, PAD)
    assert_close(sums.loss, expected.loss, **EXACT)
    assert_close(sums.nll, expected.nll, **EXACT)
    assert sums.tokens.item() == expected.tokens.item() == 14 - padding
    for own, other in zip(
        torch.autograd.grad(sums.loss * 3, [hidden, weight]),
        torch.autograd.grad(expected.loss * 3, [hidden, weight]),
        strict=True,
    ):
        assert_close(own, other, **EXACT)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradient_is_right(smoothing):
    hidden, weight, labels = some_input(3, shape=(1, 4), padding=1)
    assert torch.autograd.gradcheck(
        lambda h, w: fused_label_smoothed_loss(h, w, labels, smoothing, PAD).loss,
        (hidden, weight),
    )


def test_padding_gets_no_gradient():
    hidden, weight, labels = some_input(4, padding=3)
    fused_label_smoothed_loss(hidden, weight, labels, 0.1, PAD).loss.backward()
    assert not hidden.grad[1, 4:].any()
    assert hidden.grad[0].all()


def test_a_batch_of_padding_alone_has_no_loss():
    hidden, weight, labels = some_input(4)
    sums = fused_label_smoothed_loss(
        hidden, weight, torch.full_like(labels, PAD), 0.1, PAD
    )
    sums.loss.backward()
    assert (sums.loss.item(), sums.tokens.item()) == (0.0, 0)
    assert not weight.grad.any()


def test_negative_log_likelihood_is_a_measure_and_not_trained_on():
    sums = fused_label_smoothed_loss(*some_input(5), 0.1, PAD)
    assert not sums.nll.requires_grad


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_are_in_autocasts_precision_and_sums_in_fp32(dtype):
    hidden, weight, labels = some_input(6, dtype=torch.float32)
    expected = plain(hidden, weight, labels, 0.1)
    with torch.autocast("cpu", dtype=dtype):
        sums = fused_label_smoothed_loss(hidden, weight, labels, 0.1, PAD)
    assert sums.loss.dtype == torch.float32
    assert sums.loss != expected.loss
    assert_close(sums.loss, expected.loss, rtol=0.01, atol=0)
    sums.loss.backward()
    assert weight.grad.dtype == hidden.grad.dtype == torch.float32
    wanted = torch.autograd.grad(expected.loss, weight)[0]
    assert_close(weight.grad, wanted, rtol=0.1, atol=0.05)
