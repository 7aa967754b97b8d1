"""A few steps of a small model on several processes, held against those of one.

Chapters' programs bring their own way to share a model, its gradients and its moments.
Everything is in fp64, so that a mistake is far larger than rounding.

Paper: §5.2
Chapter: why_eight_gpus_are_not_eight_times_faster
Tests: tests/book/test_small_step.py
"""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from transformer_lite import Translator
from transformer_lite.attention import MultiHeadAttention
from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig
from transformer_lite.layers import FeedForward
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam
from transformer_lite.tokenizer import EOS
from transformer_lite.training.distributed import ONE_CPU, Processes, join_processes
from transformer_lite.training.step import Objective, train_step

SMALL_VOCABULARY = 97
SMALL_RATE = 1e-3
BATCHES_OF_STEP = 6
"""A step's batches, which one, two and three processes can share."""
MOMENTS = ("exp_avg", "exp_avg_sq")

Preparation = Callable[[Objective, Processes], tuple[nn.Module, Any]]
"""From an objective to what computes the loss in its place, and the optimizer."""


def small_objective() -> Objective:
    """Return the model before its first step, with its loss."""
    torch.manual_seed(1)
    shape = {"d_model": 32, "d_ff": 64, "num_heads": 4, "dropout": 0.0}
    config = ModelConfig(vocab_size=SMALL_VOCABULARY, num_layers=2, **shape)
    return Objective(Transformer(config).double(), smoothing=0.1)


def batches_of_step(step: int, processes: Processes) -> list[Batch]:
    """Return this process's batches of a step; their tokens differ."""
    drawn = random.Random(step)
    batches = []
    for _ in range(BATCHES_OF_STEP):
        length = drawn.randrange(4, 12)
        sides = [
            [
                [drawn.randrange(5, SMALL_VOCABULARY) for _ in range(length)]
                for _ in range(3)
            ]
            for _ in range(2)
        ]
        batches.append(Batch.from_ids(*sides))
    return batches[processes.rank :: processes.world_size]


def one_adam(objective: Objective, processes: Processes) -> tuple[nn.Module, Any]:
    """Share nothing."""
    return objective, adam(objective.parameters(), SMALL_RATE)


def train_small(
    prepare: Preparation, processes: Processes, steps: int
) -> tuple[Tensor, int]:
    """Take steps; return all weights, and how many moments this process keeps."""
    objective = small_objective()
    module, optimizer = prepare(objective, processes)
    for step in range(steps):
        train_step(
            module, batches_of_step(step, processes), optimizer, processes=processes
        )
    weights = parameters_to_vector(_whole(p.detach()) for p in objective.parameters())
    states = getattr(optimizer, "adam", optimizer).state.values()
    moments = [_own(state[name]) for state in states for name in MOMENTS]
    return weights, sum(moment.numel() for moment in moments)


def compare_with_one(prepare: Preparation, steps: int = 3) -> None:
    """Train on the processes that torchrun started, and on one; print how they differ.

    Raises:
        AssertionError: The weights differ by more than rounding.
    """
    with join_processes() as processes:
        start, _ = train_small(one_adam, ONE_CPU, 0)
        alone, all_moments = train_small(one_adam, ONE_CPU, steps)
        together, moments = train_small(prepare, processes, steps)
        apart = float((together - alone).abs().max())
        moved = float((together - start).abs().max())
        print(f"process {processes.rank}: keeps {moments:,} of {all_moments:,} moments")
        if processes.rank == 0:
            print(f"largest change of a weight in {steps} steps: {moved:.1g}")
            # Rounding differs from machine to machine; its size is enough.
            size = "below 1e-12" if apart < 1e-12 else f"{apart:.1g}"
            print(f"largest difference from one process: {size}")
        assert apart < 1e-12, (
            f"these are not the steps of one process: the weights have moved by up to "
            f"{moved:.1g}, and differ from its weights by up to {apart:.1g}"
        )


def compare_optimizer(make: Callable[..., Any]) -> None:
    """Compare an optimizer that shares its moments, made of weights, rate and place."""

    def prepare(
        objective: Objective, processes: Processes
    ) -> tuple[nn.Module, _Clearing]:
        parameters = list(objective.parameters())
        optimizer = make(parameters, SMALL_RATE, processes)
        return DistributedDataParallel(objective), _Clearing(optimizer, objective)

    compare_with_one(prepare)


class _Clearing:
    """An optimizer, and the gradients that are cleared after its step."""

    def __init__(self, optimizer: Any, objective: Objective) -> None:
        self.step, self.adam = optimizer.step, optimizer.adam
        self.zero_grad = objective.zero_grad


def joined_vector(parameters: list[nn.Parameter], number: int) -> Tensor:
    """Make parameters views of one vector, padded so that `number` divides it."""
    weights = parameters_to_vector(parameters).detach()
    whole = pad(weights, (0, -len(weights) % number))
    vector_to_parameters(whole, parameters)
    return whole


def gradient_vector(parameters: list[nn.Parameter], length: int) -> Tensor:
    """Return all gradients as one vector, padded to this length."""
    gradients = parameters_to_vector(p.grad for p in parameters)
    return pad(gradients, (0, length - len(gradients)))


def compare_translations(
    share_attention: Callable[[MultiHeadAttention, Processes], None],
) -> None:
    """Share a trained translator between processes; compare it with the whole one.

    Args:
        share_attention: Leaves a process its part of the heads of a sub-layer.

    Raises:
        AssertionError: Logits differ by more than rounding, or the translation does.
    """
    sentence = "A small dog runs after a red ball."
    with join_processes() as processes:
        translator = Translator.load("multi30k_en_de", device="cpu")
        model = translator.model.double()
        ids = torch.tensor([[*translator.tokenizer.encode(sentence), EOS]])
        whole, german = model(ids, ids).detach(), translator.translate(sentence)
        numbers = model.num_parameters()
        for layer in model.modules():
            if isinstance(layer, MultiHeadAttention):
                share_attention(layer, processes)
            elif isinstance(layer, FeedForward):
                share_feed_forward(layer, processes)
        apart = float((model(ids, ids).detach() - whole).abs().max())
        own = sum(p.numel() for p in model.parameters())
        print(f"process {processes.rank}: {own:,} of {numbers:,} weights")
        if processes.rank == 0:
            size = "below 1e-12" if apart < 1e-12 else f"{apart:.1g}"
            print(f"largest logit {whole.abs().max():.1f}, difference {size}")
            print(german)
        assert apart < 1e-12, "these are not the logits of one process"
        assert translator.translate(sentence) == german


def own_part(tensor: Tensor, axis: int, processes: Processes) -> nn.Parameter:
    """Return this process's part of a tensor that is divided along an axis."""
    parts = tensor.detach().chunk(processes.world_size, axis)
    return nn.Parameter(parts[processes.rank].clone())


def share_feed_forward(layer: FeedForward, processes: Processes) -> None:
    """Leave this process its part of the inner units; the others' outputs are added."""
    layer.w_1.weight = own_part(layer.w_1.weight, 0, processes)
    layer.w_1.bias = own_part(layer.w_1.bias, 0, processes)
    layer.w_2.weight = own_part(layer.w_2.weight, 1, processes)
    if processes.rank > 0:  # a bias behind the sum is added once
        nn.init.zeros_(layer.w_2.bias)
    layer.w_2.register_forward_hook(lambda *given: processes.all_reduce(given[-1]))


def _whole(tensor: Tensor) -> Tensor:
    """Return all of a tensor of which every process has a part."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _own(tensor: Tensor) -> Tensor:
    """Return this process's part."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
