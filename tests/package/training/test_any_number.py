"""One, two or three processes take the same step of any recipe."""

from dataclasses import replace

import pytest
import torch
from small_runs import free_port, pairs
from test_distributed import become
from torch import multiprocessing
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from transformer_lite.batching import BatchStream, batches_per_step
from transformer_lite.config import RECIPE_NAMES, load_recipe
from transformer_lite.model import Transformer
from transformer_lite.training.distributed import ONE_CPU, join_processes
from transformer_lite.training.step import Objective, train_step

SMALL = {"vocab_size": 17, "num_layers": 1, "d_model": 6, "d_ff": 7, "num_heads": 2}
TOKENS = 17
"""A batch's: it has from two sentences, fewer than three processes, to eight."""


def steps_of(name, processes):
    """Weights and reports of three steps of a recipe on a small model and batches."""
    recipe = load_recipe(name)
    number = batches_per_step(recipe.train)
    place = (number, processes.rank, processes.world_size)
    steps = BatchStream(*pairs(67), TOKENS, recipe.train.seed, *place).steps()
    # What dropout drops depends on how the batches are cut.
    config = replace(recipe.model, **SMALL, max_len=23, dropout=0.0)
    torch.manual_seed(recipe.train.seed)
    model = Transformer(config).double()
    objective = Objective(model, recipe.train.label_smoothing)
    if processes.world_size > 1:
        objective = DistributedDataParallel(objective)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)  # its step is the gradient
    found = []
    for _ in range(3):
        report = train_step(objective, next(steps).batches, optimizer, (1,), processes)
        weights = [parameter.detach().flatten() for parameter in model.parameters()]
        measured = (report.loss, report.nll, report.tokens, report.gradient_norm)
        found.append((torch.cat(weights), measured))
    return found


def all_recipes(processes):
    return {name: steps_of(name, processes) for name in RECIPE_NAMES}


def as_rank(rank, port, world_size, results):
    become(rank, port, world_size)
    with join_processes() as processes:
        torch.save(all_recipes(processes), results / f"{rank}.pt")


@pytest.fixture(scope="module")
def alone(types_unchecked):
    return all_recipes(ONE_CPU)


@pytest.fixture(scope="module", params=[2, 3])
def together(request, tmp_path_factory, types_unchecked, fork_server):
    """What each of two or of three processes found."""
    results = tmp_path_factory.mktemp("ranks")
    arguments = (free_port(), request.param, results)
    multiprocessing.start_processes(
        as_rank, arguments, request.param, start_method="forkserver"
    )
    return [torch.load(results / f"{rank}.pt") for rank in range(request.param)]


@pytest.mark.parametrize("name", RECIPE_NAMES)
def test_any_number_of_processes_takes_the_steps_of_one(alone, together, name):
    for found in together:
        for own, expected in zip(found[name], alone[name], strict=True):
            assert_close(own[0], expected[0], rtol=0, atol=1e-12)
            assert own[1] == pytest.approx(expected[1], rel=1e-12)
