"""The label-smoothed cross-entropy (Section 5.4).

Chapter: https://transformer-lite.github.io/transformer-lite/notebooks/05_4_regularization.html
"""

from torch import Tensor


def label_smoothed_loss(
    logits: Tensor, labels: Tensor, smoothing: float, pad_id: int
) -> tuple[Tensor, Tensor]:
    """Return the sum of the losses of all real labels, and their number.

    The target distribution gives 1 − ε to the right token and ε / (V − 1) to each of
    the V − 1 others.

    Args:
        logits: A score for every token of the vocabulary, batch × len × V.
        labels: The right tokens, batch × len.
        smoothing: ε.
        pad_id: Labels with this id do not count.
    """
    raise NotImplementedError
