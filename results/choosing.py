"""Train one layer to answer with one word of several, with and without choosing.

A sentence holds a word of each colour among noise; its last word asks for one of the
colours, and the answer is the word without its colour. Self-attention can choose. The
plain average reaches all words, too, but its weights are equal. After the layer comes
the output matrix, alone or after a ReLU layer, which can multiply what it has read.

python -m results.choosing 0.01
python -m results.choosing 0.003 "ReLU layer"  # only networks with such a layer
"""

import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from results.provenance import conditions, require_clean
from results.storage import read_json, write_json
from transformer_lite.attention import scaled_dot_product_attention
from transformer_lite_book.recordings import CHOOSING

WORDS, NOISE, WIDTH = 8, 8, 32
"""Words in each colour, words of noise, and the width of the layer."""
LENGTH, SEEDS = 32, range(1, 11)
BATCH, TEST = 32, 1000
STEPS = {2: 800, 8: 1600}
"""By the number of colours."""


class PlainAverage(nn.Module):
    """Self-attention whose weights are all equal, for the last word."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Return a vector for the last word."""
        return x[:, -1] + self.value(x).mean(dim=1)


class SelfAttention(nn.Module):
    """One head, with a residual connection, for the last word."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def attend(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the last word reads, and its weights."""
        output, weights = scaled_dot_product_attention(
            self.query(x[:, -1:]), self.key(x), self.value(x)
        )
        return output[:, 0], weights[:, 0]

    def forward(self, x: Tensor) -> Tensor:
        """Return a vector for the last word."""
        return x[:, -1] + self.attend(x)[0]


class ReluLayer(nn.Module):
    """The feed-forward layer of a Transformer, with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = (
            nn.Linear(WIDTH, 4 * WIDTH),
            nn.Linear(4 * WIDTH, WIDTH),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return a vector of the same width."""
        return x + self.narrow(F.relu(self.wide(x)))


LAYERS = {"plain average": PlainAverage, "self-attention": SelfAttention}
AFTER = {"": nn.Identity, ", ReLU layer": ReluLayer}
RUNS = [(2, name, after) for after in AFTER for name in LAYERS]
RUNS += [(8, name, ", ReLU layer") for name in LAYERS]
"""The colours, the layer, and what follows it."""


def sentences(
    number: int, colours: int, random: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return sentences, (number, `LENGTH`), and about each the answer and its place.

    The last tensor has the words of all colours, (number, colours); they are different.
    """
    question = colours * WORDS + NOISE  # the id that asks for the first colour
    ids = torch.randint(colours * WORDS, question, (number, LENGTH), generator=random)
    words = torch.rand(number, WORDS, generator=random).argsort(1)[:, :colours]
    places = torch.rand(number, LENGTH - 1, generator=random).argsort(1)[:, :colours]
    ids.scatter_(1, places, words + WORDS * torch.arange(colours))
    asked = torch.randint(colours, (number, 1), generator=random)
    ids[:, -1:] = question + asked
    return ids, words.gather(1, asked)[:, 0], places.gather(1, asked)[:, 0], words


def train(
    colours: int, name: str, after: str, seed: int, rate: float
) -> dict[str, float]:
    """Train a network; return which shares of new answers are "right" and "other".

    "other" is one of the words that were not asked for. Of self-attention, it also
    returns the mean "weight" of the word asked for.
    """
    torch.manual_seed(seed)
    random = torch.Generator().manual_seed(seed)
    embedding = nn.Embedding(colours * (WORDS + 1) + NOISE, WIDTH)
    layer = LAYERS[name]()
    network = nn.Sequential(embedding, layer, AFTER[after](), nn.Linear(WIDTH, WORDS))
    adam = torch.optim.Adam(network.parameters(), rate, fused=True)
    for _ in range(STEPS[colours]):
        ids, answers, _, _ = sentences(BATCH, colours, random)
        loss = F.cross_entropy(network(ids), answers)
        adam.zero_grad()
        loss.backward()
        adam.step()
    with torch.no_grad():
        ids, answers, places, words = sentences(TEST, colours, random)
        said = network(ids).argmax(-1)
        of_a_word = (words == said[:, None]).any(1)
        found = {"right": said == answers, "other": of_a_word & (said != answers)}
        if isinstance(layer, SelfAttention):
            weights = layer.attend(embedding(ids))[1]
            found["weight"] = weights.gather(1, places[:, None])
    return {name: round(of.float().mean().item(), 3) for name, of in found.items()}


def main(rate: str, only: str = "") -> None:
    """Train all networks, or those with `only` in their name, and add what they answer.

    What was trained with other rates stays.
    """
    torch.set_num_threads(1)
    result: dict[str, Any] = {"commit": require_clean(), **conditions(), "runs": {}}
    for colours, layer, after in reversed(RUNS):
        name = f"{colours} words: {layer}{after}"
        if only in name:
            runs = [train(colours, layer, after, seed, float(rate)) for seed in SEEDS]
            result["runs"][name] = runs
            print(name, runs, flush=True)
    stored = read_json(CHOOSING) if CHOOSING.exists() else {}
    write_json(CHOOSING, stored | {rate: result})


if __name__ == "__main__":
    main(*sys.argv[1:])
