import math

import torch


def scaled_dot_product_attention(query, key, value, mask=None):
    *batch, q_len, d_k = query.shape
    k_len = key.shape[-2]
    scores = torch.empty(*batch, q_len, k_len, dtype=query.dtype)
    for i in range(q_len):
        for j in range(k_len):
            scores[..., i, j] = (query[..., i, :] * key[..., j, :]).sum(-1)
    scores /= math.sqrt(d_k)
    if mask is not None:
        scores[~mask.expand(scores.shape)] = float("-inf")
    largest = scores.max(dim=-1, keepdim=True).values
    weights = torch.exp(scores - largest)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return torch.matmul(weights, value), weights
