"""Our model with its weights, gradients and moments spread over several processes.

The package's trainer keeps them whole in every process, which is enough for the paper's
models. PyTorch's `fully_shard` needs five lines, and the package's step stays as it is:

    torchrun --nproc-per-node 2 examples/fsdp2.py

This needs PyTorch 2.7. The losses are those of one process, `python examples/fsdp2.py`.
"""

import argparse
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from torch import optim
from torch.distributed.checkpoint import state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from transformer_lite.batching import BatchStream, Sequences
from transformer_lite.config import TINY
from transformer_lite.data.toy import generate_pairs
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam, noam_schedule
from transformer_lite.tokenizer import Tokenizer
from transformer_lite.training.distributed import Processes, join_processes
from transformer_lite.training.step import Objective, train_step

WHOLE = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)


def shard(objective: Objective, processes: Processes) -> None:
    """Give every process a part of each tensor.

    A layer's weights are gathered when it computes, and forgotten afterwards. All that
    is in no layer belongs to the last group: above all the matrix that encoder, decoder
    and output share. It must not be in two groups. In PyTorch 2.7 each of them would
    train a matrix of its own, without a word.
    """
    mesh = init_device_mesh(processes.device.type, (processes.world_size,))
    model = objective.model
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        fully_shard(layer, mesh=mesh)
    fully_shard(objective, mesh=mesh)


def own_numbers(optimizer: optim.Optimizer) -> int:
    """Count the weights that this process steps."""
    parts = [p for group in optimizer.param_groups for p in group["params"]]
    return sum(getattr(p, "to_local", lambda p=p: p)().numel() for p in parts)


def main(steps: int, out: Path | None) -> None:
    """Take some steps on the toy grammar; write the whole weights to `out`."""
    pairs = [(p.source, p.target) for p in islice(generate_pairs(seed=1), 500)]
    tokenizer = Tokenizer.train((line for pair in pairs for line in pair), 300)
    sides = zip(*pairs, strict=True)
    ids = [Sequences.from_lists(map(tokenizer.encode, side)) for side in sides]
    config = replace(TINY, vocab_size=tokenizer.vocab_size)
    with join_processes() as processes:
        place = (6, processes.rank, processes.world_size)  # six batches a step
        stream = BatchStream(*ids, 200, 1, *place).steps()
        torch.manual_seed(1)
        model = Transformer(config).double().to(processes.device)
        objective = Objective(model, smoothing=0.1)
        if processes.world_size > 1:
            shard(objective, processes)
        # Only now: an Adam of before would step tensors that nobody uses any more.
        optimizer = adam(objective.parameters(), rate=0.5)
        schedule = noam_schedule(optimizer, config.d_model, warmup=150)
        own = own_numbers(optimizer)
        print(f"process {processes.rank} keeps {own:,} numbers", flush=True)
        for step, (batches, _) in enumerate(islice(stream, steps)):
            # The step's report also has the gradient's norm. In PyTorch 2.7 that is the
            # norm of this process's part.
            seed = (1, step)
            report = train_step(objective, batches, optimizer, seed, processes)
            schedule.step()
            if processes.rank == 0:
                print(f"step {step + 1}   loss {report.loss:.12f}")
        weights = state_dict.get_model_state_dict(model, options=WHOLE)
        if processes.rank == 0 and out:
            torch.save(weights, out)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--steps", type=int, default=5)
    options.add_argument("--out", type=Path, help="file for the weights")
    main(**vars(options.parse_args()))
