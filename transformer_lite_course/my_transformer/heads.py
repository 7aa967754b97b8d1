"""Multi-head attention (Section 3.2.2).

Chapter: https://transformer-lite.github.io/transformer-lite/notebooks/03_2_2_multi_head_attention.html
"""

from torch import Tensor, nn

from .attention import scaled_dot_product_attention  # noqa: F401  (you will need it)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own projection.

    Make four linear maps, `w_q`, `w_k`, `w_v` and `w_o`, each from d_model to d_model.
    The paper's have no bias; the grader sets a bias to 0. Head i takes the i-th
    d_model / num_heads channels of a projection.

    Args:
        d_model: Width of queries, memory and output.
        num_heads: Number of heads; it divides d_model.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(
        self, query: Tensor, memory: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Return what each query gathers from the memory: batch × q_len × d_model.

        Args:
            query: batch × q_len × d_model.
            memory: batch × k_len × d_model.
            mask: True where a query may attend; it broadcasts to batch × heads ×
                q_len × k_len.
        """
        raise NotImplementedError

    def keys_and_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Project the memory: two tensors of batch × heads × k_len × d_k."""
        raise NotImplementedError

    def attend(
        self,
        query: Tensor,
        projected: tuple[Tensor, Tensor],
        mask: Tensor | None = None,
    ) -> Tensor:
        """Do the same as `forward`, with keys and values that are projected already."""
        raise NotImplementedError
