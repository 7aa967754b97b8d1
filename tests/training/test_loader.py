"""The next item is made while the current one is used."""

import threading
from itertools import islice

import pytest

from transformer_lite.training.trainer import prefetch


def test_items_come_in_order_and_to_their_end():
    assert [item for item, _ in prefetch(iter(range(5)))] == [0, 1, 2, 3, 4]


def test_the_next_item_is_made_while_the_current_one_is_used():
    made = threading.Event()

    def items():
        yield 0
        made.set()
        yield 1

    coming = prefetch(items())
    next(coming)
    assert made.wait(timeout=10)
    coming.close()


def test_only_one_item_is_made_ahead():
    made = []
    coming = prefetch(made.append(n) or n for n in range(9))
    for expected in range(3):
        item, _ = next(coming)
        assert item == expected
        assert len(made) <= expected + 2
    coming.close()


def test_waiting_is_measured():
    hold = threading.Event()

    def items():
        yield 0
        hold.wait(0.2)
        yield 1

    waited = [seconds for _, seconds in islice(prefetch(items()), 2)]
    assert 0.1 < waited[1] < 10


def test_an_error_in_making_an_item_is_raised():
    def items():
        yield 0
        raise ValueError("damaged")

    coming = prefetch(items())
    next(coming)
    with pytest.raises(ValueError, match="damaged"):
        next(coming)
