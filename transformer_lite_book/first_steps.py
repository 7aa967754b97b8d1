"""Small translators, trained by an Adam whose first steps can be changed.

The *length* of a step is the mean over all weights of how far they move. Adam's first
steps are the longest. A model of a seed sees the same batches in all its runs.

Paper: §5.3
Chapter: 05_3_optimizer
Tests: tests/book/test_first_steps.py
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import parameters_to_vector

from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig
from transformer_lite.data.toy import NOUNS, generate_pairs
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import PAD, UNK
from transformer_lite_book.recordings import lowered

SENTENCES, WORDS, BATCH = 1500, 8, 8
"""Pairs, their longest side in words, and pairs of a batch."""
LIVING = ("person", "animal")


def short_sentences() -> Batch:
    """Return short pairs of the toy corpus about persons and animals, as ids."""
    things = {noun.english for noun in NOUNS if noun.kind not in LIVING}
    ids: dict[str, int] = {}
    coded: list[list[list[int]]] = []
    for pair in generate_pairs(seed=1):
        sides = [lowered(pair.source_words), lowered(pair.target_words)]
        is_short = max(map(len, sides)) <= WORDS and not pair.antecedents
        if is_short and not things & set(sides[0]):
            coded.append(
                [[ids.setdefault(w, UNK + 1 + len(ids)) for w in s] for s in sides]
            )
        if len(coded) == SENTENCES:
            break
    return Batch.from_ids(*zip(*coded, strict=True))


def small_model(
    corpus: Batch, seed: int, of: type[Transformer] = Transformer
) -> Transformer:
    """Return an untrained model for these sentences: three layers, 32 wide."""
    torch.manual_seed(seed)
    words = 1 + int(max(corpus.src_ids.max(), corpus.tgt_ids.max()))
    shape = {"num_layers": 3, "d_model": 32, "d_ff": 64, "num_heads": 4}
    return of(ModelConfig(vocab_size=words, dropout=0.0, max_len=32, **shape))


def with_ramp(step: int, peak: float, warmup: int) -> float:
    """Return the rate of Equation 3, written with its peak instead of d_model."""
    return peak * min(step / warmup, (warmup / step) ** 0.5)


def flat_rate(step: int, peak: float, warmup: int) -> float:
    """Return the same peak from the first step on, without a ramp."""
    return peak * min(1, (warmup / step) ** 0.5)


@dataclass(frozen=True)
class Changes:
    """How a run's steps differ from those of Adam. Steps are counted from 1."""

    filled: int = 0
    """Batches whose squared gradients are in v before the first step."""
    random_signs: Container[int] = ()
    """Steps in which each weight moves as far as it would, but to a random side."""


def own_share_of(vectors: Tensor) -> float:
    """Return how much of some vectors' length is not their mean's.

    Args:
        vectors: (number, width).
    """
    return ((vectors - vectors.mean(dim=0)).norm() / vectors.norm()).item()


@dataclass
class Course:
    """What a training was like, step by step."""

    losses: list[float] = field(default_factory=list)
    own_shares: list[float] = field(default_factory=list)
    """Of the decoder's vectors, what is left of their length without their mean."""
    lengths: list[float] = field(default_factory=list)
    """How far the weights moved in the mean: steps times learning rates."""

    @property
    def end(self) -> float:
        """The mean loss of the last ten steps."""
        return sum(self.losses[-10:]) / 10


def train_small(
    model: Transformer,
    corpus: Batch,
    rates: Sequence[float],
    seed: int,
    changes: Changes | None = None,
) -> Course:
    """Train a model with one step for each rate, and tell how that went."""
    changes = changes or Changes()
    parameters, course = [*model.parameters()], Course()
    seen: list[Tensor] = []
    hook = model.decoder.layers[-1].register_forward_hook(
        lambda *call: seen.append(call[-1])
    )

    def gradient(random: torch.Generator) -> Tensor:
        chosen = torch.randint(SENTENCES, (BATCH,), generator=random)
        src, tgt = corpus.src_ids[chosen], corpus.tgt_ids[chosen]
        logits = model(src, tgt[:, :-1])
        loss = F.cross_entropy(logits.mT, tgt[:, 1:], ignore_index=PAD)
        vectors = seen.pop()[tgt[:, 1:] != PAD].detach()
        course.losses.append(loss.item())
        course.own_shares.append(own_share_of(vectors))
        return parameters_to_vector(torch.autograd.grad(loss, parameters))

    m, v = torch.tensor(0.0), torch.tensor(0.0)
    in_v = 0  # how many gradients
    other_batches = torch.Generator().manual_seed(1000 + seed)
    for _ in range(changes.filled):
        v, in_v = 0.98 * v + 0.02 * gradient(other_batches) ** 2, in_v + 1
    course.losses, course.own_shares = [], []
    batches = torch.Generator().manual_seed(seed)
    signs = torch.Generator().manual_seed(2000 + seed)
    for step, rate in enumerate(rates, start=1):
        g = gradient(batches)
        m, v, in_v = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g**2, in_v + 1
        move = (m / (1 - 0.9**step)) / ((v / (1 - 0.98**in_v)).sqrt() + 1e-9)
        if step in changes.random_signs:
            up = torch.randint(2, move.shape, generator=signs)
            move = move.abs() * (2 * up - 1)
        course.lengths.append(rate * move.abs().mean().item())
        parts = move.split([parameter.numel() for parameter in parameters])
        with torch.no_grad():
            for parameter, part in zip(parameters, parts, strict=True):
                parameter -= rate * part.view_as(parameter)
    hook.remove()
    return course
