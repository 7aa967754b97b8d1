"""The padding mask and the causal mask."""

import torch

from transformer_lite.masks import causal_mask, padding_mask
from transformer_lite.tokenizer import BOS, EOS, PAD


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
