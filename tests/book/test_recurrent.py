"""The recurrent models: padding, beams, gradients, and attention against a loop."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from transformer_lite.batching import Batch
from transformer_lite.optimizer import adam
from transformer_lite.tokenizer import BOS, EOS, PAD
from transformer_lite.training.step import Objective, train_step
from transformer_lite_book.recurrent import (
    AdditiveAttention,
    LoopThenAttention,
    RecurrentModel,
)

EXACT = {"rtol": 0, "atol": 1e-10}
SRC = torch.tensor([[5, 7, 11, 13, 17, 19, EOS], [23, 6, 8, EOS, PAD, PAD, PAD]])
TGT = torch.tensor([[BOS, 9, 10, 12, 14], [BOS, 15, 16, PAD, PAD]])
sentences = st.lists(st.integers(4, 28), min_size=1, max_size=7)


def some_model(attention, dropout=0.0):
    """A model in float64 whose every parameter is random."""
    torch.manual_seed(1)
    model = RecurrentModel(29, 14, attention, dropout).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.4)
    return model


def some_loop(layer):
    """A loop with attention behind it, in float64, whose every parameter is random."""
    torch.manual_seed(1)
    loop = LoopThenAttention(layer, 29, 14, dropout=0.0).double()
    for parameter in loop.parameters():
        nn.init.normal_(parameter, std=0.4)
    return loop


@pytest.fixture(scope="module", params=[False, True], ids=["one vector", "attention"])
def model(request):
    return some_model(attention=request.param)


@pytest.fixture(scope="module", params=[False, True, nn.GRU, nn.LSTM], ids=str)
def any_model(request):
    is_loop = isinstance(request.param, type)
    return some_loop(request.param) if is_loop else some_model(request.param)


def test_additive_attention_is_a_loop_over_plain_numbers():
    torch.manual_seed(2)
    attention = AdditiveAttention(11).double()
    query, memory = torch.randn(2, 3, 11).double(), torch.randn(2, 5, 11).double()
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    context, weights = attention(query, attention.w_k(memory), memory, mask)
    v = attention.v.weight[0].tolist()
    for sentence in range(2):
        keys = [attention.w_k(place).tolist() for place in memory[sentence]]
        for number in range(3):
            q = attention.w_q(query[sentence, number]).tolist()
            raised = [
                math.exp(sum(v[i] * math.tanh(q[i] + k[i]) for i in range(11))) * real
                for k, real in zip(keys, mask[sentence].tolist(), strict=True)
            ]
            expected = torch.tensor(raised).double() / sum(raised)
            assert_close(weights[sentence, number], expected, rtol=0, atol=1e-6)
            mixed = weights[sentence, number] @ memory[sentence]
            assert_close(context[sentence, number], mixed, **EXACT)


# What must not change


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.lists(st.tuples(sentences, sentences), min_size=2, max_size=5))
def test_a_batch_gives_the_logits_of_its_sentences_one_by_one(any_model, pairs):
    batch = Batch.from_ids(*map(list, zip(*pairs, strict=True)))
    together = any_model(batch.src_ids, batch.tgt_input)
    for row, (src, tgt) in enumerate(pairs):
        src_ids, tgt_ids = torch.tensor([[*src, EOS]]), torch.tensor([[BOS, *tgt]])
        alone = any_model(src_ids, tgt_ids)[0]
        assert_close(together[row, : len(alone)], alone, **EXACT)


def test_a_future_token_changes_no_earlier_logit(any_model):
    changed = TGT.clone()
    changed[:, 3:] = 28
    before, after = any_model(SRC, TGT), any_model(SRC, changed)
    assert_close(after[:, :3], before[:, :3], **EXACT)
    assert (after[:, 3:] - before[:, 3:]).abs().min() > 1e-9


@pytest.mark.parametrize("place", range(7))
def test_every_source_token_can_change_the_first_logit(any_model, place):
    changed = SRC.clone()
    changed[0, place] = 4
    difference = (any_model(changed, TGT) - any_model(SRC, TGT)).abs()
    assert difference[0, 0].max() > 1e-6
    assert difference[1].max() < 1e-10


# What the decoder sees of the source


def test_without_attention_the_context_is_one_vector_at_every_step():
    model = some_model(attention=False)
    state = model.start(SRC)
    first, _ = model.decoder.look(state)
    _, state = model.decoder.step(torch.tensor([[9], [10]]), state)
    second, weights = model.decoder.look(state)
    assert state.memory.shape == (2, 1, 14)
    assert_close(second, first, rtol=0, atol=0)
    assert_close(weights, torch.ones(2, 1, 1).double(), rtol=0, atol=0)


# Search


def test_beams_that_are_reordered_and_sentences_that_leave_keep_their_past(model):
    state = model.start(SRC).reorder(torch.zeros(2, 3, dtype=torch.long))
    second = torch.tensor([[4, 5, 6], [7, 8, 9]])
    for last_ids in (torch.full((2, 3), BOS), second):
        _, state = model.decoder.step(last_ids, state)
    state = state.reorder(torch.tensor([[2, 0], [1, 1]])).keep(torch.tensor([1, 0]))
    logits, _ = model.decoder.step(torch.tensor([[10, 11], [12, 13]]), state)
    pasts = [[BOS, 8, 10], [BOS, 8, 11], [BOS, 6, 12], [BOS, 4, 13]]
    full = model(SRC[[1, 1, 0, 0]], torch.tensor(pasts))[:, -1]
    assert_close(logits.flatten(0, 1), full, **EXACT)


# Training


@pytest.mark.parametrize("attention", [False, True])
def test_the_packages_training_step_trains_it(attention):
    torch.manual_seed(4)
    model = RecurrentModel(29, 14, attention, dropout=0.0)
    batch = Batch.from_ids([[5, 6, 7], [8, 9]], [[10, 11], [12, 13, 14]])
    optimizer = adam(model.parameters(), 0.02)
    objective = Objective(model, smoothing=0.0)
    losses = [train_step(objective, [batch], optimizer).loss for _ in range(40)]
    assert losses[0] > 2
    assert losses[-1] < 0.1


@pytest.mark.parametrize("attention", [False, True])
def test_dropout_acts_in_training_only(attention):
    model, without = some_model(attention, dropout=0.3), some_model(attention)
    assert not torch.equal(model(SRC, TGT), model(SRC, TGT))
    assert_close(model.eval()(SRC, TGT), without(SRC, TGT), rtol=0, atol=0)
