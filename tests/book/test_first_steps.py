"""Small trainings take Adam's steps, and change those that they are told to."""

import pytest
import torch
from torch.nn import functional as F
from unchecked import unchecked

from results import first_steps as script
from transformer_lite.optimizer import adam
from transformer_lite.tokenizer import PAD
from transformer_lite_book.first_steps import (
    BATCH,
    SENTENCES,
    Changes,
    flat_rate,
    own_share_of,
    short_sentences,
    small_model,
    train_small,
    with_ramp,
)


@pytest.fixture(scope="module")
def corpus():
    with unchecked():
        return short_sentences()


def trained(corpus, steps=3, **changes):
    model = small_model(corpus, seed=1)
    return model, train_small(model, corpus, [0.01] * steps, 1, Changes(**changes))


def test_equal_vectors_have_no_own_share():
    assert own_share_of(torch.ones(5, 3)) == 0
    assert own_share_of(torch.tensor([[1.0, 0], [-1, 0]])) == 1
    assert own_share_of(torch.tensor([[1.0, 1], [1, -1]])) == pytest.approx(0.5**0.5)


def test_without_changes_the_steps_are_those_of_adam(corpus):
    ours, course = trained(corpus)
    theirs, losses = small_model(corpus, seed=1), []
    optimizer, random = (
        adam(theirs.parameters(), 0.01),
        torch.Generator().manual_seed(1),
    )
    for _ in range(3):
        chosen = torch.randint(SENTENCES, (BATCH,), generator=random)
        src, tgt = corpus.src_ids[chosen], corpus.tgt_ids[chosen]
        loss = F.cross_entropy(
            theirs(src, tgt[:, :-1]).mT, tgt[:, 1:], ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    assert course.losses == pytest.approx(losses, abs=1e-3)
    pairs = zip(ours.parameters(), theirs.parameters(), strict=True)
    near = torch.cat([((a - b).abs() < 1e-3).flatten() for a, b in pairs])
    assert near.float().mean() > 0.99  # where a gradient is nearly 0, they may differ


def test_a_full_first_step_moves_weights_by_its_rate(corpus):
    _, course = trained(corpus)
    assert course.lengths[0] == pytest.approx(0.01, rel=0.05)


def test_batches_that_fill_v_are_no_steps(corpus):
    _, filled = trained(corpus, filled=2)
    assert len(filled.losses) == len(filled.own_shares) == 3


def test_filled_averages_and_random_signs_change_the_first_step(corpus):
    plain, lengths = trained(corpus, steps=1)
    filled, shorter = trained(corpus, steps=1, filled=10)
    random, as_long = trained(corpus, steps=1, random_signs=[1])
    assert shorter.lengths[0] < 0.9 * lengths.lengths[0]
    assert as_long.lengths == pytest.approx(lengths.lengths)
    start = small_model(corpus, seed=1)
    moves = [
        torch.cat([(a - b).sign().flatten() for a, b in zip(m, s, strict=True)])
        for m, s in (
            (model.parameters(), start.parameters())
            for model in (plain, filled, random)
        )
    ]
    used = moves[0] != 0
    assert (moves[1] == moves[0])[used].float().mean() > 0.99
    assert (moves[2] == moves[0])[used].float().mean() == pytest.approx(0.5, abs=0.05)


def test_after_the_first_steps_all_rates_of_a_peak_are_equal():
    later = {
        tuple(round(rate, 9) for rate in rates[script.WARMUP :])
        for rates, _ in script.RUNS.values()
    }
    assert len(later) == 2  # of two peaks
    full = {
        name: sum(rate == script.PEAK for rate in rates[: script.WARMUP])
        for name, (rates, _) in script.RUNS.items()
    }
    named = [full[name] for name in ("low first", "one full", "five full", "flat")]
    assert named == [0, 1, 5, script.WARMUP]
    assert with_ramp(15, 0.01, 30) == pytest.approx(0.005)
    assert flat_rate(120, 0.01, 30) == with_ramp(120, 0.01, 30) == pytest.approx(0.005)
