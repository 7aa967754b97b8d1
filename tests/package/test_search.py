"""Greedy and beam search: against brute force, and on a Transformer."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import BOS as CHAIN_BOS
from oracles import EOS as CHAIN_EOS
from oracles import MarkovChain

from transformer_lite.config import ModelConfig
from transformer_lite.model import Transformer
from transformer_lite.search import (
    beam_search,
    length_penalty,
    top_extensions,
)
from transformer_lite.tokenizer import BOS, EOS, PAD

ALL_OUTPUTS = 200  # more than the 121 outputs of at most 5 tokens

examples = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)
max_lengths = st.lists(st.integers(1, 7), min_size=1, max_size=5)


def begin(chain, lengths):
    """The first arguments of a search."""
    return chain.step, chain.start(), torch.tensor(lengths), CHAIN_BOS, CHAIN_EOS


def search_chain(chain, lengths, *beam):
    return [best for (best,) in beam_search(*begin(chain, lengths), *beam)]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("max_length", [1, 2, 5])
def test_a_beam_for_all_outputs_finds_the_best_of_all(max_length, alpha):
    chain = MarkovChain(sentences=3, seed=1)
    found = search_chain(chain, [max_length] * 3, ALL_OUTPUTS, alpha)
    for sentence, hypothesis in enumerate(found):
        best = chain.best_output(
            sentence, max_length, lambda log_prob, n: log_prob / ((5 + n) / 6) ** alpha
        )
        assert hypothesis.ids == best


@examples
@given(seeds, max_lengths, st.integers(1, 5), st.sampled_from([0.0, 0.6, 2.0]))
def test_a_small_beam_finds_what_the_definition_finds(seed, lengths, beam_size, alpha):
    chain = MarkovChain(len(lengths), seed)
    found = search_chain(chain, lengths, beam_size, alpha)
    for sentence, (hypothesis, limit) in enumerate(zip(found, lengths, strict=True)):
        ids, score = chain.beam_search_by_lists(
            sentence, limit, beam_size, lambda n: ((5 + n) / 6) ** alpha
        )
        assert hypothesis.ids == ids
        assert hypothesis.score == pytest.approx(score, abs=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 2.0])
@pytest.mark.parametrize("n_best", [1, 2, 5, 40])
def test_a_beam_for_all_outputs_finds_the_n_best_of_all(n_best, alpha):
    chain, longest = MarkovChain(sentences=3, seed=1), 4
    given = begin(chain, [longest] * 3)
    outputs = beam_search(*given, ALL_OUTPUTS, alpha, n_best=n_best)
    for sentence, best in enumerate(outputs):
        scores = [
            chain.log_prob(sentence, ids) / ((5 + len(ids) + 1) / 6) ** alpha
            for length in range(longest)
            for ids in product(chain.words, repeat=length)
        ]
        expected = sorted(scores, reverse=True)[:n_best]  # there are 40
        assert [output.score for output in best] == pytest.approx(expected, abs=1e-4)
        for ids, log_prob, _ in best:
            assert log_prob == pytest.approx(chain.log_prob(sentence, ids), abs=1e-4)


@pytest.mark.parametrize("n_best", [0, 3])
def test_more_outputs_than_beams_are_refused(n_best):
    given = begin(MarkovChain(sentences=1, seed=1), [4])
    with pytest.raises(ValueError, match=f"n_best = {n_best} is impossible; give 1 to"):
        beam_search(*given, 2, 0.6, n_best=n_best)


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_sentence_that_is_done_finds_nothing_more_in_its_batch(beam_size):
    # Four of forty end early: too few to leave. With α = 10 a longer output would win.
    chain = MarkovChain(sentences=40, seed=1)
    chain.table[4:, ..., CHAIN_EOS] = -20.0
    for sentence, found in enumerate(search_chain(chain, 40 * [8], beam_size, 10.0)):
        ids, _ = chain.beam_search_by_lists(
            sentence, 8, beam_size, lambda n: ((5 + n) / 6) ** 10
        )
        assert found.ids == ids


@examples
@given(seeds, st.integers(1, 5), st.sampled_from([3, 97]), st.integers(1, 12))
def test_the_best_extensions_are_the_best_of_all(seed, beams, vocab, k):
    torch.manual_seed(seed)
    before, gains = torch.randn(3, beams), torch.randn(3, beams, vocab)
    found = [part.tolist() for part in top_extensions(before, gains, k)]
    for sentence in range(3):
        sums = (before[sentence, :, None] + gains[sentence]).tolist()
        extensions = [
            (sums[beam][token], beam, token)
            for beam, token in product(range(beams), range(vocab))
        ]
        best = list(zip(*(part[sentence] for part in found), strict=True))
        assert best == sorted(extensions, reverse=True)[:k]


@examples
@given(seeds, max_lengths)
def test_greedy_search_takes_the_likeliest_token_every_time(seed, lengths):
    chain = MarkovChain(len(lengths), seed)
    for sentence, found in enumerate(search_chain(chain, lengths)):
        before, last, expected = CHAIN_BOS, CHAIN_BOS, []
        while len(expected) < lengths[sentence] - 1:
            token = chain.table[sentence, before, last].argmax().item()
            if token == CHAIN_EOS:
                break
            expected.append(token)
            before, last = last, token
        assert found.ids == expected


def test_an_output_that_ends_leaves_its_place_to_an_unfinished_one():
    """The third likeliest start, kept because the likeliest is an end, wins."""
    chain = MarkovChain(sentences=1, seed=5)
    end, first, second, third = 0.4, 0.34, 0.25, 0.01
    starts = torch.tensor([0, end, first, second, third]).log()
    chain.table[0, CHAIN_BOS, CHAIN_BOS] = starts
    chain.table[0, CHAIN_BOS, 2] = torch.tensor([-math.inf, 0.0, 0.0, 0.0, 0.0])
    chain.table[0, CHAIN_BOS, 3] = torch.tensor([-math.inf, 9.0, 0.0, 0.0, 0.0])
    assert search_chain(chain, [2], 2, 3.0)[0].ids == [3]


def test_sentences_that_are_done_leave_the_batch():
    chain = MarkovChain(sentences=20, seed=4)
    chain.table[..., CHAIN_EOS] = -20.0
    search_chain(chain, [2] * 10 + [9] * 10)
    assert chain.batch_sizes == [20] * 2 + [10] * 7


@pytest.mark.parametrize("beam_size", [1, 2])
@pytest.mark.parametrize("broken", [math.nan, -math.inf])
@pytest.mark.parametrize("at", [0, 2])
def test_scores_that_are_no_numbers_are_refused(broken, at, beam_size):
    """From the second or the fourth token on."""
    chain, steps = MarkovChain(sentences=2, seed=4), []
    chain.table[..., CHAIN_EOS] -= 30

    def step(last_ids, state):
        logits, state = chain.step(last_ids, state)
        steps.append(1)
        return (logits if len(steps) <= at else torch.full_like(logits, broken)), state

    with pytest.raises(ValueError, match="not numbers"):
        beam_search(step, *begin(chain, [6, 6])[1:], beam_size, 0.6)


def test_a_length_without_room_for_eos_is_refused():
    with pytest.raises(ValueError, match="beam_size = 0 keeps no output"):
        search_chain(MarkovChain(sentences=1, seed=1), [3], 0, 0.6)
    with pytest.raises(ValueError, match="leaves no room for EOS; give"):
        search_chain(MarkovChain(sentences=2, seed=1), [3, 0], 2, 0.6)


def test_a_search_ends_when_no_unfinished_output_can_win():
    chain = MarkovChain(sentences=1, seed=7)
    chain.table[..., CHAIN_EOS] += 9  # the empty output has nearly all probability
    assert search_chain(chain, [50], 4, 0.6)[0].ids == []
    assert len(chain.batch_sizes) <= 2


def test_a_search_ends_when_as_many_outputs_as_beams_are_finished():
    """Even where a longer output would win by a large alpha."""
    chain = MarkovChain(sentences=1, seed=8)
    chain.table[..., 1:] = 0
    chain.table[..., CHAIN_EOS] = 0.1
    assert search_chain(chain, [5], 1, 9.0)[0].ids == []
    assert chain.batch_sizes == [1]


SRC = torch.tensor([[5, 7, 11, 6, EOS], [8, EOS, PAD, PAD, PAD], [10, 9, 4, EOS, PAD]])
LIMITS = [7, 3, 11]


def some_model():
    """A small untrained model that is sure enough of what it says."""
    torch.manual_seed(9)
    shape = {"vocab_size": 13, "num_layers": 2, "d_model": 22, "num_heads": 2}
    model = Transformer(ModelConfig(**shape, d_ff=31, max_len=23)).double().eval()
    with torch.no_grad():
        model.encoder.embedding.weight.mul_(3)
    return model


def rescored(model, src, ids):
    """Log-probability of an output by the whole model at once."""
    src_ids = src[src != PAD][None]
    tgt_ids = torch.tensor([[BOS, *ids]])
    log_probs = model(src_ids, tgt_ids).log_softmax(dim=-1)[0]
    return log_probs.gather(1, torch.tensor([[*ids, EOS]]).T).sum().item()


def search_model(model, src_ids, limits, beam_size=4, alpha=0.6):
    limits = torch.tensor(limits, device=src_ids.device)
    given = (model.decoder.step, model.start(src_ids), limits, BOS, EOS)
    return [best for (best,) in beam_search(*given, beam_size, alpha)]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_log_prob_is_the_models_own_for_the_output(beam_size):
    model = some_model()
    found = search_model(model, SRC, LIMITS, beam_size)
    assert len({tuple(hypothesis.ids) for hypothesis in found}) == 3  # none is trivial
    for src, hypothesis in zip(SRC, found, strict=True):
        log_prob = rescored(model, src, hypothesis.ids)
        penalty = length_penalty(len(hypothesis.ids) + 1, 0.6)
        assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-4)
        assert hypothesis.score == pytest.approx(log_prob / penalty, abs=1e-4)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_search_leaves_the_state_that_it_began_in_as_it_was(beam_size):
    model, limits = some_model(), torch.tensor(LIMITS)
    given = (model.decoder.step, model.start(SRC), limits, BOS, EOS, beam_size, 0.6)
    assert beam_search(*given) == beam_search(*given)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_finds_outputs_that_are_about_as_likely(dtype):
    model = some_model().float()
    expected = search_model(model, SRC, LIMITS)
    with torch.autocast("cuda", dtype=dtype):
        found = search_model(model.cuda(), SRC.cuda(), LIMITS)
    for output, best in zip(found, expected, strict=True):
        assert output.score == pytest.approx(best.score, abs=0.2)
