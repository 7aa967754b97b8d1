"""Batches of about equal size in tokens (Section 5.1).

Chapter: https://transformer-lite.github.io/transformer-lite/notebooks/05_1_training_data_and_batching.html
"""

from collections.abc import Sequence

from torch import Tensor


def pad(rows: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Return the rows as one tensor, filled up with `pad_id` at the end."""
    raise NotImplementedError


def teacher_forcing(
    targets: Sequence[Sequence[int]], bos_id: int, eos_id: int, pad_id: int
) -> tuple[Tensor, Tensor]:
    """Return what the decoder reads, and the token that should follow each of these.

    Both are batch × (longest target + 1), padded.

    Args:
        targets: Token ids of each target, without BOS and EOS.
        bos_id: The token before the first.
        eos_id: The token after the last.
        pad_id: The id of padding.
    """
    raise NotImplementedError


def token_batches(
    lengths: Sequence[int], batch_tokens: int, seed: int
) -> list[list[int]]:
    """Return the batches of one epoch, each as the numbers of its sentences.

    Every sentence is in one batch. Sentences of a batch have similar lengths, and the
    batches come in a random order that depends on the seed.

    Args:
        lengths: Length of each sentence.
        batch_tokens: Most tokens of a batch, padding counted.
        seed: Seed of the order.
    """
    raise NotImplementedError
