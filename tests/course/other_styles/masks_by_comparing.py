import torch


def padding_mask(ids, pad_id):
    return ids.ne(pad_id).unsqueeze(1).unsqueeze(2)


def causal_mask(length):
    place = torch.arange(length)
    return place[None, :] <= place[:, None]
