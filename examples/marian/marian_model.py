"""Marian's Transformer, built of the package's own.

Marian's models are the paper's model but for this:

============================  ====================  =============================
Part                          The paper             Marian
============================  ====================  =============================
Projections of heads (§3.2.2) no biases             a bias in each
Equation 2 (§3.3)             max(0, x)             SiLU, GELU or max(0, x)
Output (§3.4)                 no bias               one for every token
Positions (§3.5)              sines and cosines     all sines, then all cosines
                              alternate
The stacks (§3.1)             N equal layers each   each has its own shape
============================  ====================  =============================

The angles of the positions are the paper's, as in the library transformers. The program
Marian has those of the authors' code (Deviation D3).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lite.attention import MultiHeadAttention
from transformer_lite.config import ModelConfig
from transformer_lite.embeddings import Embedding
from transformer_lite.layers import FeedForward
from transformer_lite.model import Decoder, Transformer
from transformer_lite.tokenizer import BOS, EOS, PAD

ACTIVATIONS = {"swish": F.silu, "silu": F.silu, "gelu": F.gelu, "relu": F.relu}
"""The functions in Equation 2 by the names that a `config.json` gives them."""

DEFAULTS = {
    "d_model": 1024,
    "encoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_layers": 12,
    "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16,
    "activation_function": "gelu",
    "dropout": 0.1,
    "max_position_embeddings": 1024,
    "scale_embedding": False,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}
"""What a `config.json` may leave out."""

COMPUTED = {
    "model_type": ["marian"],
    "activation_function": list(ACTIVATIONS),
    "scale_embedding": [True],
    "share_encoder_decoder_embeddings": [True],
    "tie_word_embeddings": [True],
    "normalize_before": [False],
    "normalize_embedding": [False],
    "add_final_layer_norm": [False],
    "static_position_embeddings": [True],
}
"""The values that are computed here, the default of an absent key the first."""

MATRIX = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
    "lm_head.weight",
)
"""Names of the one matrix that embeds and scores; a file has one or more of them."""

FORMULA = (
    "model.encoder.embed_positions.weight",
    "model.decoder.embed_positions.weight",
)
"""Tensors that a file may have and that Section 3.5 gives back."""

NAMES = {
    "self_attn": "self_attention",
    "encoder_attn": "cross_attention",
    "q_proj": "w_q",
    "k_proj": "w_k",
    "v_proj": "w_v",
    "out_proj": "w_o",
    "self_attn_layer_norm": "after_self_attention.norm",
    "encoder_attn_layer_norm": "after_cross_attention.norm",
    "fc1": "feed_forward.w_1",
    "fc2": "feed_forward.w_2",
    "final_layer_norm": "after_feed_forward.norm",
}
"""Parts of a layer: their names in transformers and ours."""


class MarianEmbedding(Embedding):
    """An embedding whose scores have a bias.

    Args:
        vocab_size: Rows of the matrix.
        d_model: Its columns.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__(vocab_size, d_model)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def logits(self, hidden: Tensor) -> Tensor:
        """Return a score for every token."""
        return F.linear(hidden, self.weight, self.bias)


class MarianFeedForward(FeedForward):
    """Equation 2 with another function in place of max(0, x).

    Args:
        d_model: Width of input and output.
        d_ff: Width in between.
        activation: The function.
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__(d_model, d_ff)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Transform each position's vector on its own."""
        return self.w_2(self.activation(self.w_1(x)))


def marian_transformer(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], rows: Sequence[int]
) -> Transformer:
    """Return our Transformer with a Marian model's weights and logits.

    Args:
        config: What the model's `config.json` says.
        tensors: Its weights by the names that transformers gives them.
        rows: The row of its matrix for each of our token ids.

    Raises:
        ValueError: A value of `config` is not computed here.
        RuntimeError: The weights do not fit `config`; the message names them.
    """
    for name, values in COMPUTED.items():
        given = config.get(name, DEFAULTS.get(name, values[0]))
        if given not in values:
            expected = " or ".join(map(repr, values))
            raise ValueError(
                f"{name} = {given!r} is not computed here, only {expected}; give "
                "another model, such as Helsinki-NLP/opus-mt-en-de"
            )
    config = DEFAULTS | config
    embedding = MarianEmbedding(len(rows), config["d_model"])
    model = Transformer(_shape(config, "encoder", len(rows)))
    model.encoder.embedding = embedding
    model.decoder = Decoder(_shape(config, "decoder", len(rows)), embedding)
    activation = ACTIVATIONS[config["activation_function"]]
    for stack in (model.encoder, model.decoder):
        encoding = stack.positions.encoding
        stack.positions.encoding = torch.cat(
            [encoding[:, 0::2], encoding[:, 1::2]], dim=1
        )
        for layer in stack.layers:
            w_1 = layer.feed_forward.w_1
            layer.feed_forward = MarianFeedForward(
                w_1.in_features, w_1.out_features, activation
            )
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            for linear in (part.w_q, part.w_k, part.w_v, part.w_o):
                linear.bias = nn.Parameter(torch.zeros(linear.out_features))
    model.load_state_dict(_renamed(config, tensors, rows))
    return model


def _shape(config: Mapping[str, Any], stack: str, vocab_size: int) -> ModelConfig:
    """Return the shape of the "encoder" or of the "decoder" in our words."""
    return ModelConfig(
        vocab_size=vocab_size,
        num_layers=config[f"{stack}_layers"],
        d_model=config["d_model"],
        d_ff=config[f"{stack}_ffn_dim"],
        num_heads=config[f"{stack}_attention_heads"],
        dropout=config["dropout"],
        max_len=config["max_position_embeddings"],
    )


def _renamed(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], rows: Sequence[int]
) -> dict[str, Tensor]:
    """Return the weights by our names, and those of tokens in our order."""
    # What stands before the first token; nearly always PAD.
    start = config.get("decoder_start_token_id", rows[PAD])
    rows = [rows[PAD], start, *rows[EOS:]]
    bias = tensors["final_logits_bias"].squeeze(0)[rows]
    bias[[PAD, BOS]] = -math.inf  # a translation has neither
    matrix = next(tensors[name] for name in MATRIX if name in tensors)[rows]
    renamed = {}
    for stack in ("encoder", "decoder"):
        renamed[f"{stack}.embedding.weight"] = matrix
        renamed[f"{stack}.embedding.bias"] = bias
    for name in tensors.keys() - {*MATRIX, *FORMULA, "final_logits_bias"}:
        parts = name.removeprefix("model.").split(".")
        renamed[".".join(NAMES.get(part, part) for part in parts)] = tensors[name]
    return renamed
