"""Products that need no other's result share a number; a chain counts up."""

import pytest
import torch
from torch import nn

from transformer_lite_book.critical_path import NumberedProducts, numbered_products

pytestmark = pytest.mark.usefixtures("types_unchecked")


def test_independent_products_share_a_number_and_a_chain_counts_up():
    a, b = torch.ones(3, 4), torch.ones(4, 4)
    with NumberedProducts() as products:
        left, right = a @ b, a.relu() @ b  # need none
        ((left + right).tanh() @ b).sum()  # needs both
    assert products.path == 2
    assert products.work == {1: 2 * 3 * 4 * 4, 2: 3 * 4 * 4}


def test_every_operation_counts_if_wanted():
    x = torch.ones(2, 2)
    with NumberedProducts(every_operation=True) as operations:
        (x @ x).exp().log()
    assert operations.path == 3  # @, exp, log


def test_a_view_writes_no_number_and_is_no_operation():
    x = torch.ones(5, 2)
    with NumberedProducts(every_operation=True) as operations:
        x[1:].mT[0].exp()
    assert operations.path == 1
    assert operations.written == 4


def test_a_product_with_a_batch_is_one_operation_and_writes_its_result():
    a, b = torch.ones(2, 3, 4), torch.ones(4, 5)  # PyTorch multiplies (6, 4) by (4, 5)
    with NumberedProducts(every_operation=True) as operations:
        a @ b
    assert operations.path == 1
    assert operations.written == 2 * 3 * 5


@pytest.mark.parametrize("n", [1, 2, 9])
def test_a_recurrent_layer_takes_a_step_for_each_word_and_twice_in_training(n):
    gru, x = nn.GRU(4, 4, batch_first=True), torch.randn(2, n, 4)
    assert numbered_products(lambda x: gru(x)[0], x).path == n
    assert numbered_products(lambda x: gru(x)[0], x, backward=True).path == 2 * n
    plain = nn.Linear(4, 4)
    assert numbered_products(plain, x).path == 1
    assert numbered_products(plain, x, backward=True).path == 2
