"""Which functions of PyTorch an answer calls, for exercises that rule some out.

Paper: §2, 3.2
Chapter: 02_background, 03_2_1_scaled_dot_product_attention, 07_conclusion
Tests: tests/book/test_calls.py
"""

from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode


class _Listening(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def torch_calls(function: Callable[..., Any], *args: Any) -> list[str]:
    """List the PyTorch functions that `function(*args)` calls, in order.

    A function and the method of the same name count as one (`softmax`); what PyTorch
    itself calls inside of a function does not count, unless that is written in Python.
    """
    with _Listening() as listening:
        function(*args)
    return listening.names
