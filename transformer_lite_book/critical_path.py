"""How many matrix products must run one after another, read off while PyTorch runs.

Paper: Table 1
Chapter: 04_why_self_attention
Tests: tests/book/test_critical_path.py
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry


def is_view(operation: Any) -> bool:
    """Return whether an operation of ATen only looks at a tensor in another way.

    `_unsafe_view` does so, too, but PyTorch does not call it a view.
    """
    return operation.is_view or operation is torch.ops.aten._unsafe_view.default


class NumberedProducts(TorchDispatchMode):
    """Number each matrix product: 1 + the largest number among those that it needs.

    Attributes:
        work: The multiplications of all products with the same number.
        written: How many numbers all operations write; a view of a tensor writes none.

    Args:
        every_operation: Whether any operation but a view counts as a product.
    """

    def __init__(self, every_operation: bool = False) -> None:
        super().__init__()
        self.every_operation = every_operation
        self.work: Counter[int] = Counter()
        self.written = 0
        self._numbers: dict[int, int] = {}  # of the memory of each tensor
        self._kept: list[Tensor] = []  # so that no other tensor gets its memory

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        needed = (self._numbers.get(_memory(t), 0) for t in _tensors((args, kwargs)))
        number = max(needed, default=0)
        flops = flop_registry.get(func.overloadpacket)
        number += flops is not None or (self.every_operation and not is_view(func))
        if flops is not None:  # a multiplication and an addition are two
            self.work[number] += flops(*args, **kwargs, out_val=result) // 2
        for tensor in _tensors(result):
            self.written += 0 if is_view(func) else tensor.numel()
            self._numbers[_memory(tensor)] = number
            self._kept.append(tensor)
        return result

    @property
    def path(self) -> int:
        """The largest number: the length of the critical path."""
        return max(self._numbers.values(), default=0)


def numbered_products(
    layer: Callable[[Tensor], Tensor], x: Tensor, *, backward: bool = False
) -> NumberedProducts:
    """Run a layer, and its backward pass if wanted, and number the products."""
    x = x.detach().requires_grad_(backward)
    with NumberedProducts() as products, torch.set_grad_enabled(backward):
        y = layer(x)
        if backward:
            y.sum().backward()
    return products


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]
