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


PADDING = ~MEMORY_MASK[:, 0, 0]
KINDS = {
    "encoder": (EncoderLayer, nn.TransformerEncoderLayer, encoder_layer_pairs),
    "decoder": (DecoderLayer, nn.TransformerDecoderLayer, decoder_layer_pairs),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_and_its_gradients_are_pytorchs(kind):
    ours, theirs, pairs_of = KINDS[kind]
    ours, theirs = some_layer(ours), theirs(**torch_shape(CONFIG))
    pairs = pairs_of(ours, theirs)
    copy_weights(pairs, theirs)
    (x, memory), (their_x, their_memory) = (
        [some_vectors(length, length) for length in (11, 7)] for _ in range(2)
    )
    if kind == "encoder":
        output = ours(memory, MEMORY_MASK)
        expected = theirs(their_memory, src_key_padding_mask=PADDING)
    else:
        output = ours(x, memory, CAUSAL, MEMORY_MASK)
        masks = {"tgt_mask": ~CAUSAL, "memory_key_padding_mask": PADDING}
        expected = theirs(their_x, their_memory, **masks)
    assert_close(output, expected, **EXACT)
    output.pow(3).sum().backward()
    expected.pow(3).sum().backward()
    assert largest_gradient_gap(pairs) < 1e-10
    for own, other in ((x, their_x), (memory, their_memory)):
        assert_close(own.grad, other.grad, **EXACT)


def test_dropout_falls_on_the_sublayers_output_alone():
    x, output = torch.randn(2, 3, 101), torch.randn(2, 3, 101)
    module = AddAndNorm(101, dropout=1.0)  # everything is dropped
    assert_close(module(x, output), module.norm(x))
