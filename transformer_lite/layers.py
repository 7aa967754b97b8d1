"""The encoder's layer, the decoder's layer, and the two parts that they share.

Paper: §3.1, 3.3
Chapter: 03_1_encoder_and_decoder_stacks, 03_3_position_wise_feed_forward_networks
Tests: tests/package/test_layers.py
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from transformer_lite.attention import KeysAndValues, MultiHeadAttention
from transformer_lite.config import ModelConfig


class FeedForward(nn.Module):
    """The same two linear maps at every position: FFN(x) = max(0, xW₁ + b₁)W₂ + b₂.

    Equation 2, Section 3.3.

    Args:
        d_model: Width of input and output.
        d_ff: Width in between.
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(
        self, x: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        """Transform each position's vector on its own."""
        # Deviation D2: the authors later add dropout after the ReLU; we add none.
        return self.w_2(self.w_1(x).relu())


class AddAndNorm(nn.Module):
    """The end of every sub-layer: LayerNorm(x + Dropout(Sublayer(x))).

    Sections 3.1 and 5.4.

    Args:
        dropout: Probability with which an entry of the sub-layer's output is dropped.
    """

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        # Deviation D1: after the sum, as the paper writes; the authors' later code
        # normalizes before the sub-layer.
        # Deviation D9: PyTorch's ε of 1e-5 inside the root; the paper gives none.
        self.norm = nn.LayerNorm(d_model)

    def forward(
        self,
        x: Float[Tensor, "*batch d_model"],
        sublayer_output: Float[Tensor, "*batch d_model"],
    ) -> Float[Tensor, "*batch d_model"]:
        """Return the normalized sum of a sub-layer's input and output."""
        return self.norm(x + self.dropout(sublayer_output))


def _attention(config: ModelConfig) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model, config.num_heads, config.d_k, config.d_v, config.attention
    )


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network (Section 3.1, Figure 1 left)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.after_self_attention = AddAndNorm(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.after_feed_forward = AddAndNorm(config.d_model, config.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch src_len d_model"],
        mask: Bool[Tensor, "batch 1 1 src_len"],
    ) -> Float[Tensor, "batch src_len d_model"]:
        """Let each source position attend to all real source positions."""
        x = self.after_self_attention(x, self.self_attention(x, x, mask))
        return self.after_feed_forward(x, self.feed_forward(x))


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, feed-forward (Section 3.1, Figure 1)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.self_attention = _attention(config)
        self.after_self_attention = AddAndNorm(config.d_model, config.dropout)
        self.cross_attention = _attention(config)
        self.after_cross_attention = AddAndNorm(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.after_feed_forward = AddAndNorm(config.d_model, config.dropout)

    def forward(
        self,
        x: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch src_len d_model"],
        causal: Bool[Tensor, "tgt_len tgt_len"],
        memory_mask: Bool[Tensor, "batch 1 1 src_len"],
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Let each target position attend to its past and to the encoder's output.

        `causal` must be the causal mask: GPUs do not read it.
        """
        attended = self.self_attention(x, x, causal[None, None], is_causal=True)
        x = self.after_self_attention(x, attended)
        x = self.after_cross_attention(x, self.cross_attention(x, memory, memory_mask))
        return self.after_feed_forward(x, self.feed_forward(x))

    def step(
        self,
        x: Float[Tensor, "batch beams d_model"],
        past: KeysAndValues,
        ancestors: Bool[Tensor, "batch 1 beams past_and_newest"],
        memory: KeysAndValues,
        memory_mask: Bool[Tensor, "batch 1 1 src_len"],
    ) -> tuple[Float[Tensor, "batch beams d_model"], KeysAndValues]:
        """Compute the newest position of each beam; return it, and the longer past.

        The beams of a sentence share one past. The mask `ancestors` hides the other
        beams' tokens, so each beam attends to its own.
        """
        past = past.followed_by(self.self_attention.keys_and_values(x))
        x = self.after_self_attention(x, self.self_attention.attend(x, past, ancestors))
        x = self.after_cross_attention(
            x, self.cross_attention.attend(x, memory, memory_mask)
        )
        return self.after_feed_forward(x, self.feed_forward(x)), past
