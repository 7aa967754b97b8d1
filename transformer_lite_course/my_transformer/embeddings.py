"""The embedding that is also the output layer (Section 3.4).

Chapter: https://transformer-lite.github.io/transformer-lite/notebooks/03_4_embeddings_and_softmax.html
"""

from torch import Tensor, nn


class Embedding(nn.Module):
    """One matrix, `weight`, that embeds tokens and, transposed, scores them.

    Draw its entries from a normal distribution with variance 1 / d_model.

    Args:
        vocab_size: Rows of the matrix.
        d_model: Its columns.
    """

    def __init__(self, vocab_size: int, d_model: int) -> None:
        super().__init__()
        raise NotImplementedError

    def forward(self, ids: Tensor) -> Tensor:
        """Return the tokens' rows, times √d_model: batch × len × d_model."""
        raise NotImplementedError

    def logits(self, hidden: Tensor) -> Tensor:
        """Return a score for every token, before the softmax: … × vocab_size."""
        raise NotImplementedError
