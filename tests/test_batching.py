"""Batches hold every pair once, within their budget and with little padding."""

import re
import threading
import time
from itertools import islice

import numpy as np
import pytest
import torch
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
from transformer_lite.data.store import SIDES, load_sequences
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
@given(pairs=lengths, budget=st.integers(23, 90), seed=st.integers(0, 99))
def test_every_pair_is_in_exactly_one_batch(pairs, budget, seed):
    batches = token_buckets(*columns(pairs), budget, (seed, 0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs)))


@settings(max_examples=40, deadline=None)
@given(pairs=lengths, budget=st.integers(23, 90), seed=st.integers(0, 99))
def test_no_batch_is_over_its_budget_on_either_side(pairs, budget, seed):
    src, tgt = (
        Sequences.from_lists([[7] * n for n in side]) for side in columns(pairs)
    )
    batches = [
        stream.batch(numbers)
        for stream in [BatchStream(src, tgt, budget, seed)]
        for numbers in stream.epoch(0)
    ]
    assert batches
    assert all(batch.src_ids.numel() <= budget for batch in batches)
    assert all(batch.tgt_input.numel() <= budget for batch in batches)
    assert all(batch.labels.numel() <= budget for batch in batches)


def cut_one_by_one(lengths, budget):
    """Sizes of the batches that greedy cutting gives."""
    sizes, batch = [], []
    for length in lengths:
        if batch and (len(batch) + 1) * max(*batch, length) > budget:
            sizes.append(len(batch))
            batch = []
        batch.append(length)
    return [*sizes, len(batch)]


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 23), min_size=1, max_size=60),
    budget=st.integers(23, 90),
)
def test_a_batch_ends_where_the_next_pair_would_not_fit(lengths, budget):
    pairs = np.arange(len(lengths))
    batches = batching.cut_to_fit(pairs, np.array(lengths), budget)
    assert [len(batch) for batch in batches] == cut_one_by_one(lengths, budget)


def test_an_epoch_of_a_million_pairs_is_cut_in_seconds():
    src, tgt = multi30k_like(1_000_000)
    begin = time.process_time()
    token_buckets(src, tgt, 25_000, (1, 0))
    assert time.process_time() - begin < 3


@settings(max_examples=40, deadline=None)
@given(pairs=lengths, seed=st.integers(0, 99))
def test_no_batch_is_empty(pairs, seed):
    assert all(len(batch) for batch in token_buckets(*columns(pairs), 50, (seed, 0)))


def multi30k_like(count):
    """Lengths in tokens as Multi30k has them: mean 14.3 and 14.8, correlated."""
    generator = np.random.default_rng(11)
    covariance = 25 * np.array([[1, 0.8], [0.8, 1]])
    drawn = generator.multivariate_normal([14.3, 14.8], covariance, size=count)
    return drawn.round().astype(int).clip(3, 50).T


def test_at_most_six_percent_are_padding_on_lengths_like_multi30ks():
    src, tgt = multi30k_like(29_000)
    used = cells = 0
    for batch in token_buckets(src, tgt, 2000, (1, 0)):
        for side in (src[batch] + 1, tgt[batch] + 1):
            used += side.sum()
            cells += len(side) * side.max()
    assert 1 - used / cells <= 0.06


def test_batches_are_nearly_full_on_lengths_like_multi30ks():
    src, tgt = multi30k_like(29_000)
    batches = token_buckets(src, tgt, 2000, (1, 0))
    assert (tgt + 1).sum() / len(batches) >= 0.85 * 2000


def test_pairs_are_not_read_in_order_of_length():
    src, tgt = multi30k_like(5000)
    means = [tgt[batch].mean() for batch in token_buckets(src, tgt, 500, (1, 0))]
    ascending = np.mean(np.diff(means) > 0)
    assert 0.4 < ascending < 0.6


@pytest.mark.parametrize("pool", [7, 64])
def test_pools_are_a_partition_too(monkeypatch, pool):
    monkeypatch.setattr(batching, "POOL_PAIRS", pool)
    src, tgt = multi30k_like(101)
    batches = token_buckets(src, tgt, 60, (1, 0))
    assert sorted(np.concatenate(batches).tolist()) == list(range(101))
    assert max(map(len, batches)) <= pool


def steps_of(count, number, start=START, **place):
    """The first steps of a stream."""
    return list(islice(stream_of(count, **place).steps(start), number))


def batches_of(steps):
    return [numbers(batch) for step in steps for batch in step.batches]


def test_the_same_seed_gives_the_same_order():
    one, two = (batches_of(steps_of(61, 40, seed=5)) for _ in range(2))
    assert one == two


def test_another_seed_gives_another_order():
    one, two = (batches_of(steps_of(61, 8, seed=seed)) for seed in (5, 6))
    assert one != two


def test_each_epoch_has_another_order():
    stream = stream_of(61)
    first, second = ([batch.tolist() for batch in stream.epoch(n)] for n in (0, 1))
    assert first != second


def test_a_stream_gives_every_pair_once_an_epoch():
    stream = stream_of(61)
    lengths = [len(stream.epoch(number)) for number in range(3)]
    batches = iter(batches_of(steps_of(61, sum(lengths))))
    for length in lengths:
        seen = [n for batch in islice(batches, length) for n in batch]
        assert sorted(seen) == list(range(61))


def test_a_batch_knows_its_pairs():
    for step in steps_of(61, 9):
        for batch in step.batches:
            assert list(batch.pairs) == numbers(batch)


@pytest.mark.parametrize(("world_size", "per_step"), [(1, 3), (2, 2), (3, 6), (2, 4)])
def test_shards_are_disjoint_and_complete_across_ends_of_epochs(world_size, per_step):
    whole = stream_of(64)
    ends = np.cumsum([len(whole.epoch(number)) for number in range(4)])
    assert (ends[:3] % per_step).any(), "no step crosses the end of an epoch"
    number = ends[-1] // per_step
    shards = [
        steps_of(
            64, number, rank=rank, world_size=world_size, batches_per_step=per_step
        )
        for rank in range(world_size)
    ]
    dealt = []
    for parts in zip(*shards, strict=True):
        assert {len(part.batches) for part in parts} == {per_step // world_size}
        for row in zip(*(part.batches for part in parts), strict=True):
            dealt += [numbers(batch) for batch in row]
    assert dealt == batches_of(steps_of(64, number * per_step))


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


def test_all_processes_stand_at_the_same_position():
    positions = [
        [
            step.position
            for step in steps_of(61, 17, rank=rank, world_size=3, batches_per_step=3)
        ]
        for rank in range(3)
    ]
    assert positions[0] == positions[1] == positions[2]


@pytest.mark.parametrize(
    ("whole", "batch", "world_size", "expected"),
    [
        (None, 3125, 1, 1),
        (None, 25_000, 1, 1),
        (25_000, 25_000, 1, 1),
        (25_000, 3125, 1, 8),
        (25_000, 3125, 4, 8),
        (25_000, 3125, 8, 8),
        (25_000, 3000, 2, 8),
    ],
)
def test_batches_of_a_step_do_not_depend_on_the_number_of_processes(
    whole, batch, world_size, expected
):
    config = TrainConfig(batch_tokens=batch, global_batch_tokens=whole)
    assert batches_per_step(config, world_size) == expected


@pytest.mark.parametrize("whole", [25_000, None])
@pytest.mark.parametrize(
    ("batch", "world_size"), [(3125, 3), (25_000, 8), (10_000, 4), (3125, 16)]
)
def test_processes_that_cannot_share_a_step_evenly_are_told_a_size_that_works(
    whole, batch, world_size
):
    config = TrainConfig(batch_tokens=batch, global_batch_tokens=whole)
    with pytest.raises(ValueError, match=f"{world_size} processes cannot") as error:
        batches_per_step(config, world_size)
    said = str(error.value)
    each, together = map(int, re.findall(r"batch-tokens (\d+)", said))
    assert together == (whole or batch)
    remedy = TrainConfig(batch_tokens=each, global_batch_tokens=together)
    batches = batches_per_step(remedy, world_size)
    assert batches % world_size == 0
    assert batches * each == pytest.approx(together, rel=0.01)


def test_a_step_smaller_than_a_batch_is_refused():
    config = TrainConfig(batch_tokens=3125, global_batch_tokens=3124)
    with pytest.raises(
        ValueError, match=r"= 3124 is less than train\.batch_tokens = 3"
    ):
        batches_per_step(config, 1)


def test_a_run_cannot_resume_on_a_number_of_processes_that_would_change_its_steps():
    config = TrainConfig(batch_tokens=3125, global_batch_tokens=25_000)
    assert [batches_per_step(config, world_size) for world_size in (8, 4, 1)] == [8] * 3
    with pytest.raises(ValueError, match=r"3 processes .* number .* divides 8, or"):
        batches_per_step(config, 3)


def test_a_batch_adds_ends_and_padding():
    batch = Batch.from_ids([[11, 13], [17]], [[19], [23, 29, 31]])
    assert batch.src_ids.tolist() == [[11, 13, EOS], [17, EOS, PAD]]
    assert batch.tgt_ids.tolist() == [
        [BOS, 19, EOS, PAD, PAD],
        [BOS, 23, 29, 31, EOS],
    ]


def test_labels_are_the_input_shifted_by_one():
    batch = Batch.from_ids([[11]], [[19, 23]])
    assert batch.tgt_input.tolist() == [[BOS, 19, 23]]
    assert batch.labels.tolist() == [[19, 23, EOS]]


def test_a_batch_of_memory_mapped_ids_is_the_same(tmp_path):
    src, tgt = sentences(23)
    for name, side in (("src", src), ("tgt", tgt)):
        side.ids.tofile(tmp_path / f"train.{name}.ids")
        side.offsets.tofile(tmp_path / f"train.{name}.offsets")
    loaded = [load_sequences(tmp_path, "train", side) for side in SIDES]
    one, two = (BatchStream(*sides, 40, 5) for sides in ((src, tgt), loaded))
    pairs = zip(islice(one.steps(), 9), islice(two.steps(), 9), strict=True)
    for (a,), (b,) in ((a.batches, b.batches) for a, b in pairs):
        assert torch.equal(a.src_ids, b.src_ids)
        assert torch.equal(a.tgt_ids, b.tgt_ids)


def test_a_batch_moves_as_a_whole():
    moved = Batch.from_ids([[11]], [[13]]).to(torch.device("meta"))
    assert moved.src_ids.is_meta
    assert moved.tgt_ids.is_meta
    assert moved.real.is_meta


def test_a_pinned_step_is_the_same(monkeypatch):
    pinned = []
    monkeypatch.setattr(
        torch.Tensor, "pin_memory", lambda x: pinned.append(x) or x.clone()
    )
    (step,) = steps_of(61, 1)
    same = step.pinned()
    assert len(pinned) == 3
    assert same[1:] == step[1:]
    assert batches_of([same]) == batches_of([step])


def test_a_batch_knows_which_labels_are_real():
    batch = Batch.from_ids([[11], [17], [13]], [[19], [], [23, 29]])
    assert batch.labels.flatten()[batch.real].tolist() == [19, EOS, EOS, 23, 29, EOS]
    assert len(batch.real) == (batch.labels != PAD).sum()


@settings(max_examples=40, deadline=None)
@given(
    lists=st.lists(st.lists(st.integers(4, 50), max_size=7), min_size=1, max_size=11),
    data=st.data(),
)
def test_rows_are_padded_as_one_by_one(lists, data):
    chosen = data.draw(st.lists(st.integers(0, len(lists) - 1), min_size=1))
    rows = Sequences.from_lists(lists).padded(np.array(chosen))
    assert rows.tolist() == pad([[*lists[i], EOS] for i in chosen]).tolist()


@pytest.mark.parametrize(("per_step", "world_size"), [(1, 1), (3, 1), (4, 2)])
def test_each_process_knows_the_tokens_of_the_whole_step(per_step, world_size):
    place = {"batches_per_step": per_step, "world_size": world_size}
    ranks = [steps_of(61, 9, rank=rank, **place) for rank in range(world_size)]
    for step in zip(*ranks, strict=True):
        counted = sum(batch.tokens for part in step for batch in part.batches)
        assert [part.tokens for part in step] == [counted] * world_size


def test_the_next_epoch_is_cut_while_this_one_is_read(monkeypatch):
    stream, cut = stream_of(61), threading.Event()
    original = stream.epoch
    monkeypatch.setattr(
        stream, "epoch", lambda number: (number and cut.set()) or original(number)
    )
    assert len(original(0)) > 1
    steps = stream.steps()
    next(steps)  # kept, for nothing is read ahead for steps that nobody can ask for
    assert cut.wait(timeout=10)


def test_a_batch_counts_its_tokens_and_its_padding():
    batch = Batch.from_ids([[11, 13], [17]], [[19], [23, 29, 31]])
    assert batch.tokens == 2 + 4
    assert batch.padding == pytest.approx(3 / 16)


def test_padding_stands_at_the_end():
    assert pad([[5], [7, 11]]).tolist() == [[5, PAD], [7, 11]]


def test_a_pair_longer_than_a_batch_is_named_with_a_remedy():
    src, tgt = np.array([3, 5, 29]), np.array([2, 31, 7])
    with pytest.raises(ValueError, match=r"batch_tokens = 31 .*pair 2.*32.* larger"):
        token_buckets(src, tgt, 31, (1, 0))


def test_a_pair_that_just_fits_is_accepted():
    assert len(token_buckets(np.array([3]), np.array([30]), 31, (1, 0))) == 1


def test_fixed_batches_are_the_same_each_time_and_complete():
    one, two = (fixed_batches(*sentences(37), 40) for _ in range(2))
    assert [numbers(batch) for batch in one] == [numbers(batch) for batch in two]
    assert sorted(n for batch in one for n in numbers(batch)) == list(range(37))
