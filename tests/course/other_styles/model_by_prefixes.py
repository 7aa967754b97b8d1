import torch
from torch import nn

from transformer_lite.tokenizer import PAD

from .embeddings import Embedding
from .layers import DecoderLayer, EncoderLayer
from .masks import causal_mask, padding_mask
from .positions import sinusoidal_encoding


class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = Embedding(config.vocab_size, config.d_model)
        encoding = sinusoidal_encoding(config.max_len, config.d_model)
        self.register_buffer("encoding", encoding, persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        layers = range(config.num_layers)
        self.encoder_layers = nn.ModuleList([EncoderLayer(config) for _ in layers])
        self.decoder_layers = nn.ModuleList([DecoderLayer(config) for _ in layers])
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)

    def embed_source(self, ids):
        return self.dropout(self.embedding(ids) + self.encoding[: ids.size(1)])

    def embed_target(self, ids, start=0):
        end = start + ids.size(1)
        return self.dropout(self.embedding(ids) + self.encoding[start:end])

    def encode(self, src_ids, mask):
        x = self.embed_source(src_ids)
        for layer in self.encoder_layers:
            x = layer(x, mask)
        return x

    def forward(self, src_ids, tgt_ids):
        mask = padding_mask(src_ids, PAD)
        memory = self.encode(src_ids, mask)
        causal = causal_mask(tgt_ids.size(1))
        x = self.embed_target(tgt_ids)
        for layer in self.decoder_layers:
            x = layer(x, memory, causal, mask)
        return self.embedding.logits(x)

    def start(self, src_ids):
        mask = padding_mask(src_ids, PAD)
        memory = self.encode(src_ids, mask)
        return memory, mask, torch.empty(len(src_ids), 0, dtype=torch.long)

    def step(self, last_ids, state):
        """Reads the whole prefix again, which is slow and right."""
        memory, mask, before = state
        ids = torch.cat([before, last_ids[:, None]], dim=1)
        x = self.embed_target(ids)
        for layer in self.decoder_layers:
            x = layer(x, memory, causal_mask(ids.size(1)), mask)
        return self.embedding.logits(x)[:, -1], (memory, mask, ids)
