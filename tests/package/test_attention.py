"""Equation 1, twice, and multi-head attention."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    attention_by_loops,
    attention_pairs,
    copy_weights,
    largest_gradient_gap,
    multi_head_by_slices,
)
from torch import nn
from torch.testing import assert_close

from transformer_lite.attention import (
    MultiHeadAttention,
    explicit_attention,
    fused_attention,
    scaled_dot_product_attention,
)
from transformer_lite.masks import causal_mask, padding_mask
from transformer_lite.tokenizer import PAD

EXACT = {"rtol": 0, "atol": 1e-10}
BATCH, HEADS, Q_LEN, K_LEN, D_K, D_V = 2, 3, 5, 7, 11, 13

examples = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)
lengths = st.integers(1, 7)
every_attention = pytest.mark.parametrize("attention", ["fused", "explicit"])


def some_attention(seed=1, requires_grad=False):
    """Query, key and value of unlike sizes, in float64."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(Q_LEN, D_K), (K_LEN, D_K), (K_LEN, D_V)]
    options = {"generator": generator, "dtype": torch.float64}
    options["requires_grad"] = requires_grad
    return [torch.randn(BATCH, HEADS, *shape, **options) for shape in shapes]


def some_mask(seed, *shape):
    """A random mask that leaves every query at least one key."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(shape, generator=generator) < 0.6
    mask[..., seed % shape[-1]] = True
    return mask


def some_module(attention="fused", d_k=None, d_v=None):
    torch.manual_seed(3)
    return MultiHeadAttention(15, 3, d_k, d_v, attention=attention).double()


def some_sequences(requires_grad=False):
    """A query of 5 and a memory of 7 positions, the last memory padded."""
    options = {"generator": torch.Generator().manual_seed(4), "dtype": torch.float64}
    options["requires_grad"] = requires_grad
    query, memory = (torch.randn(2, n, 15, **options) for n in (Q_LEN, K_LEN))
    mask = padding_mask(torch.tensor([[5] * 7, [5] * 4 + [PAD] * 3]), PAD)
    return query, memory, mask


@examples
@given(seeds, lengths, lengths, lengths, lengths)
def test_attention_is_the_formula_number_by_number(seed, q_len, k_len, d_k, d_v):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(q_len, d_k), (k_len, d_k), (k_len, d_v)]
    tensors = [
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
    ]
    mask = some_mask(seed, q_len, k_len)
    expected = attention_by_loops(*(t.tolist() for t in tensors), mask.tolist())
    for actual, by_loops in zip(
        scaled_dot_product_attention(*tensors, mask), expected, strict=True
    ):
        assert_close(actual, torch.tensor(by_loops, dtype=torch.float64), **EXACT)


def test_a_query_that_may_attend_to_nothing_gives_nan():
    query, key, value = some_attention()
    mask = torch.zeros(Q_LEN, K_LEN, dtype=torch.bool)
    output, _ = scaled_dot_product_attention(query, key, value, mask)
    assert output.isnan().all()


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="num_heads = 3 does not divide d_model = 8"):
        MultiHeadAttention(8, 3)
    MultiHeadAttention(8, 3, d_k=2, d_v=2)


@pytest.mark.parametrize("kind", ["none", "causal", "padding", "any"])
def test_explicit_and_fused_attention_give_the_same_output_and_gradients(kind):
    mask = {
        "none": None,
        "causal": causal_mask(K_LEN)[:Q_LEN],
        "padding": some_mask(5, BATCH, 1, 1, K_LEN),
        "any": some_mask(6, BATCH, HEADS, Q_LEN, K_LEN),
    }[kind]
    found = []
    for attention in (explicit_attention, fused_attention):
        tensors = some_attention(requires_grad=True)
        output = attention(*tensors, mask)
        found.append([output, *torch.autograd.grad(output.pow(3).sum(), tensors)])
    for explicit, fused in zip(*found, strict=True):
        assert_close(explicit, fused, **EXACT)


@every_attention
@pytest.mark.parametrize("d_k", [None, 2])
def test_multi_head_attention_is_the_sum_over_its_heads(attention, d_k):
    module = some_module(attention, d_k=d_k, d_v=7)
    query, memory, mask = some_sequences()
    each_query = mask[:, 0].expand(-1, Q_LEN, -1)
    expected = multi_head_by_slices(module, query, memory, each_query)
    assert_close(module(query, memory, mask), expected, **EXACT)


def their_attention(module):
    """nn.MultiheadAttention with the weights of ours."""
    theirs = nn.MultiheadAttention(15, 3, batch_first=True, dtype=torch.float64)
    copy_weights(attention_pairs(module, theirs), theirs)
    return theirs


@every_attention
def test_multi_head_attention_and_its_gradients_are_pytorchs(attention):
    module = some_module(attention)
    theirs = their_attention(module)
    ours_in, theirs_in = some_sequences(True), some_sequences(True)
    query, memory, mask = theirs_in
    # PyTorch's key_padding_mask is True where a key may NOT be attended to.
    expected, _ = theirs(query, memory, memory, key_padding_mask=~mask[:, 0, 0])
    output = module(*ours_in)
    assert_close(output, expected, **EXACT)
    expected.pow(3).sum().backward()
    output.pow(3).sum().backward()
    assert largest_gradient_gap(attention_pairs(module, theirs)) < 1e-10
    assert_close(ours_in[0].grad, query.grad, **EXACT)
    assert_close(ours_in[1].grad, memory.grad, **EXACT)


def test_weights_are_pytorchs_weights():
    module = some_module()
    query, memory, mask = some_sequences()
    options = {"key_padding_mask": ~mask[:, 0, 0], "average_attn_weights": False}
    _, expected = their_attention(module)(query, memory, memory, **options)
    assert_close(module.weights(query, memory, mask), expected, **EXACT)
