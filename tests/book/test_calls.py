"""What an answer calls is heard, whichever way it calls it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from transformer_lite.book.calls import torch_calls


@pytest.mark.parametrize(
    "softmax",
    [
        lambda x: x.softmax(-1),
        lambda x: torch.softmax(x, -1),
        lambda x: F.softmax(x, dim=-1),
        nn.Softmax(dim=-1),
    ],
)
def test_every_way_to_call_a_function_is_heard(softmax):
    assert "softmax" in torch_calls(softmax, torch.ones(2, 3))


def test_calls_are_in_order_and_no_others_are_heard():
    names = torch_calls(lambda x: (x.exp() + 1).sum(), torch.ones(2))
    assert names == ["exp", "add", "sum"]


def test_a_loop_makes_more_calls_for_longer_inputs():
    def loop(x):
        return torch.stack([row * 2 for row in x])

    calls = [len(torch_calls(loop, torch.ones(n))) for n in (2, 20)]
    assert calls[1] - calls[0] == 18
