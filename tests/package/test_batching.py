"""Batches hold every pair once, within their budget and with little padding."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite import batching
from transformer_lite.batching import (
    START,
    Batch,
    BatchStream,
    DataPosition,
    Sequences,
    batches_per_step,
    fixed_batches,
    pad,
    token_buckets,
)
from transformer_lite.config import TrainConfig
from transformer_lite.tokenizer import BOS, EOS, PAD

lengths = st.lists(
    st.tuples(st.integers(0, 22), st.integers(0, 22)), min_size=1, max_size=60
)


def columns(pairs):
    return tuple(np.array(column) for column in zip(*pairs, strict=True))


def sentences(count, seed=3):
    """Pairs that can be told apart: the first id of each is its number."""
    generator = np.random.default_rng(seed)
    sides = []
    for _ in range(2):
        extra = generator.integers(0, 11, size=count)
        sides.append(
            Sequences.from_lists([[10 + i, *[7] * extra[i]] for i in range(count)])
        )
    return sides


def numbers(batch):
    return (batch.src_ids[:, 0] - 10).tolist()


def stream_of(count, seed=5, **place):
    return BatchStream(*sentences(count), 40, seed, **place)


@settings(max_examples=40, deadline=None)
@given(lengths, st.integers(23, 90), st.integers(0, 99), st.sampled_from([7, 10_000]))
def test_every_pair_is_in_one_batch_and_none_is_over_its_budget(
    pairs, budget, seed, pool
):
    sides = [Sequences.from_lists([[7] * n for n in side]) for side in columns(pairs)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "POOL_PAIRS", pool)
        batches = token_buckets(*columns(pairs), budget, (seed, 0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs)))
    for batch in map(BatchStream(*sides, budget, seed).batch, batches):
        assert 0 < batch.src_ids.numel() <= budget
        assert 0 < batch.tgt_input.numel() <= budget


def multi30k_like(count):
    """Lengths in tokens as Multi30k has them: mean 14.3 and 14.8, correlated."""
    generator = np.random.default_rng(11)
    covariance = 25 * np.array([[1, 0.8], [0.8, 1]])
    drawn = generator.multivariate_normal([14.3, 14.8], covariance, size=count)
    return drawn.round().astype(int).clip(3, 50).T


def test_batches_of_lengths_like_multi30ks_are_full_and_six_percent_padding():
    src, tgt = multi30k_like(29_000)
    used = cells = 0
    batches = token_buckets(src, tgt, 2000, (1, 0))
    for batch in batches:
        for side in (src[batch] + 1, tgt[batch] + 1):
            used += side.sum()
            cells += len(side) * side.max()
    assert 1 - used / cells <= 0.06
    assert (tgt + 1).sum() / len(batches) >= 0.85 * 2000


def test_pairs_are_not_read_in_order_of_length():
    src, tgt = multi30k_like(5000)
    means = [tgt[batch].mean() for batch in token_buckets(src, tgt, 500, (1, 0))]
    ascending = np.mean(np.diff(means) > 0)
    assert 0.4 < ascending < 0.6


def steps_of(count, number, start=START, **place):
    """The first steps of a stream."""
    return list(islice(stream_of(count, **place).steps(start), number))


def batches_of(steps):
    return [numbers(batch) for step in steps for batch in step.batches]


def test_each_epoch_has_another_order():
    stream = stream_of(61)
    first, second = ([batch.tolist() for batch in stream.epoch(n)] for n in (0, 1))
    assert first != second


@pytest.mark.parametrize(
    ("world_size", "per_step", "parts"),
    [(1, 3, 1), (2, 2, 1), (3, 6, 1), (2, 1, 2), (3, 2, 3), (4, 6, 2), (7, 1, 7)],
)
def test_any_processes_share_every_pair_of_a_step_across_ends_of_epochs(
    world_size, per_step, parts
):
    whole = stream_of(64)
    ends = np.cumsum([len(whole.epoch(number)) for number in range(4)])
    if per_step > 1:
        assert (ends[:3] % per_step).any(), "no step crosses the end of an epoch"
    number = ends[-1] // per_step
    place = {"world_size": world_size, "batches_per_step": per_step}
    shards = [steps_of(64, number, rank=n, **place) for n in range(world_size)]
    assert stream_of(64, **place).parts == parts
    read = [pairs.tolist() for n in range(4) for pairs in whole.epoch(n)]
    for step, shares in enumerate(zip(*shards, strict=True)):
        assert {len(s.batches) for s in shares} == {per_step * parts // world_size}
        assert len({share.position for share in shares}) == 1
        rows = zip(*(share.batches for share in shares), strict=True)
        dealt = [numbers(b) if b.tokens else [] for row in rows for b in row]
        for batch in read[step * per_step : (step + 1) * per_step]:
            own, dealt = dealt[:parts], dealt[parts:]
            assert sorted(n for part in own for n in part) == sorted(batch)
            sizes = [len(part) for part in own]
            assert max(sizes) - min(sizes) <= 1


def test_a_process_that_gets_no_pair_computes_one_that_counts_for_nothing():
    (step,) = steps_of(1, 1, rank=2, world_size=3)
    (batch,) = step.batches
    assert (numbers(batch), batch.tokens) == ([0], 0)


@settings(max_examples=20, deadline=None)
@given(read=st.integers(1, 50), world_size=st.integers(1, 3), share=st.integers(1, 2))
def test_a_stream_goes_on_exactly_where_another_stopped(read, world_size, share):
    place = {"rank": world_size - 1, "world_size": world_size}
    place["batches_per_step"] = world_size * share
    first = steps_of(61, read + 20, **place)
    position = DataPosition(*first[read - 1].position)
    second = steps_of(61, 20, start=position, **place)
    assert batches_of(second) == batches_of(first[read:])
    assert second[-1].position == first[-1].position


@pytest.mark.parametrize(("pairs", "targets"), [(0, 0), (3, 2)])
def test_a_stream_without_a_target_for_each_source_is_refused(pairs, targets):
    src, tgt = sentences(pairs)[0], sentences(targets)[1]
    message = f"{pairs} sources and {targets} targets; give at least one source"
    with pytest.raises(ValueError, match=message):
        BatchStream(src, tgt, 40, seed=5)


@pytest.mark.parametrize(
    ("whole", "batch", "expected"),
    [(None, 3125, 1), (25_000, 25_000, 1), (25_000, 3125, 8), (25_000, 3000, 8)],
)
def test_a_step_has_as_many_batches_as_come_closest_to_its_tokens(
    whole, batch, expected
):
    config = TrainConfig(batch_tokens=batch, global_batch_tokens=whole)
    assert batches_per_step(config) == expected


def test_a_step_smaller_than_a_batch_is_refused():
    config = TrainConfig(batch_tokens=3125, global_batch_tokens=3124)
    with pytest.raises(ValueError, match=r"less than train\.batch_tokens = 3125"):
        batches_per_step(config)


def test_a_batch_adds_ends_and_padding():
    batch = Batch.from_ids([[11, 13], [17]], [[19], [23, 29, 31]])
    assert batch.src_ids.tolist() == [[11, 13, EOS], [17, EOS, PAD]]
    assert batch.tgt_input.tolist() == [[BOS, 19, EOS, PAD], [BOS, 23, 29, 31]]
    assert batch.labels.tolist() == [[19, EOS, PAD, PAD], [23, 29, 31, EOS]]
    real = batch.labels.flatten()[batch.real]
    assert real.tolist() == [19, EOS, 23, 29, 31, EOS]
    assert batch.tokens == 6
    assert batch.padding == pytest.approx(3 / 16)


@pytest.mark.parametrize("end", [PAD, BOS, EOS])
def test_ids_that_have_an_end_or_padding_already_are_refused(end):
    for sides in ([[4, 5, end]], [[4]]), ([[4]], [[end, 4]]):
        with pytest.raises(ValueError, match="ids hold PAD, BOS or EOS; give"):
            Batch.from_ids(*sides)


@settings(max_examples=40, deadline=None)
@given(
    lists=st.lists(st.lists(st.integers(4, 50), max_size=7), min_size=1, max_size=11),
    data=st.data(),
)
def test_rows_are_padded_as_one_by_one(lists, data):
    chosen = data.draw(st.lists(st.integers(0, len(lists) - 1), min_size=1))
    rows = Sequences.from_lists(lists).padded(np.array(chosen))
    assert rows.tolist() == pad([[*lists[i], EOS] for i in chosen]).tolist()


def test_a_pair_longer_than_a_batch_is_named_with_a_remedy():
    src, tgt = np.array([3, 5, 29]), np.array([2, 31, 7])
    with pytest.raises(ValueError, match=r"batch_tokens = 31 .*pair 2.*32.* larger"):
        token_buckets(src, tgt, 31, (1, 0))


def test_fixed_batches_are_the_same_each_time_and_complete():
    one, two = (fixed_batches(*sentences(37), 40) for _ in range(2))
    assert [numbers(batch) for batch in one] == [numbers(batch) for batch in two]
    assert sorted(n for batch in one for n in numbers(batch)) == list(range(37))
