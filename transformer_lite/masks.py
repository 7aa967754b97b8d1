"""Who may attend to whom: the padding mask and the causal mask.

A mask is boolean and True means "may attend", as in
`torch.nn.functional.scaled_dot_product_attention`. (`torch.nn.MultiheadAttention`
means the opposite.) `Transformer.forward` makes its masks itself, from token ids.

Paper: §3.2.3
Chapter: 03_2_3_applications_of_attention_in_our_model, 04_why_self_attention
Tests: tests/package/test_masks.py
"""

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(
    ids: Int[Tensor, "batch len"], pad_id: int
) -> Bool[Tensor, "batch 1 1 len"]:
    """Return True where a key is a real token, for all heads and queries.

    Only keys are masked. The outputs at padding positions mean nothing: no real
    position attends to them, and the loss leaves them out.

    Args:
        ids: Token ids, shorter rows filled up with `pad_id`.
        pad_id: The id of padding, `transformer_lite.tokenizer.PAD`.
    """
    return (ids != pad_id)[:, None, None, :]


def causal_mask(
    length: int, device: torch.device | None = None
) -> Bool[Tensor, "length length"]:
    """Return True where the key (column) is not later than the query (row) (§3.2.3)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()
