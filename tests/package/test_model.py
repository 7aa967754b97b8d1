"""The whole Transformer: against PyTorch's, and what must never change."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import (
    copy_weights,
    largest_gradient_gap,
    torch_transformer,
    transformer_pairs,
)
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lite.attention import MultiHeadAttention
from transformer_lite.batching import pad
from transformer_lite.config import ModelConfig
from transformer_lite.masks import causal_mask, padding_mask
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import BOS, EOS, PAD

EXACT = {"rtol": 0, "atol": 1e-10}
SHAPE = {"vocab_size": 29, "num_layers": 2, "d_model": 15, "d_ff": 23, "num_heads": 3}
SHAPE |= {"dropout": 0.0, "max_len": 19}
SRC = torch.tensor([[5, 7, 11, 13, 17, 19, EOS], [23, 6, 8, EOS, PAD, PAD, PAD]])
TGT = torch.tensor([[BOS, 9, 10, 12, 14], [BOS, 15, 16, PAD, PAD]])

examples = settings(max_examples=25, deadline=None, derandomize=True)
words = st.integers(4, 28)
sentences = st.lists(words, min_size=1, max_size=7)


def some_model(**changes):
    """A model in float64 whose every parameter is random."""
    torch.manual_seed(1)
    model = Transformer(ModelConfig(**SHAPE | changes)).double()
    for name, parameter in model.named_parameters():
        if name.endswith(("bias", "norm.weight")):
            nn.init.normal_(parameter, std=0.5)
    return model


@pytest.fixture(scope="module")
def model():
    return some_model()


def test_logits_and_gradients_are_those_of_pytorchs_transformer():
    ours = some_model()
    theirs = torch_transformer(ours.config)
    pairs = transformer_pairs(ours, theirs)
    copy_weights(pairs, theirs)
    encoding = ours.encoder.positions.encoding
    matrix = ours.encoder.embedding.weight.detach().clone().requires_grad_()
    src, tgt = (
        F.embedding(ids, matrix) * 15**0.5 + encoding[: ids.size(1)]
        for ids in (SRC, TGT)
    )
    hidden = theirs(
        src,
        tgt,
        tgt_mask=~causal_mask(TGT.size(1)),
        src_key_padding_mask=SRC == PAD,
        memory_key_padding_mask=SRC == PAD,
    )
    logits, expected = ours(SRC, TGT), hidden @ matrix.T
    assert_close(logits, expected, **EXACT)
    logits.pow(3).sum().backward()
    expected.pow(3).sum().backward()
    scale = max(parameter.grad.abs().max().item() for _, parameter in pairs)
    assert largest_gradient_gap(pairs) < 1e-10 * max(1, scale)
    shared = ours.encoder.embedding.weight
    assert_close(shared.grad, matrix.grad, rtol=1e-12, atol=1e-10)
    compared = sum(parameter.numel() for _, parameter in pairs)
    assert compared + matrix.numel() == ours.num_parameters()


@examples
@given(sentences, sentences, st.data())
def test_a_future_token_never_changes_an_earlier_logit(model, src, tgt, data):
    src_ids, tgt_ids = torch.tensor([[*src, EOS]]), torch.tensor([[BOS, *tgt]])
    place = data.draw(st.integers(1, len(tgt)))
    changed = tgt_ids.clone()
    future = len(tgt) + 1 - place
    tokens = st.lists(st.integers(0, 28), min_size=future, max_size=future)
    changed[0, place:] = torch.tensor(data.draw(tokens))
    before, after = model(src_ids, tgt_ids), model(src_ids, changed)
    assert_close(after[:, :place], before[:, :place], **EXACT)


@examples
@given(st.lists(st.tuples(sentences, sentences), min_size=2, max_size=5))
def test_a_batch_gives_the_logits_of_its_sentences_one_by_one(model, pairs):
    src = [[*src, EOS] for src, _ in pairs]
    tgt = [[BOS, *tgt] for _, tgt in pairs]
    together = model(pad(src), pad(tgt))
    for row, (one_src, one_tgt) in enumerate(zip(src, tgt, strict=True)):
        alone = model(torch.tensor([one_src]), torch.tensor([one_tgt]))[0]
        assert_close(together[row, : len(one_tgt)], alone, **EXACT)


def rows_through_forward(model, src_ids, outputs):
    """Logits after the last of each output's tokens, without any cache."""
    tgt_ids = torch.tensor(outputs)
    src_rows = src_ids.repeat_interleave(tgt_ids.size(1), dim=0)
    return model(src_rows, tgt_ids.flatten(0, 1))[:, -1].view(*tgt_ids.shape[:2], -1)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("attention", ["fused", "explicit"])
def test_cached_steps_are_the_full_forward(positions, attention):
    model = some_model(positions=positions, attention=attention)
    state, steps = model.start(SRC), []
    for last_ids in TGT.split(1, dim=1):
        logits, state = model.decoder.step(last_ids, state)
        steps.append(logits)
    assert_close(torch.cat(steps, dim=1), model(SRC, TGT), **EXACT)
    assert state.length == 5


@examples
@given(st.data())
def test_cached_steps_follow_reordered_beams_and_leaving_sentences(model, data):
    src_ids, outputs = torch.cat([SRC, SRC[:1].flip(1)]), [[[]], [[]], [[]]]
    state, last_ids = model.start(src_ids), torch.full((3, 1), BOS)
    for _ in range(data.draw(st.integers(1, 4))):
        logits, state = model.decoder.step(last_ids, state)
        for beams, ids in zip(outputs, last_ids.tolist(), strict=True):
            beams[:] = [[*past, token] for past, token in zip(beams, ids, strict=True)]
        assert_close(logits, rows_through_forward(model, src_ids, outputs), **EXACT)

        width = data.draw(st.integers(1, 4))
        old = st.integers(0, len(outputs[0]) - 1)
        table = st.lists(old, min_size=width, max_size=width)
        beams = [data.draw(table) for _ in outputs]
        state = state.reorder(torch.tensor(beams))
        outputs = [
            [out[b] for b in row] for out, row in zip(outputs, beams, strict=True)
        ]

        kept = data.draw(
            st.lists(st.integers(0, len(outputs) - 1), min_size=1, unique=True)
        )
        state, src_ids = state.keep(torch.tensor(kept)), src_ids[kept]
        outputs = [outputs[row] for row in kept]
        row_of_words = st.lists(words, min_size=width, max_size=width)
        last_ids = torch.tensor([data.draw(row_of_words) for _ in outputs])


@pytest.mark.parametrize("attention", ["fused", "explicit"])
def test_attention_weights_are_those_that_make_every_sublayers_output(attention):
    model, made = some_model(positions="learned", attention=attention), []
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.register_forward_hook(
                lambda module, given, output: made.append((module, given, output))
            )
    model(SRC, TGT)
    calls = {id(module): (given, output) for module, given, output in made}
    weights = model.attention_weights(SRC, TGT)
    for n, layer in enumerate(model.encoder.layers):
        assert_weights_make(weights.encoder[:, n], layer.self_attention, calls)
    for n, layer in enumerate(model.decoder.layers):
        assert_weights_make(weights.decoder[:, n], layer.self_attention, calls)
        assert_weights_make(weights.cross[:, n], layer.cross_attention, calls)


def assert_weights_make(weights, module, calls):
    (_, memory, *_), output = calls[id(module)]
    value = module.keys_and_values(memory).value
    heads = (weights @ value).transpose(1, 2).flatten(2)
    assert_close(module.w_o(heads), output, **EXACT)


@pytest.mark.parametrize("id_", [-1, 10_007])
def test_an_id_beyond_the_vocabulary_is_named(model, id_):
    wrong = torch.tensor([[5, id_, EOS]])
    for asked in (
        lambda: model.start(wrong),
        lambda: model.attention_weights(wrong, TGT[:1]),
        lambda: model.attention_weights(SRC[:1], wrong),
    ):
        with pytest.raises(ValueError, match=rf"ids from .*{id_}.*own tokenizer"):
            asked()


def test_dropout_acts_in_training_only():
    model, no_dropout = some_model(dropout=0.3), some_model()
    assert not torch.equal(model(SRC, TGT), model(SRC, TGT))
    assert_close(model.eval()(SRC, TGT), no_dropout(SRC, TGT), rtol=0, atol=0)


def test_dropout_falls_on_the_sums_of_embedding_and_position_too():
    model = some_model(dropout=0.3)
    for stack in (model.encoder, model.decoder):
        for layer in stack.layers:
            layer.eval()
    mask = padding_mask(SRC, PAD)
    memory = [model.encoder(SRC, mask) for _ in range(2)]
    logits = [model.decoder(TGT, memory[0], mask) for _ in range(2)]
    assert not torch.equal(*memory)
    assert not torch.equal(*logits)


def test_biases_start_at_zero_and_matrices_within_glorots_bound():
    model = Transformer(ModelConfig(**SHAPE))
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    assert len(linear) == 2 * (6 + 10)
    for module in linear:
        bound = (6 / sum(module.weight.shape)) ** 0.5
        assert 0.8 * bound < module.weight.abs().max() <= bound
        assert module.bias is None or not module.bias.any()
