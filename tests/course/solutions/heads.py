from torch import nn

from .attention import scaled_dot_product_attention


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_model, bias=False)
        self.w_v = nn.Linear(d_model, d_model, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    def split(self, x):
        batch, length, _ = x.shape
        return x.view(batch, length, self.num_heads, -1).transpose(1, 2)

    def merge(self, heads):
        batch, _, length, _ = heads.shape
        return heads.transpose(1, 2).reshape(batch, length, -1)

    def forward(self, query, memory, mask=None):
        return self.attend(query, self.keys_and_values(memory), mask)

    def keys_and_values(self, memory):
        return self.split(self.w_k(memory)), self.split(self.w_v(memory))

    def attend(self, query, projected, mask=None):
        key, value = projected
        query = self.split(self.w_q(query))
        heads, _ = scaled_dot_product_attention(query, key, value, mask)
        return self.w_o(self.merge(heads))
