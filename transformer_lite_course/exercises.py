"""The checks below a chapter's exercises: each says "correct", or "not yet" and why.

Paper: §3, 5.1, 5.3–5.4, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_verdicts.py
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import unwrap
from numbers import Integral, Real
from textwrap import fill
from types import MappingProxyType
from typing import Any

import torch

from transformer_lite_course.comparison import MistakeError, require

WIDTH = 80
"""Characters in a line of the page."""


def check(body: Callable[[Any], None]) -> Callable[[Any], bool]:
    """Make a function that raises for a wrong answer into one that says its verdict.

    Args:
        body: Takes a reader's answer, such as a function. Whatever it or the answer
            raises means that the answer is wrong.

    Returns:
        A function that prints the verdict and returns whether the answer is right.
    """

    @wraps(body)
    def checked(answer: Any) -> bool:
        try:
            body(answer)
        except MistakeError as mistake:
            verdict = f"not yet: {mistake}"
        except Exception as error:
            verdict = f"not yet: the code stops with {type(error).__name__}: {error}"
        else:
            verdict = "correct"
        print(fill(verdict, WIDTH))
        return verdict == "correct"

    return checked


@contextmanager
def forbidden(*functions: Callable[..., Any]) -> Iterator[None]:
    """Let calls of these functions fail inside the block, under whatever name.

    Args:
        functions: Written in Python, without a closure. Their code is exchanged, so
            each remains the same object wherever it was imported.
    """

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("Write it yourself; this function is forbidden here.")

    # The tests wrap functions to check their types.
    plain = [unwrap(function) for function in functions]
    codes = [function.__code__ for function in plain]
    try:
        for function in plain:
            function.__code__ = unwrap(refuse).__code__
        yield
    finally:
        for function, code in zip(plain, codes, strict=True):
            function.__code__ = code


def require_number(
    what: str,
    number: object,
    expected: Real,
    tolerance: float = 1e-4,
    mistakes: Mapping[str, Real] = MappingProxyType({}),
) -> None:
    """Compare a number with the right one.

    Args:
        what: What the number is, as the subject of a sentence in the singular.
        number: The reader's; a tensor with one element is a number, too.
        expected: The right one. An integer must be met exactly.
        tolerance: How far another number may be off, as a share of the right one; or,
            close to zero, absolutely.
        mistakes: What likely mistakes give, by the sentence that names the mistake.

    Raises:
        MistakeError: The numbers differ, or the reader's is none.
    """
    if isinstance(number, torch.Tensor) and number.numel() == 1:
        number = number.item()
    if isinstance(number, bool) or not isinstance(number, Real):
        raise MistakeError(
            f"{what} is of type {type(number).__name__}; return a number."
        )
    limit = 0.0 if isinstance(expected, int) else tolerance
    if math.isclose(number, expected, rel_tol=limit, abs_tol=limit):
        return
    for sentence, wrong in mistakes.items():
        require(not math.isclose(number, wrong, rel_tol=1e-4), sentence)
    shown = number if isinstance(number, Integral) else f"{number:.6g}"
    raise MistakeError(f"{what} is not {shown}.")
