"""How a check compares a reader's work with the book's, and names what is wrong.

A check knows the results of well-known mistakes. If the reader's result is one of them,
its sentence says which mistake it is.

Paper: §3, 5.1, 5.3–5.4, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_checks.py
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import torch
from torch import Tensor, nn

Mistakes = Mapping[str, Tensor | list[Tensor]]
"""Sentences about mistakes, each with what the mistake gives; variants as a list."""


class Fault(Exception):
    """What is wrong with a part, and where to look, in one sentence."""


def random(*shape: int, seed: int = 0) -> Tensor:
    """Return normally distributed numbers, the same ones every time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def same(found: Tensor, expected: Tensor) -> bool:
    """Return whether shapes are equal, and numbers but for rounding."""
    if found.shape != expected.shape:
        return False
    found, expected = found.detach().double(), expected.detach().double()
    return torch.allclose(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def require_equal(
    what: str,
    found: object,
    expected: Tensor,
    mistakes: Mistakes = MappingProxyType({}),
) -> None:
    """Compare a result with the right one, and with those of known mistakes.

    Args:
        what: What the result is, as the subject of a sentence in the singular.
        found: The reader's.
        expected: The right one.
        mistakes: What may have gone wrong.

    Raises:
        Fault: The results differ.
    """
    if not isinstance(found, Tensor):
        raise Fault(f"{what} is of type {type(found).__name__}; return a tensor.")
    if expected.dtype == torch.bool:
        require(found.dtype == torch.bool, f"{what} should hold True and False only.")
    require(not found.is_complex(), f"{what} should hold real numbers.")
    if same(found, expected):
        return
    for sentence, results in mistakes.items():
        variants = results if isinstance(results, list) else [results]
        if any(same(found, variant) for variant in variants):
            raise Fault(sentence)
    if found.shape != expected.shape:
        shapes = tuple(found.shape), tuple(expected.shape)
        raise Fault("{} has the shape {}; it should be {}.".format(what, *shapes))
    if not found.isfinite().all():
        raise Fault(f"{what} holds values that are not finite (inf or nan).")
    apart = (found.detach().double() - expected.double()).abs().max()
    raise Fault(f"{what} differs from the book's by up to {apart:.2g}.")


def require(holds: bool, sentence: str) -> None:
    """Raise the sentence as a `Fault` unless the condition holds."""
    if not holds:
        raise Fault(sentence)


@contextmanager
def unchanged(**tensors: Tensor) -> Iterator[None]:
    """Check that nothing inside the block changes its arguments.

    Raises:
        Fault: A tensor has other values than before; the sentence names it.
    """
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    yield
    for name, tensor in tensors.items():
        changed = (
            f"Your code changes its argument {name} in place; compute a new tensor."
        )
        require(torch.equal(tensor, before[name]), changed)


def copy_weights(
    book: nn.Module, reader: nn.Module, names: Callable[[str], str] = str
) -> None:
    """Give a reader's module the weights of the book's.

    The parameters may have the names that the docstring asks for, or the book's shapes
    in the book's order. Queries, keys and values may share one matrix, as in
    `nn.MultiheadAttention`. Further biases become 0.

    Args:
        book: The book's module.
        reader: The reader's.
        names: From a parameter's name in the book to the reader's.

    Raises:
        Fault: There is no place for a weight, or too many.
    """
    wanted = {names(name): p.detach() for name, p in book.named_parameters()}
    found = dict(reader.named_parameters())
    if not wanted.keys() <= found.keys():
        wanted = _packed(wanted, found)
    extra = found.keys() - wanted.keys()
    missing = [name for name in wanted if name not in found]
    kind = type(reader).__name__
    if missing:
        raise Fault(
            f"{kind} has no parameter {missing[0]}; take the docstring's names."
        )
    not_biases = sorted(name for name in extra if not name.endswith("bias"))
    if not_biases:
        raise Fault(
            f"{kind} has one more parameter than the book's, {not_biases[0]}; look for "
            "a layer or a matrix that should be shared or left out."
        )
    with torch.no_grad():
        for name, parameter in found.items():
            value = wanted.get(name, torch.zeros_like(parameter))
            if parameter.shape != value.shape:
                shapes = tuple(parameter.shape), tuple(value.shape)
                raise Fault(
                    "{}: {} has the shape {}; it should be {}.".format(
                        kind, name, *shapes
                    )
                )
            parameter.copy_(value)


def require_gradients(module: nn.Module, output: Tensor) -> None:
    """Check that every parameter has a gradient.

    Raises:
        Fault: One has none; the sentence names it.
    """
    module.zero_grad()
    (output * random(*output.shape, seed=9)).sum().backward()
    for name, parameter in module.named_parameters():
        reached = parameter.grad is not None and bool(parameter.grad.any())
        if not reached and not name.endswith("bias"):
            raise Fault(
                f"No gradient reaches the parameter {name}; use it, and do not detach "
                "tensors on the way."
            )


def _packed(wanted: dict[str, Tensor], found: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the book's weights under the reader's names, matched by their order.

    If the shapes differ, each matrix of the reader takes as many of the book's,
    stacked, as fill its rows.
    """
    weights = [p for name, p in found.items() if not name.endswith("bias")]
    names = [name for name in found if not name.endswith("bias")]
    if [p.shape for p in found.values()] == [value.shape for value in wanted.values()]:
        return dict(zip(found, wanted.values(), strict=True))
    rest, filled = list(wanted.values()), {}
    for name, parameter in zip(names, weights, strict=True):
        taken: list[Tensor] = []
        while rest and sum(map(len, taken)) < len(parameter):
            taken.append(rest.pop(0))
        if not taken or torch.cat(taken).shape != parameter.shape:
            return wanted
        filled[name] = torch.cat(taken)
    return wanted if rest else filled
