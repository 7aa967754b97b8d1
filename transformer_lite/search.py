"""Greedy search and beam search, independent of the model.

The model enters as a callable that scores the next token, so the same functions
search a Transformer and a Markov chain of three words.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/package/test_search.py
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

DONE_SHARE = 1 / 8
"""Sentences that are done leave the batch as soon as they are this share of it. On a
CPU a search that keeps them to the end takes 1.6 times as long."""


@runtime_checkable
class SearchState(Protocol):
    """What a model keeps from one token to the next."""

    def reorder(self, beams: Int[Tensor, "batch beams"]) -> "SearchState":
        """Return the state in which beam j of sentence i continues beam beams[i, j]."""

    def keep(self, sentences: Int[Tensor, " kept"]) -> "SearchState":
        """Return the state of these sentences alone, in this order."""


Step = Callable[[Tensor, Any], tuple[Tensor, Any]]
"""`step(last_ids, state)` takes the newest token of each beam, batch × beams. It
returns the logits of the next token, batch × beams × vocab, and the next `SearchState`.
It does not change the given state."""


class Hypothesis(NamedTuple):
    """A finished output sequence."""

    ids: list[int]
    """Its tokens, without BOS and EOS."""
    log_prob: float
    """Its log-probability in nats, with that of EOS."""
    score: float
    """The log-probability over the length penalty, which the search maximizes."""


def length_penalty(length: int, alpha: float) -> float:
    """Return the divisor of an output's log-probability: ((5 + length) / 6)^α.

    Equation 14 of Wu et al. (2016). The length counts EOS. A larger α favours longer
    outputs; with α = 0 there is no penalty.

    >>> length_penalty(1, alpha=0.6)
    1.0
    >>> round(length_penalty(25, alpha=0.6), 3)
    2.627
    """
    return ((5 + length) / 6) ** alpha


def greedy_search(
    step: Step,
    state: SearchState,
    max_lengths: Int[Tensor, " batch"],
    bos_id: int,
    eos_id: int,
    alpha: float = 0.0,
) -> list[Hypothesis]:
    """Take the likeliest token every time: beam search with a beam of one.

    Arguments and errors are those of `beam_search`. `alpha` changes only the scores.
    """
    return beam_search(step, state, max_lengths, bos_id, eos_id, 1, alpha)


@torch.inference_mode()
def beam_search(
    step: Step,
    state: SearchState,
    max_lengths: Int[Tensor, " batch"],
    bos_id: int,
    eos_id: int,
    beam_size: int,
    alpha: float,
    allowed: Callable[[Any], Tensor] | None = None,
) -> list[Hypothesis]:
    """Search the output with the highest score for each sentence.

    At every step each sentence keeps its `beam_size` likeliest unfinished outputs. An
    output that ends in EOS is finished. A sentence is done when `beam_size` outputs are
    finished, or when no unfinished one can still get a higher score.

    Args:
        step: Scores the next token.
        state: The state before the first token, with one beam for each sentence.
        max_lengths: Most tokens of each output; the last one is EOS and counts.
        bos_id: The token before the first.
        eos_id: The token that ends an output.
        beam_size: Unfinished outputs kept at every step; 1 is greedy search.
        alpha: Exponent of the length penalty.
        allowed: Returns which tokens may follow in a state, batch × beams × vocab: at
            least one for each beam, and EOS where an output reaches its longest length.
            It changes no score. By default all may follow.

    Raises:
        ValueError: `beam_size` or an entry of `max_lengths` is less than 1, the model's
            scores are not numbers, or `allowed` lets no output end.
    """
    if beam_size < 1:
        raise ValueError(f"beam_size = {beam_size} keeps no output; give at least 1")
    limits = max_lengths.tolist()
    if min(limits, default=1) < 1:
        raise ValueError(
            f"max_lengths = {limits} leaves no room for EOS; give each sentence at "
            "least 1"
        )
    found: list[Hypothesis | None] = [None] * len(limits)
    # One row for each sentence that is still in the batch.
    sentences = torch.arange(len(limits), device=max_lengths.device)
    num_finished = torch.zeros_like(sentences)
    best_scores = torch.full_like(sentences, -math.inf, dtype=torch.double)
    largest_penalties = best_scores.new_tensor(
        [length_penalty(limit, alpha) for limit in limits]
    )
    ids = torch.full_like(sentences, bos_id)[:, None, None]  # rows × beams × length
    log_probs = torch.zeros_like(sentences, dtype=torch.float)[:, None]
    while len(sentences):
        logits, state = step(ids[:, :, -1], state)
        length = ids.size(2)  # of an output that ends now, with EOS
        next_log_probs = logits.float().log_softmax(dim=-1)
        if allowed:
            next_log_probs = next_log_probs.masked_fill(~allowed(state), -math.inf)
        if length in limits:
            must_end = max_lengths[sentences] == length
            next_log_probs = _with_forced_ends(next_log_probs, must_end, eos_id)
        best, beams, tokens = top_extensions(log_probs, next_log_probs, 2 * beam_size)
        is_end = tokens == eos_id

        # Among the best `beam_size`, those that end are finished. All have the same
        # length, so the likeliest of them has the highest score.
        has_room = num_finished < beam_size
        ends = (is_end & (best > -math.inf) & has_room[:, None])[:, :beam_size]
        num_finished = num_finished + ends.sum(dim=1)
        ended, rank = best[:, :beam_size].masked_fill(~ends, -math.inf).max(dim=1)
        scores = ended.double() / length_penalty(length, alpha)
        for row in (scores > best_scores).nonzero()[:, 0].tolist():
            tokens_before = ids[row, beams[row, rank[row]], 1:].tolist()
            found[sentences[row]] = Hypothesis(
                tokens_before, ended[row].item(), scores[row].item()
            )
        best_scores = best_scores.maximum(scores)

        # Each beam has one extension by EOS, so at least half of the candidates go on.
        number = min(beam_size, is_end.size(1))
        log_probs, going_on = best.masked_fill(is_end, -math.inf).topk(number)
        beams, tokens = beams.gather(1, going_on), tokens.gather(1, going_on)
        ids = torch.cat([_of_beams(ids, beams), tokens[:, :, None]], dim=2)
        state = state.reorder(beams)

        # Deviation D13: a sentence is done when `beam_size` outputs are finished. An
        # unfinished output gets no likelier, and its best divisor is the largest one.
        at_best = log_probs[:, 0].double() / largest_penalties[sentences]
        is_open = (num_finished < beam_size) & (at_best > best_scores)
        if int((~is_open).sum()) >= DONE_SHARE * len(is_open):
            rows = is_open.nonzero()[:, 0]
            state = state.keep(rows)
            kept = sentences, num_finished, best_scores, ids, log_probs
            kept = (tensor[rows] for tensor in kept)
            sentences, num_finished, best_scores, ids, log_probs = kept
    if None in found:
        raise ValueError(
            "no output can end: the model's scores are not numbers, or `allowed` "
            "forbids EOS at the longest length"
        )
    return found


def top_extensions(
    log_probs: Float[Tensor, "batch beams"],
    next_log_probs: Float[Tensor, "batch beams vocab"],
    k: int,
) -> tuple[Float[Tensor, "batch k"], Int[Tensor, "batch k"], Int[Tensor, "batch k"]]:
    """Extend each sentence's beams by one token; return the k likeliest extensions.

    The results are their log-probabilities, beams and tokens. Where there are fewer
    than k extensions, all are returned.
    """
    extended = (log_probs[:, :, None] + next_log_probs).flatten(1)
    best, index = extended.topk(min(k, extended.size(1)))
    vocab = next_log_probs.size(-1)
    return best, index // vocab, index % vocab


def _with_forced_ends(
    next_log_probs: Float[Tensor, "batch beams vocab"],
    must_end: Bool[Tensor, " batch"],
    eos_id: int,
) -> Float[Tensor, "batch beams vocab"]:
    """Forbid every token but EOS to sentences that must end."""
    # Deviation D10: an output of the longest allowed length has to end, so that every
    # hypothesis is complete and its score is the model's own.
    tokens = torch.arange(next_log_probs.size(-1), device=next_log_probs.device)
    forbidden = must_end[:, None, None] & (tokens != eos_id)
    return next_log_probs.masked_fill(forbidden, -math.inf)


def _of_beams(
    ids: Int[Tensor, "batch beams length"], beams: Int[Tensor, "batch kept"]
) -> Int[Tensor, "batch kept length"]:
    return ids.gather(1, beams[:, :, None].expand(-1, -1, ids.size(2)))
