"""The padding mask and the causal mask."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.masks import causal_mask, padding_mask
from transformer_lite.tokenizer import BOS, EOS, PAD

examples = settings(max_examples=30, deadline=None, derandomize=True)


def test_padding_mask_is_true_at_real_tokens():
    ids = torch.tensor([[BOS, 7, EOS], [11, EOS, PAD]])
    expected = torch.tensor([[[[True, True, True]]], [[[True, True, False]]]])
    assert torch.equal(padding_mask(ids, PAD), expected)


def test_padding_mask_follows_the_given_id():
    ids = torch.tensor([[3, 5, 3]])
    assert padding_mask(ids, 3).flatten().tolist() == [False, True, False]


def test_causal_mask_is_true_on_and_below_the_diagonal():
    expected = torch.tensor(
        [[True, False, False], [True, True, False], [True, True, True]]
    )
    assert torch.equal(causal_mask(3), expected)


@examples
@given(st.lists(st.integers(1, 11), min_size=1, max_size=5))
def test_padding_mask_counts_the_real_tokens_of_every_sentence(lengths):
    ids = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = 5
    assert padding_mask(ids, PAD).sum(dim=-1).flatten().tolist() == lengths


def test_the_two_masks_combine_to_what_a_padded_decoder_may_see():
    ids = torch.tensor([[BOS, 7, PAD]])
    both = padding_mask(ids, PAD) & causal_mask(3)
    expected = [[True, False, False], [True, True, False], [True, True, False]]
    assert both[0, 0].tolist() == expected
