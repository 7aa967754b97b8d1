"""The sinusoidal positional encoding (Section 3.5).

Chapter: https://transformer-lite.github.io/transformer-lite/notebooks/03_5_positional_encoding.html
"""

from torch import Tensor


def sinusoidal_encoding(length: int, d_model: int) -> Tensor:
    """Return a row of sines and cosines for each position from 0: length × d_model.

    PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), and PE(pos, 2i+1) is the cosine of the
    same angle. d_model is even.
    """
    raise NotImplementedError
