"""Scaled dot-product attention (Section 3.2.1).

Chapter: https://transformer-lite.github.io/transformer-lite/notebooks/03_2_1_scaled_dot_product_attention.html
"""

from torch import Tensor


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return softmax(query keyᵀ / √d_k) value, and the softmax itself (Equation 1).

    Args:
        query: … × q_len × d_k.
        key: … × k_len × d_k.
        value: … × k_len × d_v.
        mask: True where a query may attend to a key; it broadcasts to … × q_len ×
            k_len.

    Returns:
        The weighted sums of the values, … × q_len × d_v, and the weights,
        … × q_len × k_len.
    """
    raise NotImplementedError
