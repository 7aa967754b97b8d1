"""Train five layer types to recall a word that stands some distance away.

A sentence is a key word, noise, and a question; the answer is the key word. Each
network has as many layers as a signal needs for the distance. It has learned once 95 %
of new answers are right. In "one_network", the network and the length of the sentences
stay the same: only the distance changes, and with it the convolutions to be passed.
The plain average is the self-attention without its choice: all weights are equal.
The convolutions start as He et al. (2015) propose, except in "default_start".

python -m results.recall
python -m results.recall ByteNet/7 ByteNet/near  # some parts, which PARTS names
"""

import math
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from results.provenance import conditions, require_clean
from results.storage import read_json, write_json
from transformer_lite.attention import scaled_dot_product_attention
from transformer_lite_book.recordings import RECALL

KEYS, NOISE, WIDTH = 8, 8, 32
"""Different key words, different words of noise, and the width of all layers."""
QUESTION = KEYS + NOISE
DISTANCES = (3, 7, 15, 31)
"""To each of them, a signal must pass every layer of the ByteNet."""
CONTROL = 3
"""In the control, the key word is this near in the longest sentences.

Self-attention and average see no positions here, so they have no control.
"""
ONE_NETWORK = 15
"""The one ByteNet for all distances up to this one has four layers."""
SEEDS = (1, 2, 3)
ONE_OPERATION = ("plain average", "self-attention")
MORE_SEEDS = tuple(range(1, 11))
"""Of `ONE_OPERATION`: self-attention learns from most seeds, but not from all."""
RATES = (1e-2, 3e-3, 1e-3)
"""Where the first learning rate fails, the next ones are tried."""
SAME_RATE = 3e-3
"""In "one_network", all distances have this learning rate."""
STEPS, EVERY, BATCH, TEST = 400, 20, 32, 400
LEARNED = 0.95
DEFAULT_START = 7
"""At this distance, the ConvS2S is also trained as PyTorch starts convolutions."""


class Convolutions(nn.Module):
    """Convolutions, each with a residual connection."""

    start = "he"

    def __init__(self, shapes: list[tuple[int, int]]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv1d(WIDTH, WIDTH, width, padding=gap * (width // 2), dilation=gap)
            for width, gap in shapes
        )
        for layer in self.layers if self.start == "he" else ():
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return a vector for each word."""
        x = x.mT
        for layer in self.layers:
            x = x + F.relu(layer(x))
        return x.mT


class DefaultConvolutions(Convolutions):
    """The same, as PyTorch starts them."""

    start = "default"


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


class PlainAverage(nn.Module):
    """Self-attention whose weights are all equal."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Return a vector for each word."""
        return x + self.value(x).mean(dim=1, keepdim=True)


def narrow(distance: int) -> list[tuple[int, int]]:
    """Return the width and the gap of each convolution of the ConvS2S."""
    return [(5, 1)] * math.ceil(distance / 2)


LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "recurrence": lambda distance: Recurrence(WIDTH, WIDTH, batch_first=True),
    "ConvS2S": lambda distance: Convolutions(narrow(distance)),
    "ByteNet": lambda distance: Convolutions(
        [(3, 2**number) for number in range(math.ceil(math.log2(distance + 1)))]
    ),
    "plain average": lambda distance: PlainAverage(),
    "self-attention": lambda distance: SelfAttention(),
}
OTHER_STARTS: dict[str, Callable[[int], nn.Module]] = {
    "default_start": lambda distance: DefaultConvolutions(narrow(distance)),
}


def sentences(
    number: int, length: int, distance: int, random: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return sentences that end in the question, (number, length), and their answers.

    Args:
        distance: From the key word to the question, in words.
    """
    ids = torch.randint(KEYS, QUESTION, (number, length), generator=random)
    answers = torch.randint(0, KEYS, (number,), generator=random)
    ids[:, -1 - distance], ids[:, -1] = answers, QUESTION
    return ids, answers


def train(
    name: str, depth: int, distance: int, seed: int, rate: float
) -> dict[str, Any]:
    """Train a network that can reach `depth` words.

    Return "steps", the share "right", the "rate", and in "missed" how many key words
    were right less than once in five times.
    """
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    network = nn.Sequential(
        nn.Embedding(QUESTION + 1, WIDTH),
        (LAYERS | OTHER_STARTS)[name](depth),
        nn.Linear(WIDTH, KEYS),
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
    missed = sum(
        hits[answers == key].float().mean().item() < 0.2 for key in range(KEYS)
    )
    return {"steps": step, "right": round(share, 3), "rate": rate, "missed": missed}


def best_of_rates(*given: Any, rates: tuple[float, ...] = RATES) -> dict[str, Any]:
    """Train with the first rate, and with the next ones while it does not learn.

    Return what `train` returns for the rate that got most answers right.
    """
    found = []
    for rate in rates:
        found.append(train(*given, rate))
        if found[-1]["right"] >= LEARNED:
            break
    return max(found, key=lambda one: one["right"])


def trainings(name: str, of: str) -> dict[str, list[dict[str, Any]]]:
    """Train each seed in one part of the experiment; return its runs by distance.

    Args:
        of: A distance, "near" or "".
    """
    rates = RATES
    if name == "one_network":
        rates = (SAME_RATE,)
        pairs = {str(d): (ONE_NETWORK, d) for d in range(1, ONE_NETWORK + 1)}
        name = "ByteNet"
    elif name == "default_start":
        pairs = {str(DEFAULT_START): (DEFAULT_START, DEFAULT_START)}
    elif of == "near":
        pairs = {of: (DISTANCES[-1], CONTROL)}
    else:
        pairs = {of: (int(of), int(of))}
    seeds = MORE_SEEDS if name in ONE_OPERATION else SEEDS
    return {
        key: [best_of_rates(name, depth, distance, s, rates=rates) for s in seeds]
        for key, (depth, distance) in pairs.items()
    }


def has_learned(runs: list[dict[str, Any]]) -> bool:
    """Return whether any seed has learned."""
    return any(run["right"] >= LEARNED for run in runs)


PARTS = {
    f"{name}/{of}": (name, of)
    for name in LAYERS
    for of in (*map(str, DISTANCES), "near")
    if name not in ONE_OPERATION or of != "near"
} | {name: (name, "") for name in ("one_network", "default_start")}
"""What `trainings` is given for each part, by the part's name."""


def main(*chosen: str) -> None:
    """Train all parts, or those named; those that one commit has made stay.

    Where no seed has learned at a distance, longer ones are not tried.
    """
    if unknown := [part for part in chosen if part not in PARTS]:
        sys.exit(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    result |= {"learned": LEARNED, "max_steps": STEPS}
    result |= {"runs": {name: {} for name in LAYERS}, "near": {}, "one_network": {}}
    result["default_start"] = {}
    if chosen and RECALL.exists():
        before = read_json(RECALL)
        if before["commit"] == result["commit"]:
            result = before
    for part in chosen or PARTS:
        name, of = PARTS[part]
        if of.isdecimal():
            known = result["runs"][name].items()
            shorter = [runs for distance, runs in known if int(distance) < int(of)]
            if not all(map(has_learned, shorter)):
                print(part, "is not tried: a shorter distance was not learned")
                continue
        found = trainings(name, of)
        print(part, found, flush=True)
        if not of:
            result[name] = found
        elif of == "near":
            result[of][name] = found[of]
        else:
            result["runs"][name] |= found
        write_json(RECALL, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
