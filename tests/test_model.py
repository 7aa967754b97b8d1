"""The whole Transformer: against PyTorch's, and what must never change."""

import math

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
from transformer_lite.config import ModelConfig
from transformer_lite.embeddings import Embedding
from transformer_lite.masks import causal_mask, padding_mask
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import BOS, EOS, PAD

EXACT = {"rtol": 0, "atol": 1e-10}
SHAPE = {
    "vocab_size": 29,
    "num_layers": 2,
    "d_model": 15,
    "d_ff": 23,
    "num_heads": 3,
    "dropout": 0.0,
    "max_len": 19,
}
SRC = torch.tensor([[5, 7, 11, 13, 17, 19, EOS], [23, 6, 8, EOS, PAD, PAD, PAD]])
TGT = torch.tensor([[BOS, 9, 10, 12, 14], [BOS, 15, 16, PAD, PAD]])

examples = settings(max_examples=25, deadline=None, derandomize=True)
words = st.integers(4, 28)
sentences = st.lists(words, min_size=1, max_size=7)
both_positions = pytest.mark.parametrize("positions", ["sinusoidal", "learned"])


def some_model(**changes):
    """A model in float64 whose every parameter is random."""
    torch.manual_seed(1)
    model = Transformer(ModelConfig(**SHAPE | changes)).double()
    for name, parameter in model.named_parameters():
        if name.endswith(("bias", "norm.weight")):
            nn.init.normal_(parameter, std=0.5)
    return model


MODEL = some_model()


def padded(rows):
    """The rows as one tensor, shorter ones filled up with PAD."""
    length = max(len(row) for row in rows)
    return torch.tensor([[*row, *[PAD] * (length - len(row))] for row in rows])


# The whole model is PyTorch's


@pytest.fixture
def both_models():
    """Ours and nn.Transformer with the same weights, as functions of the ids."""
    ours = some_model()
    theirs = torch_transformer(ours.config)
    copy_weights(transformer_pairs(ours, theirs), theirs)

    def their_logits(src_ids, tgt_ids):
        matrix, encoding = (
            ours.encoder.embedding.weight,
            ours.encoder.positions.encoding,
        )
        src, tgt = (
            F.embedding(ids, matrix) * 15**0.5 + encoding[: ids.size(1)]
            for ids in (src_ids, tgt_ids)
        )
        hidden = theirs(
            src,
            tgt,
            tgt_mask=~causal_mask(tgt_ids.size(1)),
            src_key_padding_mask=src_ids == PAD,
            memory_key_padding_mask=src_ids == PAD,
        )
        return hidden @ matrix.T

    return ours, theirs, their_logits


def test_logits_are_those_of_pytorchs_transformer(both_models):
    ours, _, their_logits = both_models
    assert_close(ours(SRC, TGT), their_logits(SRC, TGT), **EXACT)


def test_gradients_are_those_of_pytorchs_transformer(both_models):
    ours, theirs, their_logits = both_models
    ours(SRC, TGT).pow(3).sum().backward()
    shared_gradient = ours.encoder.embedding.weight.grad.clone()
    ours.encoder.embedding.weight.grad = None
    their_logits(SRC, TGT).pow(3).sum().backward()
    pairs = transformer_pairs(ours, theirs)
    scale = max(matrix.grad.abs().max().item() for _, matrix in pairs)
    assert len(pairs) == 2 * (10 + 14)
    assert largest_gradient_gap(pairs) < 1e-10 * max(1, scale)
    assert_close(
        shared_gradient, ours.encoder.embedding.weight.grad, rtol=1e-12, atol=1e-10
    )


def test_every_weight_but_the_shared_matrix_is_compared_with_pytorchs(both_models):
    ours, theirs, _ = both_models
    compared = [m for matrices, _ in transformer_pairs(ours, theirs) for m in matrices]
    counted = sum(matrix.numel() for matrix in compared)
    assert counted + 29 * 15 == ours.num_parameters()


@both_positions
def test_explicit_model_and_fused_model_are_equal(positions):
    fused = some_model(positions=positions, d_k=2, d_v=7)
    explicit = some_model(positions=positions, d_k=2, d_v=7, attention="explicit")
    outputs = [model(SRC, TGT) for model in (fused, explicit)]
    assert_close(*outputs, **EXACT)
    for output in outputs:
        output.sin().sum().backward()
    both = zip(fused.parameters(), explicit.parameters(), strict=True)
    for mine, other in both:
        assert_close(mine.grad, other.grad, **EXACT)


# What must not change


@examples
@given(sentences, sentences, st.data())
def test_a_future_token_never_changes_an_earlier_logit(src, tgt, data):
    src_ids, tgt_ids = torch.tensor([[*src, EOS]]), torch.tensor([[BOS, *tgt]])
    place = data.draw(st.integers(1, len(tgt)))
    changed = tgt_ids.clone()
    future = len(tgt) + 1 - place
    tokens = st.lists(st.integers(0, 28), min_size=future, max_size=future)
    changed[0, place:] = torch.tensor(data.draw(tokens))
    before, after = MODEL(src_ids, tgt_ids), MODEL(src_ids, changed)
    assert_close(after[:, :place], before[:, :place], **EXACT)


@examples
@given(sentences, sentences, st.integers(1, 5), st.integers(1, 5))
def test_source_padding_and_target_padding_change_no_real_logit(src, tgt, more, most):
    src_ids, tgt_ids = torch.tensor([[*src, EOS]]), torch.tensor([[BOS, *tgt]])
    padded_logits = MODEL(F.pad(src_ids, (0, more)), F.pad(tgt_ids, (0, most)))
    real = padded_logits[:, : tgt_ids.size(1)]
    assert_close(real, MODEL(src_ids, tgt_ids), **EXACT)


@examples
@given(st.lists(words, min_size=4, max_size=4))
def test_what_is_embedded_at_the_padding_changes_no_real_output(strangers):
    mask = padding_mask(SRC, PAD)
    other_ids = SRC.clone()
    other_ids[1, 3:] = torch.tensor(strangers)
    mask[1, ..., 3:] = False
    memory, other = MODEL.encoder(SRC, mask), MODEL.encoder(other_ids, mask)
    assert_close(other[0], memory[0], **EXACT)
    assert_close(other[1, :3], memory[1, :3], **EXACT)
    assert not torch.allclose(other[1, 3:], memory[1, 3:])
    logits, other_logits = (MODEL.decoder(TGT, m, mask) for m in (memory, other))
    assert_close(other_logits, logits, **EXACT)


@examples
@given(st.lists(st.tuples(sentences, sentences), min_size=2, max_size=5))
def test_a_batch_gives_the_logits_of_its_sentences_one_by_one(pairs):
    src = [[*src, EOS] for src, _ in pairs]
    tgt = [[BOS, *tgt] for _, tgt in pairs]
    together = MODEL(padded(src), padded(tgt))
    for row, (one_src, one_tgt) in enumerate(zip(src, tgt, strict=True)):
        alone = MODEL(torch.tensor([one_src]), torch.tensor([one_tgt]))[0]
        assert_close(together[row, : len(one_tgt)], alone, **EXACT)


def test_the_last_source_token_can_change_the_first_logit():
    changed = SRC.clone()
    changed[0, 5] = 4
    difference = (MODEL(changed, TGT) - MODEL(SRC, TGT)).abs()
    assert difference[0, 0].min() > 1e-6
    assert difference[1].max() < 1e-10


# The cache


def rows_through_forward(model, src_ids, outputs):
    """Logits after the last of each output's tokens, without any cache."""
    tgt_ids = torch.tensor(outputs)
    src_rows = src_ids.repeat_interleave(tgt_ids.size(1), dim=0)
    return model(src_rows, tgt_ids.flatten(0, 1))[:, -1].view(*tgt_ids.shape[:2], -1)


@both_positions
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
@given(st.lists(sentences, min_size=60, max_size=140), st.booleans())
def test_many_sources_are_read_as_in_one(sources, in_order):
    """Some are read at a time, each group no wider than its longest one."""
    sources = sorted(sources, key=len) if in_order else sources
    src_ids = padded([[*source, EOS] for source in sources])
    first = torch.full((len(src_ids), 1), BOS)
    logits, _ = MODEL.decoder.step(first, MODEL.start(src_ids))
    assert_close(logits, MODEL(src_ids, first), **EXACT)


def test_no_sources_are_a_state_of_no_sentences():
    assert MODEL.start(SRC[:0]).memory_mask.shape == (0, 1, 1, 7)


@examples
@given(st.data())
def test_cached_steps_follow_beams_that_are_reordered_and_sentences_that_leave(data):
    src_ids, outputs = torch.cat([SRC, SRC[:1].flip(1)]), [[[]], [[]], [[]]]
    state, last_ids = MODEL.start(src_ids), torch.full((3, 1), BOS)
    for _ in range(data.draw(st.integers(1, 4))):
        logits, state = MODEL.decoder.step(last_ids, state)
        for beams, ids in zip(outputs, last_ids.tolist(), strict=True):
            beams[:] = [[*past, token] for past, token in zip(beams, ids, strict=True)]
        assert_close(logits, rows_through_forward(MODEL, src_ids, outputs), **EXACT)

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


def test_reordering_takes_the_past_of_another_beam():
    state = MODEL.start(SRC)
    _, state = MODEL.decoder.step(torch.full((2, 1), BOS), state)
    state = state.reorder(torch.zeros(2, 3, dtype=torch.long))
    _, state = MODEL.decoder.step(torch.tensor([[4, 5, 6], [7, 8, 9]]), state)
    swapped = state.reorder(torch.tensor([[2, 0], [1, 1]]))
    # One BOS for all beams, then the token of each.
    assert swapped.ancestors.int().tolist() == [
        [[1, 0, 0, 1], [1, 1, 0, 0]],
        [[1, 0, 1, 0], [1, 0, 1, 0]],
    ]


def test_a_step_leaves_the_state_before_it_as_it_was():
    state = MODEL.start(SRC)
    first, _ = MODEL.decoder.step(torch.tensor([[BOS], [BOS]]), state)
    again, _ = MODEL.decoder.step(torch.tensor([[BOS], [BOS]]), state)
    assert_close(first, again, rtol=0, atol=0)


# The attention weights


@both_positions
@pytest.mark.parametrize("attention", ["fused", "explicit"])
def test_attention_weights_are_those_that_make_every_sublayers_output(
    positions, attention
):
    model, made = some_model(positions=positions, attention=attention), []
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


def test_attention_weights_of_each_query_sum_to_one():
    for part in MODEL.attention_weights(SRC, TGT):
        assert_close(part.sum(dim=-1), torch.ones_like(part[..., 0]), **EXACT)


def test_nobody_attends_to_padding_or_to_the_future():
    weights = MODEL.attention_weights(SRC, TGT)
    padding = (SRC == PAD)[:, None, None, None]
    assert padding.any()
    assert (weights.encoder * padding == 0).all()
    assert (weights.cross * padding == 0).all()
    assert torch.equal(weights.decoder, weights.decoder.tril())


@pytest.mark.parametrize("id_", [-1, 10_007])
def test_an_id_beyond_the_vocabulary_is_named(id_):
    wrong = torch.tensor([[5, id_, EOS]])
    for asked in (
        lambda: MODEL.start(wrong),
        lambda: MODEL.attention_weights(wrong, TGT[:1]),
        lambda: MODEL.attention_weights(SRC[:1], wrong),
    ):
        with pytest.raises(ValueError, match=rf"ids from .*{id_}.*own tokenizer"):
            asked()


# The shared matrix


def test_one_matrix_is_shared_and_counted_once():
    under_every_name = dict(MODEL.named_parameters(remove_duplicate=False))
    matrices = [p for p in under_every_name.values() if p.shape == (29, 15)]
    assert len(matrices) == 2
    assert matrices[0].data_ptr() == matrices[1].data_ptr()
    once_too_often = sum(p.numel() for p in under_every_name.values())
    assert MODEL.num_parameters() == once_too_often - 29 * 15


class InAndOut(nn.Module):
    """An embedding whose output matrix is another one."""

    def __init__(self, matrix):
        super().__init__()
        self.inside, self.outside = Embedding(29, 15), Embedding(29, 15)
        self.inside.weight = nn.Parameter(matrix.detach().clone())
        self.outside.weight = nn.Parameter(matrix.detach().clone())

    def forward(self, ids):
        return self.inside(ids)

    def logits(self, hidden):
        return self.outside.logits(hidden)


def test_the_shared_gradient_is_the_sum_over_all_three_uses():
    shared, apart = some_model(), some_model()
    matrix = apart.encoder.embedding.weight
    apart.encoder.embedding, apart.decoder.embedding = (
        InAndOut(matrix),
        InAndOut(matrix),
    )
    for model in (shared, apart):
        model(SRC, TGT).sin().sum().backward()
    decoder = apart.decoder.embedding
    uses = [apart.encoder.embedding.inside, decoder.inside, decoder.outside]
    gradients = [use.weight.grad for use in uses]
    assert all(gradient.abs().max() > 1e-3 for gradient in gradients)
    assert_close(shared.encoder.embedding.weight.grad, sum(gradients), **EXACT)


# Training


@both_positions
def test_a_gradient_reaches_every_parameter(positions):
    model = some_model(positions=positions)
    model(SRC, TGT).sin().sum().backward()
    untouched = {
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.any()
    }
    assert not untouched
    assert len(list(model.parameters())) >= 2 * (12 + 18)


def test_dropout_acts_in_training_only():
    model, no_dropout = some_model(dropout=0.3), MODEL
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


def test_an_untrained_model_guesses_about_evenly():
    torch.manual_seed(2)
    model = Transformer(ModelConfig(vocab_size=1_009, d_model=128, num_layers=2))
    labels = torch.randint(4, 1_009, (7, 11))
    logits = model.eval()(labels, labels.flip(1))
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten()).item()
    assert loss == pytest.approx(math.log(1_009), abs=0.7)


# Limits


@both_positions
def test_sequences_of_max_len_tokens_fit(positions):
    ids = torch.full((1, 19), 5)
    assert some_model(positions=positions)(ids, ids).shape == (1, 19, 29)


@both_positions
@pytest.mark.parametrize(("src_len", "tgt_len"), [(20, 3), (3, 20)])
def test_a_sequence_that_is_too_long_gives_a_clear_error(positions, src_len, tgt_len):
    model = some_model(positions=positions)
    with pytest.raises(
        ValueError, match="20 tokens is longer than max_len = 19; shorte"
    ):
        model(torch.full((1, src_len), 5), torch.full((1, tgt_len), 5))


def test_a_step_beyond_max_len_gives_a_clear_error():
    state = MODEL.start(SRC)._replace(length=19)
    with pytest.raises(ValueError, match="20 tokens is longer than max_len = 19"):
        MODEL.decoder.step(torch.full((2, 1), 5), state)
