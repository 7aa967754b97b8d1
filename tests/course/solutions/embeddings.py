import math

import torch
from torch import nn


class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.scale = math.sqrt(d_model)
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model) / self.scale)

    def forward(self, ids):
        return self.weight[ids] * self.scale

    def logits(self, hidden):
        return hidden @ self.weight.T
