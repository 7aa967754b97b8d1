"""What enters the first layer: scaled embeddings plus positions.

They belong together: the factor √d_model makes an embedding about as large as the
encoding that is added to it.

Paper: §3.4–3.5
Chapter: 03_4_embeddings_and_softmax, 03_5_positional_encoding, 07_conclusion
Tests: tests/package/test_embeddings.py
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F


def sinusoidal_encoding(
    length: int, d_model: int
) -> Float[Tensor, "{length} {d_model}"]:
    """Return a row of sines and cosines for each position from 0 (Section 3.5).

    PE(pos, 2i) = sin(pos / 10000^(2i/d_model)) and PE(pos, 2i+1) is the cosine of
    the same angle, so the wavelengths run from 2π to nearly 10000·2π.
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    even_channel = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = position / 10_000 ** (even_channel / d_model)
    # Deviation D3: order and angles are the formula's. The authors' code puts all
    # sines first and divides by d_model/2 - 1 where the formula has d_model/2.
    # An odd d_model drops the last cosine.
    encoding = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
    return encoding[:, :d_model].to(torch.get_default_dtype())


class Positions(nn.Module):
    """Adds the row of its position in a table to each embedding (Section 3.5)."""

    encoding: Float[Tensor, "max_len d_model"]

    def forward(
        self, embedded: Float[Tensor, "batch len d_model"], start: int = 0
    ) -> Float[Tensor, "batch len d_model"]:
        """Add the rows of positions start, start + 1, … to the embeddings.

        Raises:
            ValueError: A position lies beyond max_len.
        """
        end, max_len = start + embedded.size(1), self.encoding.size(0)
        if end > max_len:
            raise ValueError(
                f"a sequence of {end} tokens is longer than max_len = {max_len}; "
                "shorten it, or give the model a larger max_len"
            )
        return embedded + self.encoding[start:end]


class SinusoidalPositions(Positions):
    """Positions by the sinusoidal encoding, which has nothing to learn.

    Args:
        max_len: Longest sequence, in tokens.
    """

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        # Not saved with the weights: the formula gives it again.
        self.register_buffer(
            "encoding", sinusoidal_encoding(max_len, d_model), persistent=False
        )


class LearnedPositions(Positions):
    """Positions by a learned vector for each: row (E) of Table 3.

    Args:
        max_len: Longest sequence, in tokens; later positions have no vector.
    """

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.encoding = nn.Parameter(torch.empty(max_len, d_model))
        # As large as the entries of a scaled embedding.
        nn.init.normal_(self.encoding)


POSITIONS = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}


class Embedding(nn.Module):
    """One matrix that embeds tokens and, transposed, scores them (Section 3.4).

    Args:
        vocab_size: Rows of the matrix.
        d_model: Its columns.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        # Deviation D7: times √d_model the entries have variance 1, and as output
        # layer the same matrix gives logits of variance 1 from normalized vectors.
        nn.init.normal_(self.weight, std=d_model**-0.5)

    def forward(
        self, ids: Int[Tensor, "batch len"]
    ) -> Float[Tensor, "batch len d_model"]:
        """Return the tokens' rows, times √d_model."""
        return F.embedding(ids, self.weight) * math.sqrt(self.weight.size(1))

    def logits(
        self, hidden: Float[Tensor, "*batch d_model"]
    ) -> Float[Tensor, "*batch vocab"]:
        """Return a score for every token, by the linear map before the softmax."""
        return F.linear(hidden, self.weight)
