from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.inner = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def forward(self, query, memory, mask=None):
        padding = None if mask is None else ~mask[:, 0, 0]
        return self.inner(query, memory, memory, key_padding_mask=padding)[0]

    def keys_and_values(self, memory):
        _, key, value = self.inner.in_proj_weight.chunk(3)
        heads = self.inner.num_heads
        return tuple(
            (memory @ matrix.T).unflatten(-1, (heads, -1)).transpose(1, 2)
            for matrix in (key, value)
        )

    def attend(self, query, projected, mask=None):
        key, value = projected
        matrix = self.inner.in_proj_weight.chunk(3)[0]
        query = (query @ matrix.T).unflatten(-1, (self.inner.num_heads, -1))
        found = nn.functional.scaled_dot_product_attention(
            query.transpose(1, 2), key, value, attn_mask=mask
        )
        return self.inner.out_proj(found.transpose(1, 2).flatten(2))
