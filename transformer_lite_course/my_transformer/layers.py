"""The feed-forward network, and the layers of both stacks (Sections 3.1, 3.3).

Chapter: https://transformer-lite.github.io/transformer-lite/notebooks/03_1_encoder_and_decoder_stacks.html
"""

from torch import Tensor, nn

from transformer_lite.config import ModelConfig

from .heads import MultiHeadAttention  # noqa: F401  (you will need it)


class FeedForward(nn.Module):
    """FFN(x) = max(0, xW₁ + b₁)W₂ + b₂ (Equation 2).

    Make two linear maps with bias, `w_1` to d_ff and `w_2` back to d_model.
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position's vector on its own: … × d_model."""
        raise NotImplementedError


class AddAndNorm(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))), the end of every sub-layer.

    Make a `norm` with a weight and a bias, such as `nn.LayerNorm`, and a dropout.
    """

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor, sublayer_output: Tensor) -> Tensor:
        """Return the normalized sum of a sub-layer's input and output."""
        raise NotImplementedError


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network.

    Make, in this order, `self_attention`, `after_self_attention` (an `AddAndNorm`),
    `feed_forward` and `after_feed_forward`, from d_model, num_heads, d_ff and dropout
    of the configuration.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Let each source position attend to all real source positions.

        Args:
            x: batch × src_len × d_model.
            mask: batch × 1 × 1 × src_len, the padding mask.
        """
        raise NotImplementedError


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, feed-forward network.

    Make, in this order, `self_attention`, `after_self_attention`, `cross_attention`,
    `after_cross_attention`, `feed_forward` and `after_feed_forward`.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(
        self, x: Tensor, memory: Tensor, causal: Tensor, memory_mask: Tensor
    ) -> Tensor:
        """Let each target position attend to its past and to the encoder's output.

        Args:
            x: batch × tgt_len × d_model.
            memory: The encoder's output, batch × src_len × d_model.
            causal: tgt_len × tgt_len, the causal mask.
            memory_mask: batch × 1 × 1 × src_len, the source's padding mask.
        """
        raise NotImplementedError

    def step(
        self,
        x: Tensor,
        past: tuple[Tensor, Tensor],
        mask: Tensor,
        memory: tuple[Tensor, Tensor],
        memory_mask: Tensor,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Compute the newest position alone; return it, and the longer past.

        Args:
            x: The newest position, batch × 1 × d_model.
            past: Keys and values of the positions before it, as `keys_and_values` of
                the self-attention gives them.
            mask: batch × 1 × 1 × positions with the newest; True where it may attend.
            memory: Keys and values of the encoder's output, as `keys_and_values` of
                the cross-attention gives them.
            memory_mask: batch × 1 × 1 × src_len.
        """
        raise NotImplementedError
