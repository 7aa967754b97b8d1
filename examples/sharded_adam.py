"""Adam's moments spread over several processes, which is ZeRO's first stage.

Every process keeps all weights and gradients, but takes the step for its part of the
weights alone, and the others send it theirs. So it needs the moments of its part only,
half of the memory of training divided by the number of processes:

    torchrun --nproc-per-node 2 examples/sharded_adam.py
"""

from collections.abc import Iterable
from itertools import islice

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from transformer_lite.batching import BatchStream, Sequences
from transformer_lite.config import ModelConfig
from transformer_lite.data.toy import generate_pairs
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam
from transformer_lite.tokenizer import Tokenizer
from transformer_lite.training.distributed import Processes, join_processes
from transformer_lite.training.step import Objective, train_step

MOMENTS = ("exp_avg", "exp_avg_sq")


class ShardedAdam:
    """The package's Adam, each process with the moments of its part of the weights.

    The gradients must be equal in all processes, as `DistributedDataParallel` has them.
    Make it first: the weights become views of one long vector, which it cuts.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], rate: float, processes: Processes
    ) -> None:
        self.parameters = list(parameters)
        weights = parameters_to_vector(self.parameters).detach()
        self.size = -(-len(weights) // processes.world_size)  # rounded up
        padding = self.size * processes.world_size - len(weights)
        self.flat = nn.functional.pad(weights, (0, padding))
        vector_to_parameters(self.flat, self.parameters)  # they are views of it now
        self.parts = list(self.flat.split(self.size))
        self.rank = processes.rank
        self.own = nn.Parameter(self.parts[self.rank].clone())
        self.adam = adam([self.own], rate)  # for a schedule, too

    def step(self) -> None:
        """Step the own part of the weights, and gather those of all processes."""
        gradients = parameters_to_vector(p.grad for p in self.parameters)
        gradients = nn.functional.pad(gradients, (0, len(self.flat) - len(gradients)))
        self.own.grad = gradients.split(self.size)[self.rank]
        self.adam.step()
        dist.all_gather(self.parts, self.own.detach())

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in (self.own, *self.parameters):
            parameter.grad = None


def train(sharded: bool, processes: Processes) -> tuple[torch.Tensor, int]:
    """Take three steps; return the weights, and how many moments this process has."""
    pairs = [(p.source, p.target) for p in islice(generate_pairs(seed=1), 500)]
    tokenizer = Tokenizer.train((line for pair in pairs for line in pair), 300)
    sides = zip(*pairs, strict=True)
    ids = [Sequences.from_lists(map(tokenizer.encode, side)) for side in sides]
    place = (6, processes.rank, processes.world_size)  # six batches a step
    steps = BatchStream(*ids, 200, 1, *place).steps()
    shape = {"num_layers": 2, "d_model": 64, "d_ff": 128, "num_heads": 4}
    torch.manual_seed(1)
    model = Transformer(ModelConfig(vocab_size=tokenizer.vocab_size, **shape))
    objective = Objective(model.double().to(processes.device), smoothing=0.1)
    optimizer = ShardedAdam(model.parameters(), 1e-3, processes)
    if not sharded:
        optimizer = adam(model.parameters(), 1e-3)
    parallel = DistributedDataParallel(objective)
    for step, (batches, _) in enumerate(islice(steps, 3)):
        train_step(parallel, batches, optimizer, (1, step), processes)
    states = getattr(optimizer, "adam", optimizer).state.values()
    moments = sum(state[name].numel() for state in states for name in MOMENTS)
    return parameters_to_vector(model.parameters()).detach(), moments


if __name__ == "__main__":
    with join_processes() as processes:
        if processes.world_size == 1:
            raise SystemExit("start at least two: torchrun --nproc-per-node 2 …")
        whole, all_moments = train(False, processes)
        shared, own_moments = train(True, processes)
        apart = (whole - shared).abs().max()
        print(
            f"process {processes.rank} of {processes.world_size}: {own_moments:,} of "
            f"{all_moments:,} moments, weights at most {apart:.0e} apart",
            flush=True,
        )
