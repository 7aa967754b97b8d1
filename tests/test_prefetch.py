"""The next items are made while the current one is used."""

import threading
from itertools import islice

import pytest

from transformer_lite.batching import prefetch

every_depth = pytest.mark.parametrize("ahead", [1, 3, 7])


@every_depth
def test_items_come_in_order_and_to_their_end(ahead):
    assert [item for item, _ in prefetch(iter(range(5)), ahead)] == [0, 1, 2, 3, 4]


def test_the_next_item_is_made_while_the_current_one_is_used():
    made = threading.Event()

    def items():
        yield 0
        made.set()
        yield 1

    coming = prefetch(items(), ahead=1)
    next(coming)
    assert made.wait(timeout=10)
    coming.close()


@every_depth
def test_no_more_items_are_made_ahead_than_are_asked_for(ahead):
    made = []
    coming = prefetch((made.append(n) or n for n in range(19)), ahead)
    for expected in range(3):
        item, _ = next(coming)
        assert item == expected
        assert len(made) <= expected + 1 + ahead
    coming.close()


def test_so_many_items_as_are_asked_for_are_made_ahead():
    made = threading.Event()

    def items():
        yield from range(3)
        made.set()
        yield 3

    coming = prefetch(items(), ahead=3)
    next(coming)
    assert made.wait(timeout=10)
    coming.close()


def test_waiting_is_measured():
    hold = threading.Event()

    def items():
        yield 0
        hold.wait(0.2)
        yield 1

    waited = [seconds for _, seconds in islice(prefetch(items(), ahead=1), 2)]
    assert 0.1 < waited[1] < 10


def test_an_error_in_making_an_item_is_raised():
    def items():
        yield 0
        raise ValueError("damaged")

    coming = prefetch(items(), ahead=1)
    next(coming)
    with pytest.raises(ValueError, match="damaged"):
        next(coming)


def test_the_loaders_own_thread_may_end_it():
    dropped, ended, errors = threading.Event(), threading.Event(), []

    def items():
        yield 0
        dropped.wait(timeout=10)
        try:
            coming.close()  # as the garbage collector does, in whichever thread it runs
        except RuntimeError as error:
            errors.append(error)
        ended.set()
        yield 1

    coming = prefetch(items(), ahead=1)
    next(coming)
    dropped.set()
    assert ended.wait(timeout=10)
    assert not errors
