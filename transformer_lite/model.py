"""Encoder, decoder and the whole Transformer (Figure 1).

Paper: §3, Figure 1
Chapter: 03_model_architecture
Tests: tests/package/test_model.py
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformer_lite.attention import KeysAndValues
from transformer_lite.config import ModelConfig
from transformer_lite.embeddings import POSITIONS, Embedding
from transformer_lite.layers import DecoderLayer, EncoderLayer
from transformer_lite.masks import causal_mask, padding_mask
from transformer_lite.tokenizer import PAD


class Encoder(nn.Module):
    """N identical layers that read the source sentence (Section 3.1).

    Args:
        config: The model's shape.
        embedding: The matrix that encoder, decoder and output share.
    """

    def __init__(self, config: ModelConfig, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = POSITIONS[config.positions](config.d_model, config.max_len)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(config) for _ in range(config.num_layers)
        )

    def forward(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        mask: Bool[Tensor, "batch 1 1 src_len"],
    ) -> Float[Tensor, "batch src_len d_model"]:
        """Return a vector for each source token that knows its whole sentence."""
        x = self.dropout(self.positions(self.embedding(src_ids)))
        for layer in self.layers:
            x = layer(x, mask)
        # Deviation D6: no further LayerNorm here; each layer ends in one already.
        return x


class DecoderState(NamedTuple):
    """All that the decoder keeps from one generated token to the next."""

    memory: tuple[KeysAndValues, ...]
    """Each layer's projection of the encoder's output."""
    memory_mask: Bool[Tensor, "batch 1 1 src_len"]
    past: tuple[KeysAndValues, ...]
    """Each layer's projection of the tokens so far, of all beams together."""
    ancestors: Bool[Tensor, "batch beams past"]
    """True where a token of the past belongs to the beam.

    Two beams that read BOS and then "the" or "a" share a past of three tokens. If both
    then continue "the", each of them has the row [True, True, False].
    """
    length: int
    """Number of tokens that each beam has read."""

    def reorder(self, beams: Int[Tensor, "batch beams"]) -> "DecoderState":
        """Return the state in which beam j of sentence i continues beam beams[i, j].

        Keys and values stay where they are; only `ancestors` changes.
        """
        sentences = torch.arange(len(beams), device=beams.device)[:, None]
        return self._replace(ancestors=self.ancestors[sentences, beams])

    def keep(self, sentences: Int[Tensor, " kept"]) -> "DecoderState":
        """Return the state of these sentences alone, in this order."""
        return self._replace(
            memory=tuple(of_layer.keep(sentences) for of_layer in self.memory),
            memory_mask=self.memory_mask[sentences],
            past=tuple(of_layer.keep(sentences) for of_layer in self.past),
            ancestors=self.ancestors[sentences],
        )


class Decoder(nn.Module):
    """N identical layers that write the target sentence (Section 3.1).

    Args:
        embedding: The matrix that encoder, decoder and output share.
    """

    def __init__(self, config: ModelConfig, embedding: Embedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.positions = POSITIONS[config.positions](config.d_model, config.max_len)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            DecoderLayer(config) for _ in range(config.num_layers)
        )

    def forward(
        self,
        tgt_ids: Int[Tensor, "batch tgt_len"],
        memory: Float[Tensor, "batch src_len d_model"],
        memory_mask: Bool[Tensor, "batch 1 1 src_len"],
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        """Score every token that may follow each target position."""
        return self.embedding.logits(self.hidden(tgt_ids, memory, memory_mask))

    def hidden(
        self,
        tgt_ids: Int[Tensor, "batch tgt_len"],
        memory: Float[Tensor, "batch src_len d_model"],
        memory_mask: Bool[Tensor, "batch 1 1 src_len"],
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Return the last layer's vectors, which the scores are made of (Section 3.4).

        Padding is at the end of a target, where the causal mask hides it from every
        real position already, so it needs no mask of its own.
        """
        causal = causal_mask(tgt_ids.size(1), device=tgt_ids.device)
        x = self.dropout(self.positions(self.embedding(tgt_ids)))
        for layer in self.layers:
            x = layer(x, memory, causal, memory_mask)
        return x

    def start(
        self,
        memory: Float[Tensor, "batch src_len d_model"],
        memory_mask: Bool[Tensor, "batch 1 1 src_len"],
    ) -> DecoderState:
        """Return the state before the first token, with one beam for each sentence."""
        projected = tuple(
            layer.cross_attention.keys_and_values(memory) for layer in self.layers
        )
        nothing = tuple(
            layer.self_attention.keys_and_values(memory[:, :0]) for layer in self.layers
        )
        no_token = memory_mask.new_empty(len(memory), 1, 0)
        return DecoderState(projected, memory_mask, nothing, no_token, 0)

    def step(
        self, last_ids: Int[Tensor, "batch beams"], state: DecoderState
    ) -> tuple[Float[Tensor, "batch beams vocab"], DecoderState]:
        """Score the token after `last_ids`; return the scores and the next state.

        The scores equal those of `forward` at the last position, but only that position
        is computed.
        """
        batch, beams = last_ids.shape
        embedded = self.embedding(last_ids).flatten(0, 1)[:, None]
        x = self.dropout(self.positions(embedded, start=state.length))
        x = x.view(batch, beams, -1)
        itself = torch.eye(beams, dtype=torch.bool, device=x.device)
        ancestors = torch.cat(
            [state.ancestors, itself.expand(batch, beams, beams)], dim=-1
        )
        past = []
        for layer, layer_past, memory in zip(
            self.layers, state.past, state.memory, strict=True
        ):
            x, layer_past = layer.step(
                x, layer_past, ancestors[:, None], memory, state.memory_mask
            )
            past.append(layer_past)
        state = state._replace(
            past=tuple(past), ancestors=ancestors, length=state.length + 1
        )
        return self.embedding.logits(x), state


class AttentionWeights(NamedTuple):
    """The softmax of Equation 1 in every layer and head of a model."""

    encoder: Float[Tensor, "batch layers heads src_len src_len"]
    """How strongly each source position attends to each other."""
    decoder: Float[Tensor, "batch layers heads tgt_len tgt_len"]
    """How strongly each target position attends to those up to its own."""
    cross: Float[Tensor, "batch layers heads tgt_len src_len"]
    """How strongly each target position attends to each source position."""


class Transformer(nn.Module):
    """The encoder–decoder model of Figure 1.

    One matrix embeds source tokens, embeds target tokens and scores the output
    (Section 3.4).

    Args:
        config: The model's shape; `transformer_lite.config.BASE` is the paper's.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        embedding = Embedding(config.vocab_size, config.d_model)
        self.encoder = Encoder(config, embedding)
        self.decoder = Decoder(config, embedding)
        self.apply(_initialize)

    def forward(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        tgt_ids: Int[Tensor, "batch tgt_len"],
    ) -> Float[Tensor, "batch tgt_len vocab"]:
        """Score the next token at each target position, teacher-forced.

        Args:
            src_ids: Source tokens, each row ended by EOS and filled up with PAD.
            tgt_ids: Target tokens from BOS on, filled up with PAD.
        """
        mask = padding_mask(src_ids, PAD)
        return self.decoder(tgt_ids, self.encoder(src_ids, mask), mask)

    def hidden(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        tgt_ids: Int[Tensor, "batch tgt_len"],
    ) -> Float[Tensor, "batch tgt_len d_model"]:
        """Return the vectors that `forward` scores, for a loss that scores them."""
        mask = padding_mask(src_ids, PAD)
        return self.decoder.hidden(tgt_ids, self.encoder(src_ids, mask), mask)

    def attention_weights(
        self,
        src_ids: Int[Tensor, "batch src_len"],
        tgt_ids: Int[Tensor, "batch tgt_len"],
    ) -> AttentionWeights:
        """Return every head's attention weights; set evaluation mode first.

        Raises:
            ValueError: An id lies beyond the vocabulary, or a sequence is longer than
                `max_len`.
        """
        _require_known(src_ids, self.encoder.embedding)
        _require_known(tgt_ids, self.decoder.embedding)
        mask = padding_mask(src_ids, PAD)
        causal = causal_mask(tgt_ids.size(1), device=tgt_ids.device)
        encoder, decoder, cross = [], [], []
        x = self.encoder.positions(self.encoder.embedding(src_ids))
        for layer in self.encoder.layers:
            encoder.append(layer.self_attention.weights(x, x, mask))
            x = layer(x, mask)
        memory, x = x, self.decoder.positions(self.decoder.embedding(tgt_ids))
        for layer in self.decoder.layers:
            own = layer.self_attention
            decoder.append(own.weights(x, x, causal[None, None]))
            query = layer.after_self_attention(x, own(x, x, causal[None, None]))
            cross.append(layer.cross_attention.weights(query, memory, mask))
            x = layer(x, memory, causal, mask)
        parts = (torch.stack(part, dim=1) for part in (encoder, decoder, cross))
        return AttentionWeights(*parts)

    def start(self, src_ids: Int[Tensor, "batch src_len"]) -> DecoderState:
        """Read the source as `forward` does; return the state before the first token.

        Raises:
            ValueError: As for `attention_weights`.
        """
        _require_known(src_ids, self.encoder.embedding)
        mask = padding_mask(src_ids, PAD)
        return self.decoder.start(self.encoder(src_ids, mask), mask)

    def num_parameters(self) -> int:
        """Count the parameters, the shared matrix once (Table 3)."""
        return sum(parameter.numel() for parameter in self.parameters())


def _require_known(ids: Int[Tensor, "batch len"], embedding: Embedding) -> None:
    """Refuse ids of another tokenizer.

    `forward` does not check this: the host would have to wait for the GPU.
    """
    vocab_size = embedding.weight.size(0)
    if ids.numel() and not 0 <= ids.min() <= ids.max() < vocab_size:
        raise ValueError(
            f"ids from {ids.min()} to {ids.max()} do not fit a vocabulary of "
            f"{vocab_size}; encode the text with the model's own tokenizer"
        )


def _initialize(module: nn.Module) -> None:
    """Draw matrices by Glorot's uniform distribution, and set biases to zero."""
    # Deviation D7: the paper is silent. Glorot's bound keeps a signal's variance
    # through a linear map about equal, forwards and backwards.
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
