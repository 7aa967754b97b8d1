import torch


def sinusoidal_encoding(length, d_model):
    position = torch.arange(0, length, dtype=torch.float32)[:, None]
    exponent = torch.arange(0, d_model, 2) / d_model
    angle = position / 10_000**exponent
    encoding = torch.zeros(length, d_model)
    encoding[:, 0::2] = torch.sin(angle)
    encoding[:, 1::2] = torch.cos(angle)
    return encoding
