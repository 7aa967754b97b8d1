import random

import torch


def pad(rows, pad_id):
    longest = max(len(row) for row in rows)
    return torch.tensor([list(row) + [pad_id] * (longest - len(row)) for row in rows])


def teacher_forcing(targets, bos_id, eos_id, pad_id):
    read = [[bos_id, *target] for target in targets]
    labels = [[*target, eos_id] for target in targets]
    return pad(read, pad_id), pad(labels, pad_id)


def token_batches(lengths, batch_tokens, seed):
    generator = random.Random(seed)
    order = list(range(len(lengths)))
    generator.shuffle(order)
    order.sort(key=lambda number: lengths[number])
    batches, batch = [], []
    for number in order:
        if (len(batch) + 1) * lengths[number] > batch_tokens:
            batches.append(batch)
            batch = []
        batch.append(number)
    batches.append(batch)
    generator.shuffle(batches)
    return batches
