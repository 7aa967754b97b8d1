"""Train one layer to answer with one of two words, with and without choosing.

A sentence holds a red word and a blue word among noise; its last word asks for one of
the colours, and the answer is the word without its colour. Self-attention can choose.
The plain average reaches all words, too, but its weights are equal.

python -m results.choosing
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from results.provenance import conditions, require_clean
from results.recall import PlainAverage, SelfAttention
from results.storage import write_json
from transformer_lite_book.recordings import CHOOSING

WORDS, NOISE, WIDTH = 8, 8, 32
"""Words in each colour, words of noise, and the width of the layer."""
QUESTION = 2 * WORDS + NOISE
"""The id that asks for the red word; the next one asks for the blue word."""
LENGTH, SEEDS = 32, range(1, 11)
STEPS, BATCH, TEST, RATE = 800, 32, 1000, 1e-2
LAYERS = {"plain average": PlainAverage, "self-attention": SelfAttention}


def sentences(number: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return sentences, (number, `LENGTH`), their answers, and the words not asked."""
    ids = torch.randint(2 * WORDS, QUESTION, (number, LENGTH), generator=random)
    red = torch.randint(WORDS, (number,), generator=random)
    blue = (red + torch.randint(1, WORDS, (number,), generator=random)) % WORDS
    both = torch.stack([red, blue], dim=1)
    places = torch.rand(number, LENGTH - 1, generator=random).argsort(1)[:, :2]
    ids.scatter_(1, places, both + torch.tensor([0, WORDS]))
    asked = torch.randint(2, (number, 1), generator=random)
    ids[:, -1:] = QUESTION + asked
    return ids, both.gather(1, asked)[:, 0], both.gather(1, 1 - asked)[:, 0]


def train(name: str, seed: int) -> dict[str, float]:
    """Train a network; return which shares of new answers are "right" and "other"."""
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    network = nn.Sequential(
        nn.Embedding(QUESTION + 2, WIDTH), LAYERS[name](), nn.Linear(WIDTH, WORDS)
    )
    adam = torch.optim.Adam(network.parameters(), RATE)
    for _ in range(STEPS):
        ids, answers, _ = sentences(BATCH, random)
        loss = F.cross_entropy(network(ids)[:, -1], answers)
        adam.zero_grad()
        loss.backward()
        adam.step()
    with torch.no_grad():
        ids, answers, others = sentences(TEST, random)
        said = network(ids)[:, -1].argmax(-1)
    shares = {"right": said == answers, "other": said == others}
    return {name: round(hits.float().mean().item(), 3) for name, hits in shares.items()}


def main() -> None:
    """Train both layers with all seeds, and write what they answer."""
    torch.set_num_threads(1)
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    result["runs"] = {}
    for name in LAYERS:
        result["runs"][name] = [train(name, seed) for seed in SEEDS]
        print(name, result["runs"][name], flush=True)
    write_json(CHOOSING, result)


if __name__ == "__main__":
    main()
