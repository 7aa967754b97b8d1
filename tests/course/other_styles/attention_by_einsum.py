import torch


def scaled_dot_product_attention(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        nothing = torch.zeros((), dtype=scores.dtype)
        scores = scores + torch.where(mask, nothing, nothing - torch.inf)
    weights = torch.exp(scores - scores.logsumexp(-1, keepdim=True))
    return torch.einsum("...qk,...kd->...qd", weights, value), weights
