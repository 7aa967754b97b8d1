"""Train four layer types to recall a word that stands some distance away.

A sentence is a key word, noise, and a question; the answer is the key word. Each
network has as many layers as a signal needs for the distance. It has learned once 95 %
of new answers are right.

python -m results.recall
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.attention import scaled_dot_product_attention
from transformer_lite_book.recordings import RECALL

KEYS, NOISE, WIDTH = 8, 8, 32
"""Different key words, different words of noise, and the width of all layers."""
QUESTION = KEYS + NOISE
DISTANCES = (4, 8, 16, 32, 64)
CONTROL = 4
"""In the control, the key word is this near in the longest sentences."""
SEEDS = (1, 2, 3)
RATES = (3e-3, 1e-3)
"""Where the first learning rate fails, the second one is tried."""
STEPS, EVERY, BATCH, TEST = 400, 20, 32, 400
LEARNED = 0.95


class Convolutions(nn.Module):
    """Convolutions, each with a residual connection."""

    def __init__(self, shapes: list[tuple[int, int]]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(WIDTH, WIDTH, width, padding=gap * (width // 2), dilation=gap)
            for width, gap in shapes
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return a vector for each word."""
        x = x.mT
        for layer in self.layers:
            x = x + F.relu(layer(x))
        return x.mT


class Recurrence(nn.GRU):
    """A GRU that returns its states."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a state for each word."""
        return super().forward(x)[0]


class SelfAttention(nn.Module):
    """One head, with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        """Return a vector for each word."""
        query, key, value = (part(x) for part in self.parts)
        return x + scaled_dot_product_attention(query, key, value)[0]


LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "recurrence": lambda distance: Recurrence(WIDTH, WIDTH, batch_first=True),
    "ConvS2S": lambda distance: Convolutions([(5, 1)] * math.ceil(distance / 2)),
    "ByteNet": lambda distance: Convolutions(
        [(3, 2**number) for number in range(math.ceil(math.log2(distance + 1)))]
    ),
    "self-attention": lambda distance: SelfAttention(),
}


def sentences(
    number: int, length: int, distance: int, random: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return sentences that end in the question, and their answers."""
    ids = torch.randint(KEYS, QUESTION, (number, length), generator=random)
    answers = torch.randint(0, KEYS, (number,), generator=random)
    ids[:, -1 - distance], ids[:, -1] = answers, QUESTION
    return ids, answers


def train(name: str, depth: int, distance: int, seed: int, rate: float) -> Any:
    """Train a network that can reach `depth` words; return steps and share right."""
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    network = nn.Sequential(
        nn.Embedding(QUESTION + 1, WIDTH), LAYERS[name](depth), nn.Linear(WIDTH, KEYS)
    )
    adam = torch.optim.Adam(network.parameters(), rate)
    for step in range(1, STEPS + 1):
        ids, answers = sentences(BATCH, depth + 1, distance, random)
        loss = F.cross_entropy(network(ids)[:, -1], answers)
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step % EVERY == 0:
            with torch.no_grad():
                ids, answers = sentences(TEST, depth + 1, distance, random)
                hits = network(ids)[:, -1].argmax(-1) == answers
            share = hits.float().mean().item()
            if share >= LEARNED:
                break
    return {"steps": step, "right": round(share, 3), "rate": rate}


def best_of_rates(*given: Any) -> dict[str, Any]:
    """Train with the first rate, and with the next ones while it does not learn."""
    found = []
    for rate in RATES:
        found.append(train(*given, rate))
        if found[-1]["right"] >= LEARNED:
            break
    return max(found, key=lambda one: one["right"])


def main() -> None:
    """Train each layer type at each distance, and the control."""
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    result |= {"learned": LEARNED, "max_steps": STEPS, "runs": {}, "near": {}}
    for name in LAYERS:
        result["runs"][name] = {}
        for distance in DISTANCES:
            found = [best_of_rates(name, distance, distance, seed) for seed in SEEDS]
            result["runs"][name][str(distance)] = found
            print(name, distance, found, flush=True)
        longest = DISTANCES[-1]
        found = [best_of_rates(name, longest, CONTROL, seed) for seed in SEEDS]
        result["near"][name] = found
        print(name, "near", found, flush=True)
    write_json(RECALL, result)


if __name__ == "__main__":
    main()
