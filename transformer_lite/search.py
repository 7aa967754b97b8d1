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


@runtime_checkable
class SearchState(Protocol):
    """What a model remembers from one token to the next."""

    def reorder(self, beams: Int[Tensor, "batch beams"]) -> "SearchState":
        """The state in which beam j of sentence i continues old beam beams[i, j]."""

    def keep(self, sentences: Int[Tensor, " kept"]) -> "SearchState":
        """The state of these sentences alone, in this order; it uses up this one."""


Step = Callable[[Tensor, Any], tuple[Tensor, Any]]
"""`step(last_ids, state)` takes each beam's newest token, batch × beams, and returns
logits for the token after it, batch × beams × vocab, and the next `SearchState`."""


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


@torch.inference_mode()
def greedy_search(
    step: Step,
    state: SearchState,
    max_lengths: Int[Tensor, " batch"],
    bos_id: int,
    eos_id: int,
) -> list[Hypothesis]:
    """For each sentence the output that takes the likeliest token every time.

    Args:
        step: Scores the next token.
        state: The state before the first token, with one beam a sentence; the search
            uses it up.
        max_lengths: Most tokens of each output, EOS included, which is always last.
        bos_id: The token before the first.
        eos_id: The token that ends an output.

    Raises:
        ValueError: A sentence may have no token at all.
    """
    _require_room(max_lengths)
    outputs: list[list[int]] = [[] for _ in max_lengths]
    log_probs = [0.0] * len(outputs)
    sentences = torch.arange(len(outputs), device=max_lengths.device)
    last_ids = torch.full_like(sentences, bos_id)[:, None]
    length = 0
    while len(sentences):
        length += 1
        logits, state = step(last_ids, state)
        next_log_probs = logits[:, 0].float().log_softmax(dim=-1)
        at_limit = max_lengths[sentences] == length
        chosen = next_log_probs.argmax(dim=-1).masked_fill(at_limit, eos_id)
        gains = next_log_probs.gather(1, chosen[:, None])[:, 0]
        for sentence, token, gain in zip(
            sentences.tolist(), chosen.tolist(), gains.tolist(), strict=True
        ):
            outputs[sentence].append(token)
            log_probs[sentence] += gain
        rows = _without_gaps((chosen != eos_id).nonzero()[:, 0].tolist(), chosen.device)
        if len(rows) < len(sentences):
            state, sentences = state.keep(rows), sentences[rows]
        last_ids = chosen[rows, None]
    return [
        Hypothesis(ids[:-1], log_prob, log_prob)
        for ids, log_prob in zip(outputs, log_probs, strict=True)
    ]


def _require_room(max_lengths: Int[Tensor, " batch"]) -> None:
    if (max_lengths < 1).any():
        raise ValueError(
            f"max_lengths = {max_lengths.tolist()} leaves no room for EOS; "
            "give each sentence at least 1"
        )


class _Candidates(NamedTuple):
    """The best continuations of each sentence's beams, the best one first."""

    log_probs: Float[Tensor, "batch candidates"]
    beams: Int[Tensor, "batch candidates"]
    """Which beam each continues."""
    tokens: Int[Tensor, "batch candidates"]
    """With which token."""


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
    Those that end in EOS are finished. A sentence is done, and leaves the batch,
    when `beam_size` outputs are finished or no unfinished one can still win.

    Args:
        step: Scores the next token.
        state: The state before the first token, with one beam a sentence; the search
            uses it up.
        max_lengths: Most tokens of each output, EOS included, which is always last.
        bos_id: The token before the first.
        eos_id: The token that ends an output.
        beam_size: Outputs kept at every step; 1 is greedy search.
        alpha: Exponent of the length penalty.

    Raises:
        ValueError: A sentence may have no token at all.
    """
    _require_room(max_lengths)
    finished: list[list[Hypothesis]] = [[] for _ in max_lengths]
    sentences = torch.arange(len(finished), device=max_lengths.device)
    ids = torch.full_like(sentences, bos_id)[:, None, None]  # batch × beams × length
    log_probs = torch.zeros_like(sentences, dtype=torch.float)[:, None]
    while len(sentences):
        logits, state = step(ids[:, :, -1], state)
        length = ids.size(2)
        must_end = max_lengths[sentences] == length
        candidates = _best_continuations(
            log_probs, logits, must_end, eos_id, 2 * beam_size
        )
        ends = candidates.tokens == eos_id
        outputs = [finished[sentence] for sentence in sentences.tolist()]
        for row, output in _finishing(candidates, ends, ids, beam_size, alpha):
            outputs[row].append(output)

        # Of twice as many candidates at most half can be EOS: enough go on.
        log_probs, going_on = candidates.log_probs.masked_fill(ends, -math.inf).topk(
            min(beam_size, ends.size(1))
        )
        beams = candidates.beams.gather(1, going_on)
        tokens = candidates.tokens.gather(1, going_on)
        past = ids.gather(1, beams[:, :, None].expand(-1, -1, length))
        ids = torch.cat([past, tokens[:, :, None]], dim=2)
        state = state.reorder(beams)

        open_rows = _still_open(
            outputs,
            log_probs[:, 0].tolist(),
            [length_penalty(n, alpha) for n in max_lengths[sentences].tolist()],
            beam_size,
        )
        if len(open_rows) < len(sentences):
            rows = _without_gaps(open_rows, ids.device)
            state = state.keep(rows)
            sentences, ids, log_probs = sentences[rows], ids[rows], log_probs[rows]
    return [_best(outputs) for outputs in finished]


def _best_continuations(
    log_probs: Float[Tensor, "batch beams"],
    logits: Float[Tensor, "batch beams vocab"],
    must_end: Tensor,
    eos_id: int,
    number: int,
) -> _Candidates:
    """The likeliest ways to continue any beam of a sentence by one token."""
    next_log_probs = logits.float().log_softmax(dim=-1)
    # Deviation D10: at the longest length allowed an output has to end, so that every
    # hypothesis is a whole one and its score is the model's own.
    if must_end.any():
        not_eos = torch.arange(logits.size(-1), device=logits.device) != eos_id
        forbidden = must_end[:, None, None] & not_eos
        next_log_probs = next_log_probs.masked_fill(forbidden, -math.inf)
    # The best lie in the blocks whose maxima are the best, so that few blocks have to
    # be searched. On CPUs that is faster than `topk` on all, where the vocabulary has
    # blocks of 8 tokens or more; of a multiple of 32 it takes a third of the time.
    vocab = logits.size(-1)
    block = math.gcd(vocab, 32)
    blocks = next_log_probs.unflatten(-1, (-1, block))
    maxima = (log_probs[:, :, None] + blocks.amax(dim=-1)).flatten(1)
    chosen = maxima.topk(min(number, maxima.size(1))).indices
    inside = blocks.flatten(1, 2).gather(1, chosen[..., None].expand(-1, -1, block))
    before = log_probs.gather(1, chosen // (vocab // block))
    extended = (before[:, :, None] + inside).flatten(1)
    best, index = extended.topk(min(number, extended.size(1)))
    place = chosen.gather(1, index // block) * block + index % block
    return _Candidates(best, place // vocab, place % vocab)


def _finishing(
    candidates: _Candidates,
    ends: Bool[Tensor, "batch candidates"],
    ids: Int[Tensor, "batch beams length"],
    beam_size: int,
    alpha: float,
) -> list[tuple[int, Hypothesis]]:
    """The candidates that end and are among the best `beam_size`, with their rows."""
    possible = ends & candidates.log_probs.isfinite()
    rows, ranks = possible[:, :beam_size].nonzero(as_tuple=True)
    outputs = ids[rows, candidates.beams[rows, ranks], 1:].tolist()
    log_probs = candidates.log_probs[rows, ranks].tolist()
    penalty = length_penalty(ids.size(2), alpha)
    return [
        (row, Hypothesis(output, log_prob, log_prob / penalty))
        for row, output, log_prob in zip(rows.tolist(), outputs, log_probs, strict=True)
    ]


def _without_gaps(open_rows: list[int], device: torch.device) -> Int[Tensor, " open"]:
    """The same rows in the order in which the fewest have to be moved.

    The last of them take the places of those that are done.
    """
    staying = set(open_rows)
    last = [row for row in open_rows if row >= len(open_rows)]
    rows = [row if row in staying else last.pop() for row in range(len(open_rows))]
    return torch.tensor(rows, dtype=torch.long, device=device)


def _best(outputs: list[Hypothesis]) -> Hypothesis:
    if not outputs:
        raise ValueError("no output can end: the model's scores are not numbers")
    return max(outputs, key=lambda output: output.score)


def _still_open(
    finished: list[list[Hypothesis]],
    best_unfinished: list[float],
    largest_penalty: list[float],
    beam_size: int,
) -> list[int]:
    """The rows in which an unfinished output may still become the best.

    Its log-probability can only fall, and at best it is divided by the penalty of
    the longest output allowed.
    """
    return [
        row
        for row, outputs in enumerate(finished)
        if len(outputs) < beam_size
        and max((output.score for output in outputs), default=-math.inf)
        < best_unfinished[row] / largest_penalty[row]
    ]
