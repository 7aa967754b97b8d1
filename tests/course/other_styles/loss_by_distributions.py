import torch
from torch.nn import functional as F


def label_smoothed_loss(logits, labels, smoothing, pad_id):
    size = logits.size(-1)
    wanted = torch.full_like(logits, smoothing / (size - 1))
    wanted.scatter_(-1, labels.unsqueeze(-1), 1 - smoothing)
    keep = labels.ne(pad_id)
    loss = F.cross_entropy(logits[keep], wanted[keep], reduction="sum")
    return loss, keep.sum()
