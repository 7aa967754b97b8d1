import torch
from torch import nn

from .attention import scaled_dot_product_attention


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.d_k = d_model // num_heads
        self.h = num_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))

    def forward(self, query, memory, mask=None):
        return self.attend(query, self.keys_and_values(memory), mask)

    def keys_and_values(self, memory):
        key = torch.stack(self.w_k(memory).split(self.d_k, dim=-1), dim=1)
        value = torch.stack(self.w_v(memory).split(self.d_k, dim=-1), dim=1)
        return [key, value]

    def attend(self, query, projected, mask=None):
        queries = self.w_q(query).split(self.d_k, dim=-1)
        found = []
        for head, one in enumerate(queries):
            allowed = None if mask is None else mask[:, 0]
            sums, _ = scaled_dot_product_attention(
                one, projected[0][:, head], projected[1][:, head], allowed
            )
            found.append(sums)
        return self.w_o(torch.cat(found, dim=-1))
