"""How a check compares a reader's work with the book's, and names what is wrong.

A check knows the results of well-known mistakes. If the reader's result is one of them,
its sentence says which mistake it is.

Paper: §3, 5.1, 5.3–5.4, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_checks.py
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

Mistakes = Mapping[str, Tensor | list[Tensor]]
"""Sentences about mistakes, each with what the mistake gives; variants as a list."""


class MistakeError(Exception):
    """What is wrong with a part, and where to look, in one sentence."""


def random(*shape: int, seed: int = 0) -> Tensor:
    """Return normally distributed numbers, the same ones every time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def is_same(result: Tensor, expected: Tensor) -> bool:
    """Return whether shapes are equal, and numbers but for rounding."""
    if result.shape != expected.shape:
        return False
    result, expected = result.detach().double(), expected.detach().double()
    return torch.allclose(result, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def require(holds: bool | Tensor, sentence: str) -> None:
    """Raise the sentence as a `MistakeError` unless the condition holds."""
    if not holds:
        raise MistakeError(sentence)


def require_equal(
    what: str,
    result: object,
    expected: Tensor,
    mistakes: Mistakes = MappingProxyType({}),
) -> None:
    """Compare a result with the right one, and with those of known mistakes.

    Args:
        what: What the result is, as the subject of a sentence in the singular.
        result: The reader's.
        expected: The right one.
        mistakes: What may have gone wrong.

    Raises:
        MistakeError: The results differ.
    """
    if not isinstance(result, Tensor):
        kind = type(result).__name__
        raise MistakeError(f"{what} is of type {kind}; return a tensor.")
    if expected.dtype == torch.bool:
        require(result.dtype == torch.bool, f"{what} should hold True and False only.")
    require(not result.is_complex(), f"{what} should hold real numbers.")
    if is_same(result, expected):
        return
    for sentence, results in mistakes.items():
        variants = results if isinstance(results, list) else [results]
        require(not any(is_same(result, variant) for variant in variants), sentence)
    require_shape(what, result, expected)
    finite = bool(result.isfinite().all())
    require(finite, f"{what} holds values that are not finite (inf or nan).")
    apart = (result.detach().double() - expected.double()).abs().max()
    raise MistakeError(f"{what} differs from the book's by up to {apart:.2g}.")


def with_pairs(
    compute: Callable[..., Tensor], changes: Mapping[str, Mapping[str, Any]]
) -> dict[str, Tensor]:
    """Return what each mistake gives, and then each two of them together.

    Args:
        compute: Gives the result, with changed steps as keyword arguments.
        changes: The steps that each mistake changes.
    """
    wrong = {sentence: compute(**steps) for sentence, steps in changes.items()}
    for (one, steps), (other, others) in combinations(changes.items(), 2):
        if not steps.keys() & others.keys():
            wrong[f"Two mistakes. {one} {other}"] = compute(**steps, **others)
    return wrong


def require_shape(what: str, result: Tensor, expected: Tensor) -> None:
    """Compare the shape of a result with that of the right one.

    Raises:
        MistakeError: The shapes differ.
    """
    has, wanted = tuple(result.shape), tuple(expected.shape)
    require(has == wanted, f"{what} has the shape {has}; it should be {wanted}.")


@contextmanager
def unchanged(**tensors: Tensor) -> Iterator[None]:
    """Check that nothing inside the block changes its arguments.

    Raises:
        MistakeError: A tensor has other values than before; the sentence names it.
    """
    copies = {name: tensor.clone() for name, tensor in tensors.items()}
    yield
    for name, tensor in tensors.items():
        sentence = (
            f"Your code changes its argument {name} in place; compute a new tensor."
        )
        require(torch.equal(tensor, copies[name]), sentence)


def copy_weights(
    book: nn.Module, reader: nn.Module, rename: Callable[[str], str] = str
) -> None:
    """Give a reader's module the weights of the book's.

    The parameters may have the names that the docstring asks for, or the book's shapes
    in the book's order. Queries, keys and values may share one matrix, as in
    `nn.MultiheadAttention`. Further biases become 0.

    Args:
        book: The book's module.
        reader: The reader's.
        rename: From a parameter's name in the book to the reader's.

    Raises:
        MistakeError: There is no place for a weight, or too many.
    """
    weights = {rename(name): p.detach() for name, p in book.named_parameters()}
    parameters = dict(reader.named_parameters())
    if not weights.keys() <= parameters.keys():
        weights = _matched_by_order(weights, parameters)
    kind = type(reader).__name__
    for name in weights:
        sentence = f"{kind} has no parameter {name}; take the docstring's names."
        require(name in parameters, sentence)
    for name in sorted(parameters.keys() - weights.keys()):
        require(
            name.endswith("bias"),
            f"{kind} has one more parameter than the book's, {name}; look for a layer "
            "or a matrix that should be shared or left out.",
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            weight = weights.get(name, torch.zeros_like(parameter))
            require_shape(f"{kind}: {name}", parameter, weight)
            parameter.copy_(weight)


def _matched_by_order(
    weights: dict[str, Tensor], parameters: dict[str, nn.Parameter]
) -> dict[str, Tensor]:
    """Return the book's weights under the reader's names, matched by their order.

    If the shapes differ, each matrix of the reader takes as many of the book's,
    stacked, as fill its rows.
    """
    shapes = [parameter.shape for parameter in parameters.values()]
    if shapes == [weight.shape for weight in weights.values()]:
        return dict(zip(parameters, weights.values(), strict=True))
    rest, matched = list(weights.values()), {}
    for name, parameter in parameters.items():
        if name.endswith("bias"):
            continue
        rows: list[Tensor] = []
        while rest and sum(map(len, rows)) < len(parameter):
            rows.append(rest.pop(0))
        if not rows or torch.cat(rows).shape != parameter.shape:
            return weights
        matched[name] = torch.cat(rows)
    return weights if rest else matched


def require_gradients(module: nn.Module, output: Tensor) -> None:
    """Check that every parameter has a gradient.

    Raises:
        MistakeError: One has none; the sentence names it.
    """
    module.zero_grad()
    (output * random(*output.shape, seed=9)).sum().backward()
    for name, parameter in module.named_parameters():
        has_gradient = parameter.grad is not None and bool(parameter.grad.any())
        require(
            has_gradient or name.endswith("bias"),
            f"No gradient reaches the parameter {name}; use it, and do not detach "
            "tensors on the way.",
        )
