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


class Beams(NamedTuple):
    """The unfinished outputs of the sentences that are still searched, one a row."""

    sentences: Int[Tensor, " rows"]
    """The number of each row's sentence."""
    ids: Int[Tensor, "rows beams length"]
    """The tokens so far, with BOS."""
    log_probs: Float[Tensor, "rows beams"]
    """The log-probabilities so far; -inf where there is no output."""
    num_finished: Int[Tensor, " rows"]
    """How many outputs of the sentence are finished."""
    best_scores: Float[Tensor, "rows n_best"]
    """The best scores of finished outputs, falling; -inf until there are as many."""

    def keep(self, rows: Int[Tensor, " kept"]) -> "Beams":
        """Return these rows alone."""
        return Beams(*(tensor[rows] for tensor in self))


class Extensions(NamedTuple):
    """Beams with one more token, the likeliest first."""

    log_probs: Float[Tensor, "batch k"]
    beams: Int[Tensor, "batch k"]
    """Which beam is extended."""
    tokens: Int[Tensor, "batch k"]


@torch.inference_mode()
def beam_search(  # noqa: PLR0913
    step: Step,
    state: SearchState,
    max_lengths: Int[Tensor, " batch"],
    bos_id: int,
    eos_id: int,
    beam_size: int = 1,
    alpha: float = 0.0,
    *,
    allowed: Callable[[Any], Tensor] | None = None,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """Search the outputs with the highest scores for each sentence, the best first.

    A beam of 1, the default, is greedy search: it takes the likeliest token every time.
    With a larger one each sentence keeps its `beam_size` likeliest unfinished outputs
    at every step. An output that ends in EOS is finished. A sentence is done when
    `beam_size` outputs are finished, or when no unfinished one can still be among the
    `n_best`.

    Args:
        state: The state before the first token, with one beam for each sentence.
        max_lengths: Most tokens of each output; the last one is EOS and counts.
        beam_size: Unfinished outputs kept at every step.
        alpha: Exponent of the length penalty.
        allowed: Returns which tokens may follow in a state, batch × beams × vocab: at
            least one for each beam, and EOS where an output reaches its longest length.
            It changes no score. By default all may follow.
        n_best: Outputs of each sentence, at most `beam_size`. A sentence has fewer if
            fewer are possible.

    Raises:
        ValueError: `beam_size` or an entry of `max_lengths` is less than 1, `n_best` is
            not between 1 and `beam_size`, the model's scores are not numbers, or
            `allowed` lets no output end.
    """
    if beam_size < 1:
        raise ValueError(f"beam_size = {beam_size} keeps no output; give at least 1")
    if not 1 <= n_best <= beam_size:
        raise ValueError(
            f"n_best = {n_best} is impossible; give 1 to beam_size = {beam_size}"
        )
    limits = max_lengths.tolist()
    if min(limits, default=1) < 1:
        raise ValueError(
            f"max_lengths = {limits} leaves no room for EOS; give each sentence at "
            "least 1"
        )
    outputs: list[list[Hypothesis]] = [[] for _ in limits]
    sentences = torch.arange(len(limits), device=max_lengths.device)
    none_finished = torch.zeros_like(sentences)
    scores = sentences.new_full([len(limits), n_best], -math.inf, dtype=torch.double)
    starts = torch.full_like(sentences, bos_id)[:, None, None]
    certain = none_finished.float()[:, None]
    beams = Beams(sentences, starts, certain, none_finished, scores)
    largest_penalties = scores.new_tensor([length_penalty(n, alpha) for n in limits])
    while len(beams.sentences):
        logits, state = step(beams.ids[:, :, -1], state)
        next_log_probs = logits.float().log_softmax(dim=-1)
        if allowed:
            next_log_probs = next_log_probs.masked_fill(~allowed(state), -math.inf)
        length = beams.ids.size(2)  # of an output that ends now, with EOS
        if length in limits:
            must_end = max_lengths[beams.sentences] == length
            next_log_probs = _with_forced_ends(next_log_probs, must_end, eos_id)
        best = top_extensions(beams.log_probs, next_log_probs, 2 * beam_size)
        is_end = best.tokens == eos_id
        beams, finished = finish(beams, best, is_end, beam_size, alpha)
        for sentence, output in finished:
            outputs[sentence].append(output)
        beams, extended = extend(beams, best, is_end, beam_size)
        state = state.reorder(extended)

        # Deviation D13: a sentence is done when `beam_size` outputs are finished. An
        # unfinished output gets no likelier, and its best divisor is the largest one.
        at_best = beams.log_probs[:, 0].double() / largest_penalties[beams.sentences]
        is_open = at_best > beams.best_scores[:, -1]
        is_open &= beams.num_finished < beam_size
        if int((~is_open).sum()) >= DONE_SHARE * len(is_open):
            rows = is_open.nonzero()[:, 0]
            beams, state = beams.keep(rows), state.keep(rows)
    if [] in outputs:
        raise ValueError(
            "no output can end: the model's scores are not numbers, or `allowed` "
            "forbids EOS at the longest length"
        )
    return [sorted(of, key=lambda o: o.score, reverse=True)[:n_best] for of in outputs]


def top_extensions(
    log_probs: Float[Tensor, "batch beams"],
    next_log_probs: Float[Tensor, "batch beams vocab"],
    k: int,
) -> Extensions:
    """Extend each sentence's beams by one token; return the k likeliest, or all."""
    extended = (log_probs[:, :, None] + next_log_probs).flatten(1)
    best, index = extended.topk(min(k, extended.size(1)))
    vocab = next_log_probs.size(-1)
    return Extensions(best, index // vocab, index % vocab)


def finish(
    beams: Beams,
    best: Extensions,
    is_end: Bool[Tensor, "rows k"],
    beam_size: int,
    alpha: float,
) -> tuple[Beams, list[tuple[int, Hypothesis]]]:
    """Finish those of the best `beam_size` extensions that end.

    Returns:
        The beams with the new counts and best scores; and each finished output that is
        among the best so far, with the number of its sentence.
    """
    log_probs, n_best = best.log_probs[:, :beam_size], beams.best_scores.size(1)
    has_room = (beams.num_finished < beam_size)[:, None]
    ends = is_end[:, :beam_size] & (log_probs > -math.inf) & has_room
    # All that end now have the same length, so the likeliest have the best scores.
    ended = log_probs.masked_fill(~ends, -math.inf)
    ended, ranks = ended.topk(min(n_best, ended.size(1)))
    scores = ended.double() / length_penalty(beams.ids.size(2), alpha)
    outputs = []
    for row, place in (scores > beams.best_scores[:, -1:]).nonzero().tolist():
        beam = best.beams[row, ranks[row, place]]
        ids = beams.ids[row, beam, 1:].tolist()
        output = Hypothesis(ids, ended[row, place].item(), scores[row, place].item())
        outputs.append((int(beams.sentences[row]), output))
    best_scores = torch.cat([beams.best_scores, scores], dim=1).topk(n_best).values
    num_finished = beams.num_finished + ends.sum(dim=1)
    return beams._replace(num_finished=num_finished, best_scores=best_scores), outputs


def extend(
    beams: Beams, best: Extensions, is_end: Bool[Tensor, "rows k"], beam_size: int
) -> tuple[Beams, Int[Tensor, "rows beams"]]:
    """Go on with the likeliest extensions that do not end.

    Returns:
        The beams with one token more; and which beams they extend.
    """
    # Each beam has one extension by EOS, so at least half of the candidates go on.
    number = min(beam_size, is_end.size(1))
    log_probs, places = best.log_probs.masked_fill(is_end, -math.inf).topk(number)
    extended, tokens = best.beams.gather(1, places), best.tokens.gather(1, places)
    before = beams.ids.gather(1, extended[:, :, None].expand(-1, -1, beams.ids.size(2)))
    ids = torch.cat([before, tokens[:, :, None]], dim=2)
    return beams._replace(ids=ids, log_probs=log_probs), extended


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
