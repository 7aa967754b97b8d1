"""The models that runs train: the Transformer, and what it is compared with.

All have the interface of `transformer_lite.model.Transformer`, so one trainer, one loss
and one search serve them all.
"""

import math
from collections.abc import Callable
from functools import partial

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lite.attention import MultiHeadAttention, fused_attention
from transformer_lite.config import ModelConfig
from transformer_lite.embeddings import Embedding
from transformer_lite.layers import DecoderLayer, EncoderLayer, FeedForward
from transformer_lite.model import Transformer
from transformer_lite_book.recurrent import RecurrentModel


class Recurrent(RecurrentModel):
    """A recurrent model as wide as a Transformer of this configuration."""

    def __init__(self, config: ModelConfig, has_attention: bool = False) -> None:
        width, dropout = config.d_model, config.dropout
        super().__init__(config.vocab_size, width, has_attention, dropout)
        self.config = config


class PreNormEncoderLayer(EncoderLayer):
    """x + Dropout(Sublayer(LayerNorm(x))) twice."""

    def forward(
        self,
        x: Float[Tensor, "batch src_len d_model"],
        mask: Bool[Tensor, "batch 1 1 src_len"],
    ) -> Float[Tensor, "batch src_len d_model"]:
        """Let each source position attend to all real source positions."""
        residual, y = self.after_self_attention, self.after_self_attention.norm(x)
        x = x + residual.dropout(self.self_attention(y, y, mask))
        residual, y = self.after_feed_forward, self.after_feed_forward.norm(x)
        return x + residual.dropout(self.feed_forward(y))


class PreNormDecoderLayer(DecoderLayer):
    """x + Dropout(Sublayer(LayerNorm(x))) three times."""

    def forward(
        self,
        x: Float[Tensor, "batch tgt_len d_model"],
        memory: Float[Tensor, "batch src_len d_model"],
        causal: Bool[Tensor, "tgt_len tgt_len"],
        memory_mask: Bool[Tensor, "batch 1 1 src_len"],
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Let each target position attend to its past and to the encoder's output."""
        residual, y = self.after_self_attention, self.after_self_attention.norm(x)
        attended = self.self_attention(y, y, causal[None, None], is_causal=True)
        x = x + residual.dropout(attended)
        residual, y = self.after_cross_attention, self.after_cross_attention.norm(x)
        x = x + residual.dropout(self.cross_attention(y, memory, memory_mask))
        residual, y = self.after_feed_forward, self.after_feed_forward.norm(x)
        return x + residual.dropout(self.feed_forward(y))


class LastNorm(nn.Sequential):
    """A stack's last layer, and the LayerNorm that pre-norm needs after it."""

    def __init__(self, layer: nn.Module, d_model: int) -> None:
        super().__init__(layer, nn.LayerNorm(d_model))

    def forward(
        self, x: Float[Tensor, "batch len d_model"], *inputs: Tensor
    ) -> Float[Tensor, "batch len d_model"]:
        """Return the layer's output, normalized."""
        layer, norm = self
        return norm(layer(x, *inputs))


class PreNorm(Transformer):
    """The Transformer with each LayerNorm before its sub-layer: for training alone.

    It takes over the initial weights of the Transformer with the same seed. It has no
    search, which would need a step of its own.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        for stack, kind in (
            (self.encoder, PreNormEncoderLayer),
            (self.decoder, PreNormDecoderLayer),
        ):
            layers = nn.ModuleList(kind(config) for _ in stack.layers)
            layers.load_state_dict(stack.layers.state_dict())
            layers[-1] = LastNorm(layers[-1], config.d_model)
            stack.layers = layers


def undivided(query: Tensor, *inputs: Tensor | bool | None) -> Tensor:
    """Do Equation 1 without the division by √d_k."""
    return fused_attention(query * math.sqrt(query.size(-1)), *inputs)


def unmasked(query: Tensor, key: Tensor, value: Tensor, *_: Tensor | bool) -> Tensor:
    """Do Equation 1 for every key, that of padding too."""
    return fused_attention(query, key, value)


class WithoutRoot(Transformer):
    """The Transformer with scores that are not divided by √d_k."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        for part in self.modules():
            if isinstance(part, MultiHeadAttention):
                part.attention = undivided


class WithoutPaddingMask(Transformer):
    """The Transformer that attends to the source's padding, too."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        for layer in self.encoder.layers:
            layer.self_attention.attention = unmasked
        for layer in self.decoder.layers:
            layer.cross_attention.attention = unmasked


class TwoMatrices(Embedding):
    """A matrix that scores tokens, and another one that embeds them."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__(vocab_size, d_model)
        self.input = Embedding(vocab_size, d_model)

    def forward(
        self, ids: Int[Tensor, "batch len"]
    ) -> Float[Tensor, "batch len d_model"]:
        """Return the tokens' rows of the matrix that embeds, times √d_model."""
        return self.input(ids)


class ThreeMatrices(Transformer):
    """The Transformer with a matrix each for source, target and output."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.decoder.embedding = TwoMatrices(config.vocab_size, config.d_model)


class LinearFeedForward(FeedForward):
    """xW₁W₂ with both biases: Equation 2 without the ReLU."""

    def forward(
        self, x: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        """Transform each position's vector by two linear maps alone."""
        return self.w_2(self.w_1(x))


class WithoutReLU(Transformer):
    """The Transformer with feed-forward networks that are linear."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        for layer in (*self.encoder.layers, *self.decoder.layers):
            linear = LinearFeedForward(config.d_model, config.d_ff)
            linear.load_state_dict(layer.feed_forward.state_dict())
            layer.feed_forward = linear


class NoSublayer(nn.Module):
    """Stands where a sub-layer is left out: its vectors pass unchanged."""

    def forward(self, x: Tensor, _: Tensor | None = None) -> Tensor:
        """Return the vectors that came from the sub-layer before."""
        return x


class HeadsForFeedForward(Transformer):
    """The Transformer with further heads in place of its feed-forward networks.

    A feed-forward network has as many weights as d_ff / 2 d_k heads. The attentions of
    its layer share them: one in the encoder, two in the decoder.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        d_model, d_k = config.d_model, config.d_model // config.num_heads
        for layer in (*self.encoder.layers, *self.decoder.layers):
            layer.feed_forward = layer.after_feed_forward = NoSublayer()
            parts = layer.named_children()
            names = [
                name for name, part in parts if isinstance(part, MultiHeadAttention)
            ]
            heads = config.num_heads + config.d_ff // (2 * d_k * len(names))
            for name in names:
                attention = MultiHeadAttention(d_model, heads, d_k, d_k)
                for matrix in attention.parameters():
                    nn.init.xavier_uniform_(matrix)
                setattr(layer, name, attention)


MODELS: dict[str, Callable[[ModelConfig], nn.Module]] = {
    "Transformer": Transformer,
    "pre-norm": PreNorm,
    "without root": WithoutRoot,
    "without padding mask": WithoutPaddingMask,
    "three matrices": ThreeMatrices,
    "heads for feed-forward": HeadsForFeedForward,
    "without ReLU": WithoutReLU,
    "recurrent": Recurrent,
    "recurrent with attention": partial(Recurrent, has_attention=True),
}
"""By the name that a run gives."""
