import torch
from torch import nn

from .heads import MultiHeadAttention


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.w_2(self.w_1(x).relu())


class AddAndNorm(nn.Module):
    def __init__(self, d_model, dropout):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.norm = Norm(d_model)

    def forward(self, x, sublayer_output):
        return self.norm(x + self.dropout(sublayer_output))


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)
        return self.gain * (x - mean) / torch.sqrt(variance + 1e-5) + self.bias


class EncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.num_heads)
        self.after_self_attention = AddAndNorm(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.after_feed_forward = AddAndNorm(config.d_model, config.dropout)

    def forward(self, x, mask):
        attended = self.self_attention(x, x, mask)
        x = self.after_self_attention(x, attended)
        return self.after_feed_forward(x, self.feed_forward(x))


class DecoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attention = MultiHeadAttention(config.d_model, config.num_heads)
        self.after_self_attention = AddAndNorm(config.d_model, config.dropout)
        self.cross_attention = MultiHeadAttention(config.d_model, config.num_heads)
        self.after_cross_attention = AddAndNorm(config.d_model, config.dropout)
        self.feed_forward = FeedForward(config.d_model, config.d_ff)
        self.after_feed_forward = AddAndNorm(config.d_model, config.dropout)

    def forward(self, x, memory, causal, memory_mask):
        x = self.after_self_attention(x, self.self_attention(x, x, causal))
        crossed = self.cross_attention(x, memory, memory_mask)
        x = self.after_cross_attention(x, crossed)
        return self.after_feed_forward(x, self.feed_forward(x))

    def step(self, x, past, mask, memory, memory_mask):
        newest = self.self_attention.keys_and_values(x)
        keys = torch.cat([past[0], newest[0]], dim=2)
        values = torch.cat([past[1], newest[1]], dim=2)
        attended = self.self_attention.attend(x, (keys, values), mask)
        x = self.after_self_attention(x, attended)
        crossed = self.cross_attention.attend(x, memory, memory_mask)
        x = self.after_cross_attention(x, crossed)
        return self.after_feed_forward(x, self.feed_forward(x)), (keys, values)
