"""A check says "correct" or what is wrong, and never stops on a wrong answer."""

import math

import numpy as np
import pytest
import torch

from transformer_lite_course.comparison import MistakeError, require, require_equal
from transformer_lite_course.exercises import check, forbidden, require_number


@check
def check_double(answer):
    require_number("Twice 3", answer(3), 6)
    require(answer(0) == 0, "Try 0 as well.")


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (lambda x: 2 * x, "correct"),
        (lambda x: x + 3, "not yet: Try 0 as well."),
        (lambda x: x**2, "not yet: Twice 3 is not 9."),
        (lambda x: None, "not yet: Twice 3 is of type NoneType; return a number."),
        (lambda x: 1 / 0, "not yet: the code stops with ZeroDivisionError: division"),
        (None, "not yet: the code stops with TypeError: 'NoneType' object is not"),
    ],
)
def test_a_check_says_its_verdict(answer, verdict, capsys):
    assert check_double(answer) == (verdict == "correct")
    assert capsys.readouterr().out.startswith(verdict)


def test_a_check_keeps_its_name():
    assert check_double.__name__ == "check_double"


def test_a_forbidden_function_fails_under_every_name_inside_the_block_only():
    def double(x, times=1):
        return 2 * x * times

    def nested():
        return (lambda: double(3, times=2))()

    with pytest.raises(RuntimeError, match="forbidden here"), forbidden(double):
        nested()
    assert nested() == 12


@pytest.mark.parametrize("found", [6, 6.0, np.float32(6), torch.tensor([6])])
def test_numbers_of_every_kind_are_taken(found):
    require_number("It", found, 6)


@pytest.mark.parametrize("found", [True, "6", None, [6], torch.ones(2), 6j, math.nan])
def test_what_is_no_number_is_refused(found):
    with pytest.raises(MistakeError):
        require_number("It", found, 1.0)


def test_an_integer_is_met_exactly_and_another_number_nearly():
    require_number("It", 0.30001, 0.3, tolerance=1e-3)
    require_number("It", 1e-5, 0.0)
    with pytest.raises(MistakeError):
        require_number("It", 0.301, 0.3)
    with pytest.raises(MistakeError):
        require_number("It", 1_000_001, 1_000_000)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [(9, "That is the square."), (0.3, "It is not 0.3."), (np.int64(5), "It is not 5")],
)
def test_a_wrong_number_is_named_or_shown(found, sentence):
    with pytest.raises(MistakeError, match=sentence):
        require_number("It", found, 6, mistakes={"That is the square.": 9})


def test_a_mask_holds_true_and_false_and_numbers_are_real():
    mask = torch.tensor([True, False])
    require_equal("The mask", mask.clone(), mask)
    with pytest.raises(MistakeError, match="should hold True and False only"):
        require_equal("The mask", mask.float(), mask)
    with pytest.raises(MistakeError, match="The mask differs from the book's"):
        require_equal("The mask", ~mask, mask)
    with pytest.raises(MistakeError, match="should hold real numbers"):
        require_equal("It", torch.ones(2) + 0j, torch.ones(2))
