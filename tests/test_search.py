"""Greedy and beam search: against brute force, and on a Transformer."""

import doctest
import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import BOS as CHAIN_BOS
from oracles import EOS as CHAIN_EOS
from oracles import MarkovChain
from torch import Tensor
from torch.nn import functional as F

from transformer_lite import search
from transformer_lite.config import ModelConfig
from transformer_lite.model import Transformer
from transformer_lite.search import (
    beam_search,
    greedy_search,
    length_penalty,
    top_k_by_blocks,
)
from transformer_lite.tokenizer import BOS, EOS, PAD

ALL_OUTPUTS = 200  # more than the 121 outputs of at most 5 tokens

examples = settings(max_examples=25, deadline=None, derandomize=True)
seeds = st.integers(0, 10_000)
max_lengths = st.lists(st.integers(1, 7), min_size=1, max_size=5)


def search_chain(chain, lengths, beam_size, alpha):
    return beam_search(
        chain.step,
        chain.start(),
        torch.tensor(lengths),
        CHAIN_BOS,
        CHAIN_EOS,
        beam_size,
        alpha,
    )


def search_chain_greedily(chain, lengths):
    return greedy_search(
        chain.step, chain.start(), torch.tensor(lengths), CHAIN_BOS, CHAIN_EOS
    )


def approximately(hypotheses):
    """Hypotheses to compare with others that are rounded differently."""
    return [
        (ids, pytest.approx(log_prob, abs=1e-4), pytest.approx(score, abs=1e-4))
        for ids, log_prob, score in hypotheses
    ]


# On a Markov chain of three words


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("max_length", [1, 2, 5])
def test_a_beam_for_all_outputs_finds_the_best_of_all(max_length, alpha, seed):
    chain = MarkovChain(sentences=2, seed=seed)
    found = search_chain(chain, [max_length] * 2, ALL_OUTPUTS, alpha)
    for sentence, hypothesis in enumerate(found):
        best = chain.best_output(
            sentence, max_length, lambda log_prob, n: log_prob / ((5 + n) / 6) ** alpha
        )
        assert hypothesis.ids == best


@examples
@given(seeds, st.floats(0, 2), st.integers(1, 4))
def test_brute_force_and_search_agree_at_any_alpha(seed, alpha, max_length):
    chain = MarkovChain(sentences=1, seed=seed)
    (found,) = search_chain(chain, [max_length], ALL_OUTPUTS, alpha)

    def score(log_prob, length):
        return log_prob / ((5 + length) / 6) ** alpha

    best = chain.best_output(0, max_length, score)
    best_score = score(chain.log_prob(0, best), len(best) + 1)
    assert found.score == pytest.approx(best_score, abs=1e-4)


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


@examples
@given(seeds, st.integers(1, 5), st.sampled_from([3, 40, 64, 97]), st.integers(1, 12))
def test_the_best_of_the_blocks_are_the_best_of_all(seed, beams, vocab, k):
    torch.manual_seed(seed)
    before, gains = torch.randn(3, beams), torch.randn(3, beams, vocab)
    best, rows, tokens = top_k_by_blocks(before, gains, k)
    numbers = (before[:, :, None] + gains).flatten(1)
    expected, index = numbers.topk(min(k, beams * vocab))
    assert torch.equal(best, expected)
    assert torch.equal(rows * vocab + tokens, index)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(seeds, max_lengths, st.integers(1, 5), st.sampled_from([46, 62, 63]))
def test_a_large_vocabulary_is_searched_as_a_small_one(seed, lengths, beam, words):
    """It is searched by blocks, of 16 or 32 words or, of 65, of one."""
    chain = MarkovChain(len(lengths), seed, words)
    found = search_chain(chain, lengths, beam, 0.6)
    for sentence, (hypothesis, limit) in enumerate(zip(found, lengths, strict=True)):
        ids, _ = chain.beam_search_by_lists(
            sentence, limit, beam, lambda n: ((5 + n) / 6) ** 0.6
        )
        assert hypothesis.ids == ids


@examples
@given(seeds, max_lengths, st.integers(1, 5), st.floats(0, 2))
def test_log_prob_and_score_are_those_of_the_output(seed, lengths, beam_size, alpha):
    chain = MarkovChain(len(lengths), seed)
    for sentence, found in enumerate(search_chain(chain, lengths, beam_size, alpha)):
        log_prob = chain.log_prob(sentence, found.ids)
        penalty = length_penalty(len(found.ids) + 1, alpha)
        assert found.log_prob == pytest.approx(log_prob, abs=1e-4)
        assert found.score == pytest.approx(log_prob / penalty, abs=1e-4)


@examples
@given(seeds, max_lengths)
def test_log_prob_of_greedy_search_is_that_of_the_output(seed, lengths):
    chain = MarkovChain(len(lengths), seed)
    for sentence, found in enumerate(search_chain_greedily(chain, lengths)):
        log_prob = chain.log_prob(sentence, found.ids)
        assert found.log_prob == pytest.approx(log_prob, abs=1e-4)


@examples
@given(seeds, max_lengths)
def test_greedy_search_takes_the_likeliest_token_every_time(seed, lengths):
    chain = MarkovChain(len(lengths), seed)
    for sentence, found in enumerate(search_chain_greedily(chain, lengths)):
        before, last, expected = CHAIN_BOS, CHAIN_BOS, []
        while len(expected) < lengths[sentence] - 1:
            token = chain.table[sentence, before, last].argmax().item()
            if token == CHAIN_EOS:
                break
            expected.append(token)
            before, last = last, token
        assert found.ids == expected


@examples
@given(seeds, max_lengths, st.floats(0, 2))
def test_a_beam_of_one_is_greedy_search(seed, lengths, alpha):
    chain = MarkovChain(len(lengths), seed)
    greedy = search_chain_greedily(chain, lengths)
    beam = search_chain(chain, lengths, 1, alpha)
    assert [found.ids for found in beam] == [found.ids for found in greedy]


@examples
@given(seeds, max_lengths, st.integers(1, 5), st.sampled_from([0.0, 0.6, 2.0]))
def test_a_batch_finds_what_its_sentences_find_alone(seed, lengths, beam_size, alpha):
    chain = MarkovChain(len(lengths), seed)
    alone = []
    for sentence, length in enumerate(lengths):
        single = MarkovChain(1, seed)
        single.table = chain.table[[sentence]]
        alone += search_chain(single, [length], beam_size, alpha)
    together = search_chain(chain, lengths, beam_size, alpha)
    assert [tuple(found) for found in together] == approximately(alone)


@examples
@given(seeds, max_lengths, st.integers(1, 5))
def test_an_output_has_at_most_max_length_tokens_with_its_eos(seed, lengths, beam_size):
    chain = MarkovChain(len(lengths), seed)
    chain.table[..., CHAIN_EOS] -= 7  # talkative
    found = search_chain(chain, lengths, beam_size, 0.6)
    assert all(len(f.ids) < n for f, n in zip(found, lengths, strict=True))
    assert not {CHAIN_BOS, CHAIN_EOS} & {token for f in found for token in f.ids}


def test_an_end_is_forced_with_its_own_probability():
    chain = MarkovChain(sentences=1, seed=4)
    chain.table[..., CHAIN_EOS] -= 7
    for found in (
        *search_chain(chain, [3], 2, 0.6),
        *search_chain_greedily(chain, [3]),
    ):
        assert len(found.ids) == 2
        assert found.log_prob == pytest.approx(chain.log_prob(0, found.ids), abs=1e-4)


def test_a_beam_finds_what_greedy_search_misses():
    """A likely first word that leads to nothing likely."""
    chain = MarkovChain(sentences=1, seed=5)
    chain.table[:] = torch.tensor([-math.inf, 0.0, 0.0, 0.0, 0.0])
    chain.table[0, CHAIN_BOS, CHAIN_BOS] = torch.tensor([-math.inf, -9, 1.0, 0.9, -9])
    chain.table[0, CHAIN_BOS, 3] = torch.tensor([-math.inf, 9.0, 0.0, 0.0, 0.0])
    assert search_chain_greedily(chain, [5])[0].ids[0] == 2
    assert search_chain(chain, [5], 2, 0.0)[0].ids == [3]


def test_an_output_that_ends_leaves_its_place_to_an_unfinished_one():
    """The third likeliest start, kept because the likeliest is an end, wins."""
    chain = MarkovChain(sentences=1, seed=5)
    end, first, second, third = 0.4, 0.34, 0.25, 0.01
    starts = torch.tensor([0, end, first, second, third]).log()
    chain.table[0, CHAIN_BOS, CHAIN_BOS] = starts
    chain.table[0, CHAIN_BOS, 2] = torch.tensor([-math.inf, 0.0, 0.0, 0.0, 0.0])
    chain.table[0, CHAIN_BOS, 3] = torch.tensor([-math.inf, 9.0, 0.0, 0.0, 0.0])
    assert search_chain(chain, [2], 2, 3.0)[0].ids == [3]


def test_sentences_leave_the_batch_when_they_are_finished():
    for run in (lambda c, n: search_chain(c, n, 3, 0.6), search_chain_greedily):
        chain = MarkovChain(sentences=3, seed=6)
        chain.table[..., CHAIN_EOS] -= 30  # only a limit ends an output
        run(chain, [2, 5, 3])
        assert chain.batch_sizes == [3, 3, 2, 1, 1]


class Places(NamedTuple):
    """Which sentence stands at each place of the batch."""

    sentences: Tensor

    def reorder(self, beams):
        return self

    def keep(self, sentences):
        return Places(self.sentences[sentences])


@pytest.mark.parametrize("beam_size", [None, 1])
def test_sentences_leave_the_batch_an_eighth_of_it_at_a_time(beam_size):
    """Each says its own number over and over, until it has to end."""
    limits, sizes = torch.tensor([2, 9, 4, *[11] * 13, 2, 4, 4]), []

    def step(last_ids, state):
        sizes.append(len(last_ids))
        own = 2 + state.sentences[:, None].expand_as(last_ids)
        return 9.0 * F.one_hot(own, 2 + len(limits)), state

    batch = (step, Places(torch.arange(len(limits))), limits, CHAIN_BOS, CHAIN_EOS)
    if beam_size:
        found = beam_search(*batch, beam_size, alpha=0.0)
    else:
        found = greedy_search(*batch)
    expected = [[2 + i] * (n - 1) for i, n in enumerate(limits.tolist())]
    assert [output.ids for output in found] == expected
    # Of 19 sentences two are done after 2 steps, five after 4, and six after 9.
    assert sizes == [19] * 4 + [14] * 7


def both_searches(step, start, limits, bos, eos):
    """What greedy search and beam search find from states made by `start`."""
    limits = torch.tensor(limits)
    return (
        greedy_search(step, start(), limits, bos, eos),
        beam_search(step, start(), limits, bos, eos, 3, 0.6),
    )


def test_two_searches_may_begin_in_one_state_of_a_chain():
    chain = MarkovChain(sentences=5, seed=9)
    state, given = chain.start(), (CHAIN_BOS, CHAIN_EOS)
    fresh = both_searches(chain.step, chain.start, [2, 5, 3, 7, 4], *given)
    assert both_searches(chain.step, lambda: state, [2, 5, 3, 7, 4], *given) == fresh


@pytest.mark.parametrize("broken", [math.nan, -math.inf])
@pytest.mark.parametrize("at", [0, 2])
def test_scores_that_are_no_numbers_are_refused(broken, at):
    """From the second or the fourth token on."""
    chain, limits = MarkovChain(sentences=2, seed=4), torch.tensor([6, 6])
    chain.table[..., CHAIN_EOS] -= 30
    steps = []

    def step(last_ids, state):
        logits, state = chain.step(last_ids, state)
        steps.append(1)
        return (logits if len(steps) <= at else torch.full_like(logits, broken)), state

    given = (step, chain.start(), limits, CHAIN_BOS, CHAIN_EOS)
    with pytest.raises(ValueError, match="not numbers"):
        greedy_search(*given)
    steps.clear()
    with pytest.raises(ValueError, match="not numbers"):
        beam_search(*given, 2, 0.6)


@examples
@given(seeds, max_lengths, st.floats(0.1, 2))
def test_the_score_of_greedy_search_has_the_length_penalty(seed, lengths, alpha):
    chain, limits = MarkovChain(len(lengths), seed), torch.tensor(lengths)
    given = (chain.step, chain.start(), limits, CHAIN_BOS, CHAIN_EOS)
    for found in greedy_search(*given, alpha):
        penalty = ((5 + len(found.ids) + 1) / 6) ** alpha
        assert found.score == pytest.approx(found.log_prob / penalty)


@examples
@given(seeds, max_lengths, st.integers(1, 5))
def test_a_search_that_seldom_looks_finds_the_same(seed, lengths, beam_size):
    """As on a GPU, where sentences that are done stay in the batch for some steps."""
    chain = MarkovChain(len(lengths), seed)
    expected = (
        search_chain_greedily(chain, lengths),
        search_chain(chain, lengths, beam_size, 0.6),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_steps_between_looks", lambda device: 4)
        assert search_chain_greedily(chain, lengths) == expected[0]
        assert search_chain(chain, lengths, beam_size, 0.6) == expected[1]


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


def test_a_search_goes_on_while_a_longer_output_can_still_win():
    """With a large alpha the longest output wins although it is least likely."""
    chain = MarkovChain(sentences=1, seed=8)
    chain.table[..., 1:] = 0
    assert len(search_chain(chain, [5], ALL_OUTPUTS, 0.0)[0].ids) == 0
    assert len(search_chain(chain, [5], ALL_OUTPUTS, 9.0)[0].ids) == 4


# The length penalty


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.6, 1.0])
def test_length_penalty_is_one_at_length_one(alpha):
    assert length_penalty(1, alpha) == 1


@examples
@given(st.integers(1, 99), st.floats(0.01, 3))
def test_length_penalty_grows_with_the_length(length, alpha):
    assert length_penalty(length + 1, alpha) > length_penalty(length, alpha)


def test_length_penalty_is_wu_et_als():
    assert length_penalty(19, 0.6) == pytest.approx((5 + 19) ** 0.6 / (5 + 1) ** 0.6)


def test_doctests_of_the_module_run():
    results = doctest.testmod(search)
    assert results.attempted >= 2
    assert results.failed == 0


# On a Transformer

SRC = torch.tensor([[5, 7, 11, 6, EOS], [8, EOS, PAD, PAD, PAD], [10, 9, 4, EOS, PAD]])
LIMITS = [7, 3, 11]


def some_model(**changes):
    """A small untrained model that is sure enough of what it says."""
    torch.manual_seed(9)
    shape = {
        "vocab_size": 13,
        "num_layers": 2,
        "d_model": 22,
        "d_ff": 31,
        "num_heads": 2,
        "max_len": 23,
    }
    model = Transformer(ModelConfig(**shape | changes)).double().eval()
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
    return beam_search(
        model.decoder.step,
        model.start(src_ids),
        torch.tensor(limits),
        BOS,
        EOS,
        beam_size,
        alpha,
    )


@pytest.mark.parametrize("attention", ["fused", "explicit"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("beam_size", [1, 2, 4])
def test_log_prob_is_the_models_own_for_the_output(beam_size, positions, attention):
    model = some_model(positions=positions, attention=attention)
    found = search_model(model, SRC, LIMITS, beam_size)
    for src, hypothesis in zip(SRC, found, strict=True):
        log_prob = rescored(model, src, hypothesis.ids)
        penalty = length_penalty(len(hypothesis.ids) + 1, 0.6)
        assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-4)
        assert hypothesis.score == pytest.approx(log_prob / penalty, abs=1e-4)


def test_log_prob_of_greedy_search_is_the_models_own():
    model = some_model()
    found = greedy_search(
        model.decoder.step, model.start(SRC), torch.tensor(LIMITS), BOS, EOS
    )
    log_probs = [rescored(model, s, f.ids) for s, f in zip(SRC, found, strict=True)]
    assert [f.log_prob for f in found] == pytest.approx(log_probs, abs=1e-4)


def test_a_beam_of_one_is_greedy_search_on_a_transformer():
    model = some_model()
    greedy = greedy_search(
        model.decoder.step, model.start(SRC), torch.tensor(LIMITS), BOS, EOS
    )
    beam = search_model(model, SRC, LIMITS, beam_size=1)
    assert [found.ids for found in beam] == [found.ids for found in greedy]


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_batch_finds_what_its_sentences_find_alone_on_a_transformer(beam_size):
    model, alone = some_model(), []
    for src, limit in zip(SRC, LIMITS, strict=True):
        alone += search_model(model, src[src != PAD][None], [limit], beam_size)
    together = search_model(model, SRC, LIMITS, beam_size)
    assert [tuple(found) for found in together] == approximately(alone)


@pytest.mark.parametrize("attention", ["fused", "explicit"])
def test_two_searches_may_begin_in_one_state_of_a_transformer(attention):
    model = some_model(attention=attention)
    state, given = model.start(SRC), (BOS, EOS)
    step = model.decoder.step
    fresh = both_searches(step, lambda: model.start(SRC), LIMITS, *given)
    assert both_searches(step, lambda: state, LIMITS, *given) == fresh


def test_the_outputs_on_a_transformer_are_no_trivial_ones():
    found = search_model(some_model(), SRC, LIMITS)
    assert len({tuple(hypothesis.ids) for hypothesis in found}) == 3
    assert max(len(hypothesis.ids) for hypothesis in found) >= 3


# On a GPU


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_gpu_finds_what_a_cpu_finds(beam_size):
    model = some_model()
    expected = search_model(model, SRC, LIMITS, beam_size)
    model = model.cuda()
    found = beam_search(
        model.decoder.step,
        model.start(SRC.cuda()),
        torch.tensor(LIMITS).cuda(),
        BOS,
        EOS,
        beam_size,
        0.6,
    )
    assert [tuple(output) for output in found] == approximately(expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_finds_outputs_that_are_about_as_likely(dtype):
    model = some_model().float()
    expected = search_model(model, SRC, LIMITS)
    model = model.cuda()
    with torch.autocast("cuda", dtype=dtype):
        found = beam_search(
            model.decoder.step,
            model.start(SRC.cuda()),
            torch.tensor(LIMITS).cuda(),
            BOS,
            EOS,
            beam_size=4,
            alpha=0.6,
        )
    for output, best in zip(found, expected, strict=True):
        assert output.score == pytest.approx(best.score, abs=0.2)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_step_of_a_search_does_not_wait_for_the_gpu(alpha):
    """It may wait at its start, at its end, and where it looks who is done."""
    model = some_model().float().cuda()
    limits, steps = torch.tensor([3]).cuda(), []

    def step(last_ids, state):
        torch.cuda.set_sync_debug_mode("error")
        steps.append(1)
        if len(steps) == 3:  # the last one: what follows reads the result
            torch.cuda.set_sync_debug_mode("default")
        return model.decoder.step(last_ids, state)

    state = model.start(SRC[:1].cuda())
    try:
        beam_search(step, state, limits, BOS, EOS, 4, alpha)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(steps) == 3
