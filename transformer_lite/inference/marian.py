"""Published translation models of Marian, computed by our own model.

The University of Helsinki has trained more than a thousand of them (OPUS-MT) by the
program Marian, and Hugging Face keeps them. They are the paper's model but for what
this table names. What is only another name, or can be moved into other weights, is
moved; what is left is a part of its own, below.

====================  ===================  ====================  ======================
Part                  The paper            Marian                Here
====================  ===================  ====================  ======================
Positions (§3.5)      sines and cosines    all sines, then all   channels are renamed
                      alternate            cosines
Embedding norm        none                 none (else refused)   –
Special tokens        –                    the first token       tokens are renumbered
                                           follows PAD
Embeddings (§3.4)     times √d_model       so, or as they are    moved into weights
Key biases (§3.2.2)   none                 in every head         left out
Value biases          none                 in every head         moved into W^O's bias
Q and W^O biases      none                 in every layer        add_biases
Equation 2 (§3.3)     max(0, x)            SiLU, GELU, max(0,x)  ActivatedFeedForward
Scores (§3.4)         no bias              one for every token   BiasedScores
Their matrix          the embedding's      so, or its own        BiasedScores
Vocabularies (§5.1)   one                  one or two            two embeddings
The stacks (§3.1)     N equal layers each  each has its shape    two configurations
====================  ===================  ====================  ======================

Why the logits stay what they are:

- *Channels.* Permute the channels of embeddings and positions, the columns of whatever
  reads such a vector, the rows of whatever writes one, and every LayerNorm: then all
  vectors between are permuted, and the logits are not. The paper's order of sines and
  cosines and Marian's are one model. The angles are the paper's, as in the library
  transformers; the program Marian itself has those of the authors' code (Deviation D3).
- *Scale.* An embedding that is not scaled is W / √d_model, scaled. The same matrix then
  gives scores too small by √d_model, and the last LayerNorm, which they alone read, is
  made larger by it.
- *Key biases.* q·(k + b) = q·k + q·b. All keys gain alike, and the softmax does not see
  what all gain.
- *Value biases.* The weights of a query sum to one, so that b reaches W^O whole: it
  adds W^O b to whatever W^O gives.

Scores of PAD and BOS are −∞. Marian knows no such outputs, and transformers forbids PAD
(``bad_words_ids``).

Paper: §3
Chapter: attention_visualizations
Tests: tests/inference/test_marian.py
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import UnionType
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lite.attention import MultiHeadAttention
from transformer_lite.config import ModelConfig
from transformer_lite.embeddings import Embedding
from transformer_lite.layers import DecoderLayer, EncoderLayer, FeedForward
from transformer_lite.model import Decoder, Transformer
from transformer_lite.tokenizer import BOS, PAD

ACTIVATIONS = {"swish": nn.SiLU, "silu": nn.SiLU, "gelu": nn.GELU, "relu": nn.ReLU}
"""By the names that a model's configuration has for them."""

FIXED = {
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "static_position_embeddings": True,
}
"""What a configuration may say and only in this way is computed, here as elsewhere."""

SOURCE = "model.encoder.embed_tokens.weight"
TARGET = "model.decoder.embed_tokens.weight"
SHARED = "model.shared.weight"
OUTPUT = "lm_head.weight"
REMEDY = "take config.json and the weights of one and the same model"


@dataclass(frozen=True, kw_only=True)
class MarianConfig:
    """The shape of a model, by the names and defaults of its `config.json`.

    Raises:
        ValueError: There is no model of this shape; the message names the value.
    """

    d_model: int = 1024
    vocab_size: int = 58101
    decoder_vocab_size: int | None = None
    encoder_layers: int = 12
    encoder_ffn_dim: int = 4096
    encoder_attention_heads: int = 16
    decoder_layers: int = 12
    decoder_ffn_dim: int = 4096
    decoder_attention_heads: int = 16
    activation_function: str = "gelu"
    dropout: float = 0.1
    max_position_embeddings: int = 1024
    scale_embedding: bool = False
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    decoder_start_token_id: int | None = None

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "MarianConfig":
        """What a `config.json` says, which leaves out what is as by default.

        Raises:
            ValueError: It is another model's, or says what is not computed here; the
                message names the key and the value.
        """
        if given.get("model_type") != "marian":
            raise ValueError(
                f"model_type = {given.get('model_type')!r} is not computed here; give "
                'a model of the type "marian", such as hf:Helsinki-NLP/opus-mt-en-de'
            )
        choices = {name: [value] for name, value in FIXED.items()}
        choices["activation_function"] = list(ACTIVATIONS)
        for name, known in choices.items():
            if given.get(name, known[0]) not in known:
                raise ValueError(
                    f"{name} = {given[name]!r} is not computed here, only "
                    f"{' or '.join(map(repr, known))}; give another model"
                )
        types = {entry.name: entry.type for entry in fields(cls) if entry.name in given}
        for name, expected in types.items():
            if not _is_a(given[name], expected):
                raise ValueError(
                    f"{name} = {given[name]!r} is impossible; get the file again"
                )
        return cls(**{name: given[name] for name in types})

    def __post_init__(self) -> None:
        """Refuse what no model can be."""
        sizes = [entry.name for entry in fields(self) if entry.type is int]
        possible = {name: getattr(self, name) >= 1 for name in sizes}
        for name in ("vocab_size", "decoder_vocab_size"):  # PAD, EOS, UNK and a piece
            size = getattr(self, name)
            possible[name] = size is None or size >= 4
        start, rows = self.decoder_start_token_id, self.side_size("decoder")
        possible["decoder_start_token_id"] = start is None or 0 <= start < rows
        # Half of them are left for what a translation has more than its source.
        possible["max_position_embeddings"] = self.max_position_embeddings >= 2
        possible["dropout"] = 0 <= self.dropout < 1
        for name in ("encoder_attention_heads", "decoder_attention_heads"):
            heads = getattr(self, name)
            possible[name] = heads >= 1 and self.d_model % heads == 0
        for name, is_possible in possible.items():
            if not is_possible:
                width = f" with d_model = {self.d_model}" if "heads" in name else ""
                raise ValueError(
                    f"{name} = {getattr(self, name)!r} is impossible{width}; get the "
                    "file again"
                )

    def side_size(self, name: str) -> int:
        """Size of the vocabulary of the "encoder" or of the "decoder"."""
        if name == "decoder" and not self.share_encoder_decoder_embeddings:
            return self.decoder_vocab_size or self.vocab_size
        return self.vocab_size

    def side(self, name: str) -> ModelConfig:
        """The shape of the "encoder" or of the "decoder" in our words."""
        return ModelConfig(
            # With BOS, which to Marian is the same as PAD.
            vocab_size=self.side_size(name) + 1,
            num_layers=getattr(self, f"{name}_layers"),
            d_model=self.d_model,
            d_ff=getattr(self, f"{name}_ffn_dim"),
            num_heads=getattr(self, f"{name}_attention_heads"),
            dropout=self.dropout,
            max_len=self.max_position_embeddings,
        )


def _is_a(value: Any, expected: Any) -> bool:
    """Whether a value from JSON has the type; a whole number is a float, too."""
    kinds = get_args(expected) if isinstance(expected, UnionType) else (expected,)
    return type(value) in kinds or (float in kinds and type(value) is int)


class ActivatedFeedForward(FeedForward):
    """Equation 2 with another function than max(0, x).

    Args:
        d_model: Width of input and output.
        d_ff: Width in between.
        activation: The function.
    """

    def __init__(self, d_model: int, d_ff: int, activation: nn.Module) -> None:
        super().__init__(d_model, d_ff)
        self.activation = activation

    def forward(
        self, x: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch d_model"]:
        """Each position's vector, transformed on its own."""
        return self.w_2(self.activation(self.w_1(x)))


class BiasedScores(Embedding):
    """An embedding whose scores have a bias, and perhaps a matrix of their own.

    Args:
        embedding: The matrix that embeds tokens.
        scores: The matrix that scores them, which may be the same.
        bias: What is added to the scores.
    """

    def __init__(
        self,
        embedding: Float[Tensor, "vocab d_model"],
        scores: Float[Tensor, "vocab d_model"],
        bias: Float[Tensor, " vocab"],
    ) -> None:
        super().__init__(*embedding.shape)
        self.weight = nn.Parameter(embedding)
        self.scores = self.weight if scores is embedding else nn.Parameter(scores)
        self.bias = nn.Parameter(bias)

    def logits(
        self, hidden: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch vocab"]:
        """A score for every token."""
        return F.linear(hidden, self.scores, self.bias)


def add_biases(attention: MultiHeadAttention) -> None:
    """Give W^Q and W^O a bias, which is zero at first."""
    for projection in (attention.w_q, attention.w_o):
        projection.bias = nn.Parameter(torch.zeros(projection.out_features))


@torch.no_grad()
def assemble(
    config: MarianConfig,
    tensors: Mapping[str, Tensor],
    source: Sequence[int],
    target: Sequence[int],
) -> Transformer:
    """Our model with the weights of a Marian model, and with its logits.

    Args:
        config: Its shape.
        tensors: Its weights, by the names that transformers' `MarianMTModel` has.
        source: For each of our source ids the row of its matrices.
        target: For each of our target ids the same. Of one shared vocabulary these
            are the source's, too.

    Raises:
        ValueError: A tensor is missing, has another shape than `config` says, or would
            not be used.
    """
    weights = _Weights(tensors, config.d_model)
    scale = 1.0 if config.scale_embedding else math.sqrt(config.d_model)
    model = Transformer(config.side("encoder"))
    scores = _scores(config, weights, target, scale)
    model.decoder = Decoder(config.side("decoder"), scores)
    if config.share_encoder_decoder_embeddings:
        model.encoder.embedding = scores
    else:
        rows = weights.rows(source, SOURCE) / scale
        model.encoder.embedding.weight = nn.Parameter(rows)
    activation = ACTIVATIONS[config.activation_function]
    for name, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        positions = f"model.{name}.embed_positions.weight"
        weights.compare(stack.positions.encoding, positions)
        for number, layer in enumerate(stack.layers):
            w_1 = layer.feed_forward.w_1
            layer.feed_forward = ActivatedFeedForward(
                w_1.in_features, w_1.out_features, activation()
            )
            _fill_layer(layer, weights, f"model.{name}.layers.{number}")
    last = model.decoder.layers[-1].after_feed_forward.norm
    last.weight.mul_(scale)
    last.bias.mul_(scale)
    weights.require_all_used()
    return model


def _scores(
    config: MarianConfig, weights: "_Weights", target: Sequence[int], scale: float
) -> BiasedScores:
    """The target's embedding, which is the source's as well where they share one."""
    names = [TARGET]
    if config.share_encoder_decoder_embeddings:
        names += [SHARED, SOURCE]
    if config.tie_word_embeddings:
        names += [OUTPUT]
    embedding = scores = weights.rows(target, *names) / scale
    if not config.tie_word_embeddings:
        scores = weights.rows(target, OUTPUT) / scale
    bias = weights.take((len(target) - 1,), "final_logits_bias")[target]
    bias[[PAD, BOS]] = -math.inf
    return BiasedScores(embedding, scores, bias)


def _fill_layer(
    layer: EncoderLayer | DecoderLayer, weights: "_Weights", name: str
) -> None:
    _fill_attention(layer.self_attention, weights, f"{name}.self_attn")
    weights.write(layer.after_self_attention.norm, f"{name}.self_attn_layer_norm")
    if isinstance(layer, DecoderLayer):
        _fill_attention(layer.cross_attention, weights, f"{name}.encoder_attn")
        norm = layer.after_cross_attention.norm
        weights.write(norm, f"{name}.encoder_attn_layer_norm")
    weights.read(layer.feed_forward.w_1, f"{name}.fc1")
    weights.write(layer.feed_forward.w_2, f"{name}.fc2")
    weights.write(layer.after_feed_forward.norm, f"{name}.final_layer_norm")


def _fill_attention(
    attention: MultiHeadAttention, weights: "_Weights", name: str
) -> None:
    add_biases(attention)
    weights.read(attention.w_q, f"{name}.q_proj")
    weights.read(attention.w_k, f"{name}.k_proj")
    weights.read(attention.w_v, f"{name}.v_proj")
    weights.write(attention.w_o, f"{name}.out_proj")
    d_model = attention.w_o.out_features
    value_bias = weights.take((d_model,), f"{name}.v_proj.bias")
    attention.w_o.bias += attention.w_o.weight @ value_bias
    weights.unused.discard(f"{name}.k_proj.bias")


class _Weights:
    """A model's tensors, whose channels become ours, and which of them are used.

    Args:
        tensors: The tensors by their names.
        d_model: Number of channels.
    """

    def __init__(self, tensors: Mapping[str, Tensor], d_model: int) -> None:
        self.tensors, self.unused = tensors, set(tensors)
        sines, cosines = torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)
        self.channels = torch.cat([sines, cosines]).argsort()
        """For each of our channels its number among theirs."""

    def take(self, shape: tuple[int, ...], *names: str) -> Tensor:
        """The tensor that has these names, of which a file may keep only one."""
        self.unused.difference_update(names)
        found = next((name for name in names if name in self.tensors), None)
        if found is None:
            raise ValueError(f"there is no {names[0]}; {REMEDY}")
        tensor = self.tensors[found]
        if tensor.squeeze(0).shape != shape:
            raise ValueError(
                f"{found} has the shape {tuple(tensor.shape)}, which is not {shape}; "
                f"{REMEDY}"
            )
        return tensor.float().view(shape)

    def rows(self, order: Sequence[int], *names: str) -> Float[Tensor, "ours d_model"]:
        """An embedding's rows in this order."""
        theirs = self.take((len(order) - 1, len(self.channels)), *names)
        return theirs[list(order)][:, self.channels]

    def read(self, linear: nn.Linear, name: str) -> None:
        """Fill a linear map that reads channels."""
        weight = self.take(tuple(linear.weight.shape), f"{name}.weight")
        linear.weight.copy_(weight[:, self.channels])
        if linear.bias is not None:
            linear.bias.copy_(self.take(tuple(linear.bias.shape), f"{name}.bias"))

    def write(self, part: nn.Linear | nn.LayerNorm, name: str) -> None:
        """Fill a part that writes channels."""
        for own, kind in ((part.weight, "weight"), (part.bias, "bias")):
            own.copy_(self.take(tuple(own.shape), f"{name}.{kind}")[self.channels])

    def compare(self, encoding: Float[Tensor, "max_len d_model"], name: str) -> None:
        """See that positions which a file keeps are the paper's."""
        if name not in self.tensors:
            return
        kept = self.take(tuple(encoding.shape), name)[:, self.channels]
        if not torch.allclose(kept, encoding, atol=1e-3):  # they may be in fp16
            raise ValueError(f"{name} is not sinusoidal; give another model")

    def require_all_used(self) -> None:
        """Refuse a model that has more parts than are computed."""
        if self.unused:
            raise ValueError(f"{min(self.unused)} has no place here; {REMEDY}")
