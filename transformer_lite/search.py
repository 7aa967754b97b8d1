"""Greedy search and beam search, which know nothing of any model.

The model enters as a callable that scores the next token, so the same functions
search a Transformer and a Markov chain of three words.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/test_search.py
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

DONE_SHARE = 8
"""Sentences leave the batch when one in so many is done."""


@runtime_checkable
class SearchState(Protocol):
    """What a model remembers from one token to the next."""

    def reorder(self, beams: Int[Tensor, "batch beams"]) -> "SearchState":
        """The state in which beam j of sentence i continues old beam beams[i, j]."""

    def keep(self, sentences: Int[Tensor, " kept"]) -> "SearchState":
        """The state of these sentences alone, in this order."""


Step = Callable[[Tensor, Any], tuple[Tensor, Any]]
"""`step(last_ids, state)` takes each beam's newest token, batch × beams, and returns
logits for the token after it, batch × beams × vocab, and the next `SearchState`. It
leaves the state that it was given as it is."""


class Hypothesis(NamedTuple):
    """A finished output sequence."""

    ids: list[int]
    """Its tokens, without BOS and EOS."""
    log_prob: float
    """Its log-probability in nats, that of EOS included."""
    score: float
    """The log-probability over the length penalty: what the search maximizes."""


def length_penalty(length: int, alpha: float) -> float:
    """What a log-probability is divided by: ((5 + length) / 6)^α.

    Equation 14 of Wu et al. (2016). The length counts EOS. A larger α favours longer
    outputs; with α = 0 there is no penalty.

    >>> length_penalty(1, alpha=0.6)
    1.0
    >>> round(length_penalty(25, alpha=0.6), 3)
    2.627
    """
    return ((5 + length) / 6) ** alpha


class _Finished:
    """The best finished output of each sentence, held on the search's device.

    Nothing is read from there before the end: to read from a GPU is to wait for it.

    Args:
        max_lengths: Most tokens of each output, EOS included.
        alpha: Exponent of the length penalty.
    """

    def __init__(self, max_lengths: Int[Tensor, " batch"], alpha: float) -> None:
        self.alpha = alpha
        self.limits = limits = max_lengths.tolist()
        if min(limits, default=1) < 1:
            raise ValueError(
                f"max_lengths = {limits} leaves no room for EOS; "
                "give each sentence at least 1"
            )
        self.longest = max(limits, default=0)
        self.ids = max_lengths.new_zeros(len(limits), self.longest)
        self.lengths = max_lengths.new_zeros(len(limits))
        self.log_probs = torch.full(
            (len(limits),), -math.inf, dtype=torch.double, device=max_lengths.device
        )
        self.scores = self.log_probs.clone()
        penalties = [length_penalty(limit, alpha) for limit in limits]
        self.largest_penalties = self.log_probs.new_tensor(penalties)

    def offer(
        self,
        sentences: Int[Tensor, " rows"],
        ids: Int[Tensor, "rows length"],
        log_probs: Float[Tensor, " rows"],
    ) -> None:
        """Take each sentence's output if its score is the best so far.

        Args:
            sentences: Whose outputs they are.
            ids: BOS and the tokens after it, EOS left out.
            log_probs: Of the outputs with their EOS; −∞ where none has ended.
        """
        length = ids.size(1)
        log_probs = log_probs.double()
        scores = log_probs / length_penalty(length, self.alpha)
        better = scores > self.scores[sentences]
        for held, new in (
            (self.scores, scores),
            (self.log_probs, log_probs),
            (self.lengths, torch.full_like(sentences, length)),
            (self.ids[:, :length], ids),
        ):
            choice = better if new.dim() == 1 else better[:, None]
            held[sentences] = torch.where(choice, new, held[sentences])

    def can_be_beaten(
        self, sentences: Int[Tensor, " rows"], log_probs: Float[Tensor, " rows"]
    ) -> Bool[Tensor, " rows"]:
        """Whether an unfinished output of each sentence may still become its best.

        It can only become less likely, and at best its log-probability is divided by
        the penalty of the longest output allowed.
        """
        at_best = log_probs.double() / self.largest_penalties[sentences]
        return self.scores[sentences] < at_best

    def hypotheses(self) -> list[Hypothesis]:
        """The best output of each sentence.

        Raises:
            ValueError: A sentence has none, because its scores are not numbers.
        """
        outputs = zip(
            self.ids.tolist(),
            self.lengths.tolist(),
            self.log_probs.tolist(),
            self.scores.tolist(),
            strict=True,
        )
        found = [Hypothesis(ids[1:n], *scores) for ids, n, *scores in outputs]
        if not all(math.isfinite(output.log_prob) for output in found):
            raise ValueError("no output can end: the model's scores are not numbers")
        return found


@torch.inference_mode()
def greedy_search(
    step: Step,
    state: SearchState,
    max_lengths: Int[Tensor, " batch"],
    bos_id: int,
    eos_id: int,
    alpha: float = 0.0,
) -> list[Hypothesis]:
    """For each sentence the output that takes the likeliest token every time.

    Args:
        step: Scores the next token.
        state: The state before the first token, with one beam a sentence.
        max_lengths: Most tokens of each output, EOS included, which is always last.
        bos_id: The token before the first.
        eos_id: The token that ends an output.
        alpha: Exponent of the length penalty, which changes the scores alone.

    Raises:
        ValueError: A sentence may have no token at all, or the model's scores are
            not numbers.
    """
    finished = _Finished(max_lengths, alpha)
    sentences = torch.arange(len(max_lengths), device=max_lengths.device)
    is_open = torch.ones_like(sentences, dtype=torch.bool)
    ids = torch.full_like(sentences, bos_id)[:, None]
    log_probs = torch.zeros_like(sentences, dtype=torch.float)
    while len(sentences):
        logits, state = step(ids[:, -1:], state)
        length = ids.size(1)
        next_log_probs = logits[:, 0].float().log_softmax(dim=-1)
        must_end = max_lengths[sentences] == length
        tokens = next_log_probs.argmax(dim=-1).masked_fill(must_end, eos_id)
        log_probs = log_probs + next_log_probs.gather(1, tokens[:, None])[:, 0]
        ends = is_open & (tokens == eos_id)
        finished.offer(sentences, ids, log_probs.masked_fill(~ends, -math.inf))
        is_open = is_open & ~ends
        ids = torch.cat([ids, tokens[:, None]], dim=1)

        rows = _rows_that_stay(is_open, length, finished.longest)
        if rows is not None:
            state = state.keep(rows)
            sentences, is_open = sentences[rows], is_open[rows]
            ids, log_probs = ids[rows], log_probs[rows]
    return finished.hypotheses()


@torch.inference_mode()
def beam_search(
    step: Step,
    state: SearchState,
    max_lengths: Int[Tensor, " batch"],
    bos_id: int,
    eos_id: int,
    beam_size: int,
    alpha: float,
) -> list[Hypothesis]:
    """For each sentence the output of the highest score that the search meets.

    At every step each sentence keeps its `beam_size` likeliest unfinished outputs.
    Those that end in EOS are finished. A sentence is done when `beam_size` outputs
    are finished or no unfinished one can still win.

    Args:
        step: Scores the next token.
        state: The state before the first token, with one beam a sentence.
        max_lengths: Most tokens of each output, EOS included, which is always last.
        bos_id: The token before the first.
        eos_id: The token that ends an output.
        beam_size: Outputs kept at every step; 1 is greedy search.
        alpha: Exponent of the length penalty.

    Raises:
        ValueError: A sentence may have no token at all, or the model's scores are
            not numbers.
    """
    finished = _Finished(max_lengths, alpha)
    sentences = torch.arange(len(max_lengths), device=max_lengths.device)
    is_open = torch.ones_like(sentences, dtype=torch.bool)
    num_finished = torch.zeros_like(sentences)
    ids = torch.full_like(sentences, bos_id)[:, None, None]  # batch × beams × length
    log_probs = torch.zeros_like(sentences, dtype=torch.float)[:, None]
    while len(sentences):
        logits, state = step(ids[:, :, -1], state)
        length = ids.size(2)
        next_log_probs = logits.float().log_softmax(dim=-1)
        if length in finished.limits:
            must_end = max_lengths[sentences] == length
            next_log_probs = _with_forced_ends(next_log_probs, must_end, eos_id)
        best, beams, tokens = top_k_by_blocks(log_probs, next_log_probs, 2 * beam_size)
        is_end = tokens == eos_id

        # Of the best `beam_size` those that end are finished. They are of one length,
        # so that the likeliest of them has the best score.
        ends = (is_end & (best > -math.inf) & is_open[:, None])[:, :beam_size]
        num_finished = num_finished + ends.sum(dim=1)
        ended, rank = best[:, :beam_size].masked_fill(~ends, -math.inf).max(dim=1)
        output = _of_beams(ids, beams.gather(1, rank[:, None]))[:, 0]
        finished.offer(sentences, output, ended)

        # Of twice as many candidates at most half can be EOS: enough go on.
        number = min(beam_size, is_end.size(1))
        log_probs, going_on = best.masked_fill(is_end, -math.inf).topk(number)
        beams, tokens = beams.gather(1, going_on), tokens.gather(1, going_on)
        ids = torch.cat([_of_beams(ids, beams), tokens[:, :, None]], dim=2)
        state = state.reorder(beams)

        # Deviation D13: a sentence is done as soon as so many outputs are finished.
        is_open = is_open & (num_finished < beam_size)
        is_open = is_open & finished.can_be_beaten(sentences, log_probs[:, 0])
        rows = _rows_that_stay(is_open, length, finished.longest)
        if rows is not None:
            state = state.keep(rows)
            held = sentences, is_open, num_finished, ids, log_probs
            sentences, is_open, num_finished, ids, log_probs = (x[rows] for x in held)
    return finished.hypotheses()


def _with_forced_ends(
    next_log_probs: Float[Tensor, "batch beams vocab"],
    must_end: Bool[Tensor, " batch"],
    eos_id: int,
) -> Float[Tensor, "batch beams vocab"]:
    """The same, but that some sentences can only go on with EOS."""
    # Deviation D10: at the longest length allowed an output has to end, so that every
    # hypothesis is a whole one and its score is the model's own.
    tokens = torch.arange(next_log_probs.size(-1), device=next_log_probs.device)
    forbidden = must_end[:, None, None] & (tokens != eos_id)
    return next_log_probs.masked_fill(forbidden, -math.inf)


def top_k_by_blocks(
    before: Float[Tensor, "batch beams"],
    gains: Float[Tensor, "batch beams vocab"],
    k: int,
) -> tuple[Float[Tensor, "batch k"], Int[Tensor, "batch k"], Int[Tensor, "batch k"]]:
    """The k largest before[i, j] + gains[i, j, v] of each i, with their j and v.

    The k largest numbers lie in the k blocks with the largest maxima, so that only
    these blocks are searched. On CPUs that is faster than `topk` on all numbers where
    the vocabulary has blocks of 8 tokens or more; of a multiple of 32 it takes a third
    of the time. Of fewer than k numbers there are all.
    """
    vocab = gains.size(-1)
    block = math.gcd(vocab, 32)
    blocks = gains.unflatten(-1, (-1, block))
    maxima = (before[:, :, None] + blocks.amax(dim=-1)).flatten(1)
    chosen = maxima.topk(min(k, maxima.size(1))).indices
    inside = blocks.flatten(1, 2).gather(1, chosen[..., None].expand(-1, -1, block))
    extended = before.gather(1, chosen // (vocab // block))[:, :, None] + inside
    best, index = extended.flatten(1).topk(min(k, extended[0].numel()))
    place = chosen.gather(1, index // block) * block + index % block
    return best, place // vocab, place % vocab


def _of_beams(
    ids: Int[Tensor, "batch beams length"], beams: Int[Tensor, "batch kept"]
) -> Int[Tensor, "batch kept length"]:
    """The ids of these beams."""
    return ids.gather(1, beams[:, :, None].expand(-1, -1, ids.size(2)))


def _rows_that_stay(
    is_open: Bool[Tensor, " batch"], length: int, longest: int
) -> Int[Tensor, " open"] | None:
    """The rows that are not done; None while too few are done to move the others.

    What a state holds of the sentences is copied when some leave, so that they leave
    several at a time.
    """
    if length % _steps_between_looks(is_open.device) and length < longest:
        return None
    rows = is_open.nonzero()[:, 0]
    return rows if DONE_SHARE * (len(is_open) - len(rows)) >= len(is_open) else None


def _steps_between_looks(device: torch.device) -> int:
    """After how many steps the host asks the device which sentences are done.

    A GPU works behind the host, so that an answer means to wait for it.
    """
    return 1 if device.type == "cpu" else 4
