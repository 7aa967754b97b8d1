import torch


def padding_mask(ids, pad_id):
    real = ids != pad_id
    return real[:, None, None, :]


def causal_mask(length):
    return torch.ones(length, length, dtype=torch.bool).tril()
