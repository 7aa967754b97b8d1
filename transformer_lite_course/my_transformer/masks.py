"""The padding mask and the causal mask (Section 3.2.3).

Chapter: https://transformer-lite.github.io/transformer-lite/notebooks/03_2_3_applications_of_attention_in_our_model.html
"""

from torch import Tensor


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """Return True where a key is a real token: batch × 1 × 1 × len, Boolean.

    The two axes of length 1 are those of the heads and the queries.

    Args:
        ids: Token ids, batch × len, shorter rows filled up with `pad_id`.
        pad_id: The id of padding.
    """
    raise NotImplementedError


def causal_mask(length: int) -> Tensor:
    """Return True where the key (column) is not later than the query (row).

    The result is length × length and Boolean.
    """
    raise NotImplementedError
