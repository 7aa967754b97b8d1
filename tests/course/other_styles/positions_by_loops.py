import math

import torch


def sinusoidal_encoding(length, d_model):
    rows = []
    for pos in range(length):
        row = []
        for i in range(d_model // 2):
            angle = pos * math.exp(-2 * i / d_model * math.log(10000))
            row += [math.sin(angle), math.cos(angle)]
        rows.append(row)
    return torch.tensor(rows)
