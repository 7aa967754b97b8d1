"""Train networks to recall a word 12 words away, over paths of different length.

A sentence is noise, a key word, noise, and a question; the answer is the key word. Four
ByteNets have equally many layers and parameters. They differ in the gaps of their
convolutions, so that the way from key word to question passes one, two, three or four
of them. The convolutions start as He et al. (2015) propose.

As a control, the key word then stands at every other distance from the question, for
one and the same ByteNet: so nothing but the way changes. A word 8 words away needs one
convolution with gap 8, a word 7 words away two or three, and 15 words away four. The
same goes for the convolutions of width 5: each moves a word by 2 at most.

python -m results.paths
python -m results.paths reversed  # the ByteNets with the largest gap first
python -m results.paths distances  # one ByteNet, in both orders, and width 5
"""

import sys
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.attention import scaled_dot_product_attention
from transformer_lite_book.recordings import PATHS, PATHS_REVERSED, PATHS_TO_ALL

KEYS, NOISE, WIDTH = 8, 8, 32
"""Different key words, different words of noise, and the width of all layers."""
QUESTION = KEYS + NOISE
LENGTH, DISTANCE = 16, 12
DISTANCES = range(1, LENGTH)
SEEDS, RATES = range(1, 11), (3e-3, 1e-2)
STEPS, EVERY, BATCH, TEST = 400, 5, 32, 200
LEARNED = 0.95


class Convolutions(nn.Module):
    """Convolutions, each with a residual connection."""

    def __init__(self, shapes: list[tuple[int, int]]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(WIDTH, WIDTH, width, padding=gap * (width // 2), dilation=gap)
            for width, gap in shapes
        )
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)

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


GAPS = [(1, 2, 4, 12), (1, 2, 4, 8), (1, 2, 3, 8), (1, 2, 3, 6)]
"""12 is one gap; 8 + 4; 8 + 3 + 1; or 6 + 3 + 2 + 1."""
Layers = dict[str, Callable[[], nn.Module]]


def byte_nets(all_gaps: list[tuple[int, ...]]) -> Layers:
    """Return ByteNets with these gaps, from the first convolution to the last."""
    return {
        f"gaps {', '.join(map(str, gaps))}": lambda gaps=gaps: Convolutions(
            [(3, gap) for gap in gaps]
        )
        for gaps in all_gaps
    }


LAYERS: Layers = {
    "self-attention": SelfAttention,
    **byte_nets(GAPS),
    "ConvS2S": lambda: Convolutions([(5, 1)] * (DISTANCE // 2)),
    "recurrence": lambda: Recurrence(WIDTH, WIDTH, batch_first=True),
}
REVERSED = byte_nets([gaps[::-1] for gaps in GAPS])
DOUBLING = [GAPS[1], GAPS[1][::-1]]
"""The gaps of the control, in both orders."""
OF_WIDTH_5 = range(2, DISTANCE + 1, 2)
"""How far one to all six of the convolutions of width 5 reach."""
TO_ALL: dict[str, Iterable[int]] = {
    **dict.fromkeys(byte_nets(DOUBLING), DISTANCES),
    "ConvS2S": OF_WIDTH_5,
}
"""The distances of the control, for each network."""


def convolutions_passed(gaps: tuple[int, ...], distance: int = DISTANCE) -> list[int]:
    """Return how many convolutions each route from key word to question passes."""
    found = []
    for moves in product((-1, 0, 1), repeat=len(gaps)):  # back, stay, forward
        place, inside = LENGTH - 1 - distance, True
        for gap, move in zip(gaps, moves, strict=True):
            place += gap * move
            inside = inside and 0 <= place < LENGTH
        if inside and place == LENGTH - 1:
            found.append(sum(map(abs, moves)))
    return found


def sentences(
    number: int, random: torch.Generator, distance: int = DISTANCE
) -> tuple[Tensor, Tensor]:
    """Return sentences that end in the question, (number, length), and answers."""
    ids = torch.randint(KEYS, QUESTION, (number, LENGTH), generator=random)
    answers = torch.randint(0, KEYS, (number,), generator=random)
    ids[:, -1 - distance], ids[:, -1] = answers, QUESTION
    return ids, answers


def train(name: str, seed: int, rate: float, distance: int = DISTANCE) -> int | None:
    """Return after how many steps a network has learned, or None."""
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    network = nn.Sequential(
        nn.Embedding(QUESTION + 1, WIDTH),
        (LAYERS | REVERSED)[name](),
        nn.Linear(WIDTH, KEYS),
    )
    adam = torch.optim.Adam(network.parameters(), rate, fused=True)
    for step in range(1, STEPS + 1):
        ids, answers = sentences(BATCH, random, distance)
        loss = F.cross_entropy(network(ids)[:, -1], answers)
        adam.zero_grad()
        loss.backward()
        adam.step()
        if step % EVERY == 0:
            with torch.no_grad():
                ids, answers = sentences(TEST, random, distance)
                hits = network(ids)[:, -1].argmax(-1) == answers
            if hits.float().mean().item() >= LEARNED:
                return step
    return None


def main(what: str = "") -> None:
    """Train networks with all rates and seeds, and write when each has learned."""
    torch.set_num_threads(1)
    path = {"": PATHS, "reversed": PATHS_REVERSED, "distances": PATHS_TO_ALL}[what]
    layers = {"": LAYERS, "reversed": REVERSED, "distances": TO_ALL}[what]
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    result |= {"max_steps": STEPS, "runs": {}}
    for rate in RATES:
        runs: dict[str, Any] = {}
        for name in layers:
            found = {
                distance: [train(name, seed, rate, distance) for seed in SEEDS]
                for distance in (TO_ALL[name] if what == "distances" else [DISTANCE])
            }
            runs[name] = found if what == "distances" else found[DISTANCE]
            print(rate, name, runs[name], flush=True)
        result["runs"][str(rate)] = runs
    write_json(path, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
