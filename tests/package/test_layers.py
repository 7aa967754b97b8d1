"""The two kinds of layer, with all that is in them, against PyTorch's."""

import pytest
import torch
from oracles import (
    copy_weights,
    decoder_layer_pairs,
    encoder_layer_pairs,
    largest_gradient_gap,
    torch_shape,
)
from torch import nn
from torch.testing import assert_close

from transformer_lite.config import ModelConfig
from transformer_lite.layers import AddAndNorm, DecoderLayer, EncoderLayer
from transformer_lite.masks import causal_mask, padding_mask
from transformer_lite.tokenizer import PAD

EXACT = {"rtol": 0, "atol": 1e-10}
CONFIG = ModelConfig(d_model=15, num_heads=3, d_ff=23, dropout=0.0)
MEMORY_MASK = padding_mask(torch.tensor([[5] * 7, [5] * 4 + [PAD] * 3]), PAD)
CAUSAL = causal_mask(11)


def some_layer(kind):
    """A layer whose every parameter is random, LayerNorm's and biases included."""
    torch.manual_seed(2)
    layer = kind(CONFIG).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.3)
    return layer


def some_vectors(length, seed):
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(2, length, 15, generator=generator, dtype=torch.float64)
    return vectors.requires_grad_()


@pytest.fixture
def encoder_layers():
    ours = some_layer(EncoderLayer)
    theirs = nn.TransformerEncoderLayer(**torch_shape(CONFIG))
    copy_weights(encoder_layer_pairs(ours, theirs), theirs)
    return ours, theirs


@pytest.fixture
def decoder_layers():
    ours = some_layer(DecoderLayer)
    theirs = nn.TransformerDecoderLayer(**torch_shape(CONFIG))
    copy_weights(decoder_layer_pairs(ours, theirs), theirs)
    return ours, theirs


def test_encoder_layer_and_its_gradients_are_pytorchs(encoder_layers):
    ours, theirs = encoder_layers
    x, their_x = some_vectors(7, seed=1), some_vectors(7, seed=1)
    output = ours(x, MEMORY_MASK)
    expected = theirs(their_x, src_key_padding_mask=~MEMORY_MASK[:, 0, 0])
    assert_close(output, expected, **EXACT)
    output.pow(3).sum().backward()
    expected.pow(3).sum().backward()
    assert largest_gradient_gap(encoder_layer_pairs(ours, theirs)) < 1e-10
    assert_close(x.grad, their_x.grad, **EXACT)


def test_decoder_layer_and_its_gradients_are_pytorchs(decoder_layers):
    ours, theirs = decoder_layers
    x, memory = some_vectors(11, seed=1), some_vectors(7, seed=2)
    their_x, their_memory = some_vectors(11, seed=1), some_vectors(7, seed=2)
    output = ours(x, memory, CAUSAL, MEMORY_MASK)
    padding = ~MEMORY_MASK[:, 0, 0]
    expected = theirs(
        their_x, their_memory, tgt_mask=~CAUSAL, memory_key_padding_mask=padding
    )
    assert_close(output, expected, **EXACT)
    output.pow(3).sum().backward()
    expected.pow(3).sum().backward()
    assert largest_gradient_gap(decoder_layer_pairs(ours, theirs)) < 1e-10
    assert_close(x.grad, their_x.grad, **EXACT)
    assert_close(memory.grad, their_memory.grad, **EXACT)


def test_dropout_falls_on_the_sublayers_output_alone():
    x, output = torch.randn(2, 3, 101), torch.randn(2, 3, 101)
    module = AddAndNorm(101, dropout=1.0)  # everything is dropped
    assert_close(module(x, output), module.norm(x))
