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


def some_input(seed, padding=0):
    """Decoder outputs and a matrix that want gradients, and labels."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(2, 7, D_MODEL, generator=generator, dtype=torch.float64)
    weight = torch.randn(VOCAB, D_MODEL, generator=generator, dtype=torch.float64)
    labels = torch.randint(1, VOCAB, (2, 7), generator=generator)
    labels[-1, 7 - padding :] = PAD
    return hidden.requires_grad_(), weight.requires_grad_(), labels


def plain(hidden, weight, labels, smoothing):
    return label_smoothed_loss(hidden @ weight.T, labels, smoothing, PAD)


def fused(hidden, weight, labels, smoothing, scale=None):
    real = (labels != PAD).flatten().nonzero()[:, 0]
    return fused_label_smoothed_loss(hidden, weight, labels, smoothing, real, scale)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.integers(0, 10_000),
    st.floats(0, 0.9),
    st.integers(0, 7),
    st.sampled_from([1, 2 * VOCAB, 5 * VOCAB, 1000 * VOCAB]),
)
def test_the_fused_loss_is_the_plain_one(seed, smoothing, padding, elements):
    hidden, weight, labels = some_input(seed, padding=padding)
    expected = plain(hidden, weight, labels, smoothing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(loss.SLICE_ELEMENTS, "cpu", elements)
        sums = fused(hidden, weight, labels, smoothing)
    assert_close(sums.loss, expected.loss, **EXACT)
    assert_close(sums.nll, expected.nll, **EXACT)
    assert sums.tokens.item() == expected.tokens.item() == 14 - padding
    for own, other in zip(
        torch.autograd.grad(sums.loss * 3, [hidden, weight]),
        torch.autograd.grad(expected.loss * 3, [hidden, weight]),
        strict=True,
    ):
        assert_close(own, other, **EXACT)


def test_the_sums_are_no_views_of_a_common_tensor():
    sums = fused(*some_input(5), 0.1)
    places = {s.untyped_storage().data_ptr() for s in (sums.loss, sums.nll)}
    assert len(places) == 2


def test_a_batch_of_padding_alone_has_no_loss():
    hidden, weight, labels = some_input(4)
    sums = fused(hidden, weight, torch.full_like(labels, PAD), 0.1)
    sums.loss.backward()
    assert (sums.loss.item(), sums.tokens.item()) == (0.0, 0)
    assert not weight.grad.any()


def relative_error(own, exact):
    return ((own.double() - exact).norm() / exact.norm()).item()


FP16 = 2**-11  # half of the spacing of its numbers


def gradient_in_fp16(hidden, weight, labels, scale):
    """The gradient of `weight`, in fp16 under a loss scale and in float64."""
    leaves = [tensor.double().requires_grad_() for tensor in (hidden, weight)]
    (exact,) = torch.autograd.grad(plain(*leaves, labels, 0.1).loss, leaves[1])
    leaves = [tensor.float().requires_grad_() for tensor in (hidden, weight)]
    with torch.autocast("cpu", dtype=torch.float16):
        sums = fused(*leaves, labels, 0.1, torch.tensor(scale))
    (own,) = torch.autograd.grad(scale * sums.loss, leaves[1])
    return own / scale, exact


def test_a_scale_keeps_the_gradients_of_wrong_tokens_out_of_fp16s_last_digits():
    # A model that is sure, so that each of 37,000 tokens has but its target, 2.7e-6.
    weight = torch.zeros(37_000, 3)
    weight[5, 0] = 4.0
    hidden = torch.tensor([[[8.0, 0.5, 0.25]] * 7])
    labels = torch.full((1, 7), 5)
    own, exact = gradient_in_fp16(hidden, weight, labels, scale=1024.0)
    never_right = slice(6, None)
    assert exact[6, 0].item() == pytest.approx(-0.1 / 36_999 * 7 * 8, rel=1e-3)
    assert relative_error(own[never_right], exact[never_right]) < 3 * FP16


def test_a_small_scale_keeps_the_gradient_of_a_large_batch_in_fp16s_range():
    # Thousands of equal labels: unscaled, their sum is larger than fp16's 65,504.
    hidden, weight = torch.full((1, 3001, 2), 32.0), torch.zeros(13, 2)
    labels = torch.full((1, 3001), 7)
    own, exact = gradient_in_fp16(hidden, weight, labels, scale=0.125)
    assert exact.abs().max() > 65_504
    assert relative_error(own, exact) < 3 * FP16
