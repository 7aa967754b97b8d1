"""Greedy search and beam search (Section 6.1).

Chapter: https://transformer-lite.github.io/transformer-lite/notebooks/06_1_machine_translation.html
"""

from collections.abc import Callable

from torch import Tensor

NextLogProbs = Callable[[Tensor], Tensor]
"""Takes the tokens so far of several outputs, outputs × len, each from BOS on; returns
the log-probability of each next token, outputs × vocab."""


def greedy_search(
    next_log_probs: NextLogProbs, bos_id: int, eos_id: int, max_length: int
) -> list[int]:
    """Take the likeliest token every time; return the tokens without BOS and EOS.

    The output ends with EOS, or after `max_length` tokens.
    """
    raise NotImplementedError


def beam_search(
    next_log_probs: NextLogProbs,
    bos_id: int,
    eos_id: int,
    max_length: int,
    beam_size: int,
    alpha: float,
) -> list[int]:
    """Return the finished output with the highest score, without BOS and EOS.

    At every step, extend the `beam_size` likeliest unfinished outputs by every token,
    and keep the `beam_size` likeliest of all extensions. Those that end in EOS are
    finished. Go on until no output is unfinished, or all have `max_length` tokens, EOS
    counted; the last token must be EOS.

    The score is log P / ((5 + length) / 6)^α, where the length counts EOS.
    """
    raise NotImplementedError
