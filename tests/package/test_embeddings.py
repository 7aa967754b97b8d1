"""Positional encodings and the shared embedding matrix."""

import pytest
import torch
from oracles import encoding_by_loops
from torch.testing import assert_close

from transformer_lite.embeddings import (
    POSITIONS,
    Embedding,
    LearnedPositions,
    SinusoidalPositions,
    sinusoidal_encoding,
)

LENGTH, D_MODEL = 29, 22

both_kinds = pytest.mark.parametrize("kind", POSITIONS.values(), ids=POSITIONS.keys())


def exact_encoding(length, d_model):
    """The package's encoding, without rounding it to fp32."""
    torch.set_default_dtype(torch.float64)
    try:
        return sinusoidal_encoding(length, d_model)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("d_model", [1, 2, 7, 22])
def test_encoding_is_the_formula_entry_by_entry(d_model):
    expected = encoding_by_loops(LENGTH, d_model)
    assert_close(exact_encoding(LENGTH, d_model), expected, rtol=0, atol=1e-12)


def test_encoding_keeps_full_fp32_precision_at_late_positions():
    last = sinusoidal_encoding(5_003, 6)[-1]
    assert_close(last.double(), encoding_by_loops(5_003, 6)[-1], rtol=0, atol=1e-7)


@both_kinds
def test_positions_add_a_row_for_each_position(kind):
    embedded, positions = torch.randn(3, LENGTH, D_MODEL), kind(D_MODEL, 31)
    assert_close(positions(embedded), embedded + positions.encoding[:LENGTH])


def test_sinusoidal_positions_are_the_formula_and_nothing_to_learn_or_to_save():
    positions = SinusoidalPositions(D_MODEL, 31)
    assert torch.equal(positions.encoding, sinusoidal_encoding(31, D_MODEL))
    assert not positions.state_dict()
    assert not list(positions.parameters())


@both_kinds
def test_positions_can_start_later(kind):
    embedded, positions = torch.randn(3, LENGTH, D_MODEL), kind(D_MODEL, 31)
    later = positions(embedded[:, 11:], start=11)
    assert torch.equal(later, positions(embedded)[:, 11:])


@both_kinds
@pytest.mark.parametrize(("start", "length"), [(0, 32), (31, 1)])
def test_a_sequence_that_is_too_long_gives_a_clear_error(kind, start, length):
    expected = "32 tokens is longer than max_len = 31; shorten it, or"
    with pytest.raises(ValueError, match=expected):
        kind(D_MODEL, 31)(torch.zeros(1, length, D_MODEL), start=start)


def test_embedding_is_the_row_times_root_d_model():
    embedding = Embedding(17, 9)
    embedded = embedding(torch.tensor([[3, 16], [0, 3]]))
    assert_close(embedded[0, 1], 3 * embedding.weight[16])


def test_logits_are_the_dot_products_with_every_row():
    embedding, hidden = Embedding(17, 9), torch.randn(2, 5, 9)
    logits = embedding.logits(hidden)
    assert_close(logits[1, 2, 13], hidden[1, 2] @ embedding.weight[13])


def test_embeddings_and_learned_positions_have_variance_one_at_first():
    torch.manual_seed(5)
    embedded = Embedding(211, 101)(torch.arange(211)[None])
    assert embedded.var().item() == pytest.approx(1, abs=0.03)
    positions = LearnedPositions(211, 101).encoding
    assert positions.var().item() == pytest.approx(1, abs=0.04)


def test_logits_of_normalized_vectors_have_variance_one_at_first():
    torch.manual_seed(5)
    hidden = torch.nn.functional.layer_norm(torch.randn(53, 101), [101])
    assert Embedding(211, 101).logits(hidden).var().item() == pytest.approx(1, abs=0.05)
