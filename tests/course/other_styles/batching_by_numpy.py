import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence


def pad(rows, pad_id):
    rows = [torch.tensor(row, dtype=torch.long) for row in rows]
    return pad_sequence(rows, batch_first=True, padding_value=pad_id)


def teacher_forcing(targets, bos_id, eos_id, pad_id):
    read = pad([[bos_id, *list(target)] for target in targets], pad_id)
    return read, pad([[*list(target), eos_id] for target in targets], pad_id)


def token_batches(lengths, batch_tokens, seed):
    lengths = np.asarray(lengths)
    random = np.random.default_rng(seed)
    noise = random.random(len(lengths))
    order, batches, start = np.lexsort((noise, -lengths)), [], 0
    while start < len(order):
        size = max(1, batch_tokens // lengths[order[start]])
        batches.append(order[start : start + size])
        start += size
    return [batches[i] for i in random.permutation(len(batches))]
