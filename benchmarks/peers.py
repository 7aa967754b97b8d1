"""The peers, each with the architecture and the weights of a model of ours.

Marian has biases in attention that we have not: they are zero at the start. Copied
weights give equal losses, which `training.check_loss` holds it to.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lite.attention import MultiHeadAttention
from transformer_lite.batching import Batch
from transformer_lite.embeddings import sinusoidal_encoding
from transformer_lite.layers import DecoderLayer
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam
from transformer_lite.precision import autocast
from transformer_lite.tokenizer import BOS, EOS, PAD
from transformer_lite.training.step import Objective, train_step

SMOOTHING = 0.1
RATE = 1e-4


def copy(ours: nn.Module, theirs: nn.Module) -> None:
    """Copy a linear layer or a layer norm; a bias that we have not becomes zero."""
    with torch.no_grad():
        theirs.weight.copy_(ours.weight)
        if theirs.bias is not None:
            theirs.bias.copy_(ours.bias if ours.bias is not None else torch.zeros(1))
    if isinstance(theirs, nn.LayerNorm):
        theirs.eps = ours.eps


# Hugging Face Marian


def marian(ours: Transformer, attention: str) -> nn.Module:
    """Return Hugging Face's Marian; attention is "eager" or "sdpa"."""
    from transformers import MarianConfig, MarianMTModel

    config = ours.config
    model = MarianMTModel(
        MarianConfig(
            vocab_size=config.vocab_size,
            max_position_embeddings=config.max_len,
            encoder_layers=config.num_layers,
            decoder_layers=config.num_layers,
            encoder_attention_heads=config.num_heads,
            decoder_attention_heads=config.num_heads,
            encoder_ffn_dim=config.d_ff,
            decoder_ffn_dim=config.d_ff,
            d_model=config.d_model,
            dropout=config.dropout,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            decoder_start_token_id=BOS,
            forced_eos_token_id=None,
            attn_implementation=attention,
        )
    )
    inner, encoding = model.model, sinusoidal_encoding(config.max_len, config.d_model)
    with torch.no_grad():
        inner.shared.weight.copy_(ours.encoder.embedding.weight)
        for side in (inner.encoder, inner.decoder):
            side.embed_tokens.weight = inner.shared.weight
            side.embed_positions.weight.copy_(encoding)
    model.lm_head.weight = inner.shared.weight
    for own, other in zip(
        [*ours.encoder.layers, *ours.decoder.layers],
        [*inner.encoder.layers, *inner.decoder.layers],
        strict=True,
    ):
        _marian_attention(own.self_attention, other.self_attn)
        copy(own.after_self_attention.norm, other.self_attn_layer_norm)
        if isinstance(own, DecoderLayer):
            _marian_attention(own.cross_attention, other.encoder_attn)
            copy(own.after_cross_attention.norm, other.encoder_attn_layer_norm)
        copy(own.feed_forward.w_1, other.fc1)
        copy(own.feed_forward.w_2, other.fc2)
        copy(own.after_feed_forward.norm, other.final_layer_norm)
    return model


def _marian_attention(own: MultiHeadAttention, other: nn.Module) -> None:
    theirs = (other.q_proj, other.k_proj, other.v_proj, other.out_proj)
    for ours, peer in zip((own.w_q, own.w_k, own.w_v, own.w_o), theirs, strict=True):
        copy(ours, peer)


# torch.nn.Transformer, as a tutorial would use it


class Naive(nn.Module):
    """`torch.nn.Transformer` between a shared embedding and its transpose."""

    def __init__(self, ours: Transformer) -> None:
        super().__init__()
        config = ours.config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model, PAD)
        self.transformer = nn.Transformer(
            config.d_model,
            config.num_heads,
            config.num_layers,
            config.num_layers,
            config.d_ff,
            config.dropout,
            batch_first=True,
        )
        self.dropout = nn.Dropout(config.dropout)
        encoding = sinusoidal_encoding(config.max_len, config.d_model)
        self.register_buffer("encoding", encoding)

    def embed(self, ids: Tensor) -> Tensor:
        """Return scaled embeddings plus positions."""
        embedded = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(embedded + self.encoding[: ids.size(1)])

    def forward(self, src_ids: Tensor, tgt_ids: Tensor) -> Tensor:
        """Return logits."""
        no_future = tgt_ids.new_ones(tgt_ids.size(1), tgt_ids.size(1)).triu(1).bool()
        hidden = self.transformer(
            self.embed(src_ids),
            self.embed(tgt_ids),
            tgt_mask=no_future,
            src_key_padding_mask=src_ids == PAD,
            tgt_key_padding_mask=tgt_ids == PAD,
            memory_key_padding_mask=src_ids == PAD,
        )
        return hidden @ self.embedding.weight.T


# One training step of each, as its own trainer takes it


class Ours:
    """Our training step."""

    def __init__(self, model: Transformer, precision: str) -> None:
        self.objective = Objective(model, SMOOTHING, precision)
        self.optimizer = adam(model.parameters(), RATE)

    def step(self, batch: Batch) -> None:
        """Take the step."""
        train_step(self.objective, [batch], self.optimizer)


class Peer:
    """A peer's training step; its model, its optimizer and its loss are its own."""

    clips = True
    precision = "fp32"

    def step(self, batch: Batch) -> None:
        """Take the step."""
        device = next(self.model.parameters()).device
        with autocast(self.precision, device):
            loss = self.loss(batch.to(device))
        loss.backward()
        if self.clips:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()


class Marian(Peer):
    """Hugging Face's Trainer's: its LabelSmoother, fused AdamW, gradients clipped."""

    def __init__(self, model: nn.Module) -> None:
        from transformers.trainer_pt_utils import LabelSmoother

        self.model, self.smoother = model, LabelSmoother(SMOOTHING)
        self.optimizer = torch.optim.AdamW(model.parameters(), RATE, fused=True)

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean loss."""
        output = self.model(
            input_ids=batch.src_ids,
            attention_mask=(batch.src_ids != PAD).long(),
            decoder_input_ids=batch.tgt_input,
            use_cache=False,
        )
        labels = batch.labels.masked_fill(batch.labels == PAD, -100)
        return self.smoother(output, labels)


class NaiveStep(Peer):
    """A tutorial's: Adam."""

    clips = False

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), RATE)

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean loss."""
        logits = self.model(batch.src_ids, batch.tgt_input)
        return F.cross_entropy(
            logits.flatten(0, 1),
            batch.labels.flatten(),
            ignore_index=PAD,
            label_smoothing=SMOOTHING,
        )
