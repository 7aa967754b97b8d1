"""What changes a run: the mean of means, a checkpoint that lacks a part, another seed.

python -m results.same_run

A small model learns the toy corpus, with five seeds. In the first part, eight processes
share the sentences of every step. They are imitated by one, which weighs each token as
they would. In the second part, a run goes on from its middle, after a part of what its
checkpoint holds was reset to the state at the start of a run.
"""

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.batching import Batch, BatchStream, Sequences, fixed_batches
from transformer_lite.config import ModelConfig
from transformer_lite.data.toy import generate_pairs
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam, noam_schedule
from transformer_lite.tokenizer import PAD, Tokenizer
from transformer_lite.training.step import Objective, train_step, validate
from transformer_lite_book.recordings import SAME_RUN

SEEDS = range(1, 6)
SHAPE = {"num_layers": 1, "d_model": 64, "d_ff": 128, "num_heads": 4}
RATE_SCALE, WARMUP, SMOOTHING = 0.3, 30, 0.1
PROCESSES, SENTENCES, STEPS = 8, 4, 300
"""Of the first part: each process has so many sentences of every step."""
LENGTHS = {"short": (0, 10), "middle": (10, 16), "long": (16, 99)}
"""Target tokens of a sentence: more than the first number, at most the second."""
DAMAGED_AFTER, ENDS_AFTER, COMPARED_AFTER = 60, 120, 80
"""Steps of the second part."""


@dataclass
class Corpus:
    """The toy corpus as ids: sources and targets of each split."""

    train: tuple[Sequences, Sequences]
    valid: tuple[Sequences, Sequences]
    vocab_size: int


def toy_corpus(train: int = 4_000, valid: int = 600) -> Corpus:
    """Return pairs of all lengths, and a vocabulary of 400 tokens."""
    pairs = list(islice(generate_pairs(seed=5), train + valid))
    lines = [(pair.source, pair.target) for pair in pairs]
    tokenizer = Tokenizer.train((line for pair in lines[valid:] for line in pair), 400)

    def ids(part: list[tuple[str, str]]) -> tuple[Sequences, Sequences]:
        sides = zip(*part, strict=True)
        return tuple(Sequences.from_lists(map(tokenizer.encode, s)) for s in sides)

    return Corpus(ids(lines[valid:]), ids(lines[:valid]), tokenizer.vocab_size)


def new_objective(corpus: Corpus, seed: int) -> Objective:
    """Return an untrained model with its loss."""
    torch.manual_seed(seed)
    config = ModelConfig(vocab_size=corpus.vocab_size, **SHAPE)
    return Objective(Transformer(config), SMOOTHING)


def token_weights(tokens: Tensor, groups: Tensor | None) -> Tensor:
    """Return what a token of each sentence counts in the mean loss.

    Args:
        tokens: How many each sentence has.
        groups: The process of each sentence; without it, the sums are divided once.
    """
    if groups is None:
        return torch.full((len(tokens),), 1 / tokens.sum())
    of_process = torch.zeros(PROCESSES).index_add_(0, groups, tokens.float())
    return 1 / (PROCESSES * of_process[groups])


def weighted_loss(objective: Objective, batch: Batch, weights: Tensor) -> Tensor:
    """Return the loss in which a sentence's tokens count as its weight says."""
    hidden = objective.model.hidden(batch.src_ids, batch.tgt_input)
    logits = F.linear(hidden, objective.model.decoder.embedding.weight)
    losses = F.cross_entropy(
        logits.flatten(0, 1),
        batch.labels.flatten(),
        ignore_index=PAD,
        reduction="none",
        label_smoothing=SMOOTHING,
    )
    return (losses.view_as(batch.labels).sum(1) * weights).sum()


def shares(tokens: Tensor, way: str) -> Tensor | None:
    """Return the process of each sentence, or None for sums that are divided once."""
    if way == "sums":
        return None
    order = torch.arange(len(tokens))
    if way == "by length":
        order = tokens.argsort(stable=True)
    groups = torch.empty_like(order)
    groups[order] = torch.arange(len(tokens)) // SENTENCES
    return groups


WAYS = ("sums", "at random", "by length")
"""Sums divided once, and the mean of means of two ways to share the sentences."""


def gradient(objective: Objective) -> Tensor:
    """Return the gradients of all parameters as one vector."""
    return torch.cat([p.grad.flatten() for p in objective.parameters()])


def by_means(corpus: Corpus, seed: int, way: str) -> dict[str, Any]:
    """Train with one way to weigh the tokens; return losses of the validation set."""
    objective = new_objective(corpus, seed)
    optimizer = adam(objective.parameters(), RATE_SCALE)
    schedule = noam_schedule(optimizer, SHAPE["d_model"], WARMUP)
    chooser = random.Random(seed)
    off, elsewhere, earlier, ratios = [], [], None, []
    for step in range(STEPS):
        chosen = chooser.sample(range(len(corpus.train[0])), PROCESSES * SENTENCES)
        batch = Batch.of_pairs(*corpus.train, chosen)
        tokens = (batch.labels != PAD).sum(1)
        groups = shares(tokens, way)
        weights = token_weights(tokens, groups)
        ratios.append((weights.max() / weights.min()).item())
        optimizer.zero_grad()
        if way != "sums" and step % 50 == 49:  # how far the gradient is from the right
            found = []
            for tried in (weights, token_weights(tokens, None)):
                torch.manual_seed(seed * 10_000 + step)
                weighted_loss(objective, batch, tried).backward()
                found.append(gradient(objective))
                optimizer.zero_grad()
            off.append(((found[0] - found[1]).norm() / found[1].norm()).item())
            if earlier is not None:
                other = Batch.of_pairs(*corpus.train, earlier)
                count = (other.labels != PAD).sum(1)
                torch.manual_seed(seed * 10_000 + step)
                weighted_loss(objective, other, token_weights(count, None)).backward()
                apart = (gradient(objective) - found[1]).norm() / found[1].norm()
                elsewhere.append(apart.item())
                optimizer.zero_grad()
        torch.manual_seed(seed * 10_000 + step)  # equal dropout in all ways
        weighted_loss(objective, batch, weights).backward()
        optimizer.step()
        schedule.step()
        earlier = chosen
    result = {
        "token_weights_ratio": fmean(ratios),
        **losses_by_length(objective, corpus),
    }
    if off:
        result |= {"gradient_off": fmean(off), "another_step": fmean(elsewhere)}
    return result


@torch.inference_mode()
def losses_by_length(objective: Objective, corpus: Corpus) -> dict[str, float]:
    """Return the negative log-likelihood per token, of all and by sentence length."""
    objective.eval()
    sums, counts = dict.fromkeys(LENGTHS, 0.0), dict.fromkeys(LENGTHS, 0)
    for batch in fixed_batches(*corpus.valid, 2_000):
        hidden = objective.model.hidden(batch.src_ids, batch.tgt_input)
        logits = F.linear(hidden, objective.model.decoder.embedding.weight)
        given = logits.flatten(0, 1), batch.labels.flatten()
        each = F.cross_entropy(*given, ignore_index=PAD, reduction="none")
        each = each.view_as(batch.labels).sum(1)
        lengths = (batch.labels != PAD).sum(1)
        for name, (low, high) in LENGTHS.items():
            inside = (lengths > low) & (lengths <= high)
            sums[name] += each[inside].sum().item()
            counts[name] += int(lengths[inside].sum())
    objective.train()
    losses = {name: sums[name] / counts[name] for name in LENGTHS}
    return losses | {"all": sum(sums.values()) / sum(counts.values())}


class SmallRun:
    """A run whose parts can be saved, damaged and resumed."""

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self.corpus, self.seed = corpus, seed
        self.objective = new_objective(corpus, seed)
        self.optimizer = adam(self.objective.parameters(), RATE_SCALE)
        self.place, self.rate_steps, self.step = (0, 0), 0, 0
        self.data_seed, self.dropout_seed = seed, seed

    def steps(self, number: int) -> Iterator[float]:
        """Take steps; yield each one's loss."""
        given = self.optimizer, SHAPE["d_model"], WARMUP
        schedule = noam_schedule(*given, done=self.rate_steps)
        stream = BatchStream(*self.corpus.train, 300, self.data_seed, 2)
        for batches, place in islice(stream.steps(self.place), number):
            seed = (self.dropout_seed, self.step)
            yield train_step(self.objective, batches, self.optimizer, seed).loss
            schedule.step()
            self.step, self.place = self.step + 1, place
            self.rate_steps += 1

    def weights(self) -> Tensor:
        """Return all weights as one vector."""
        parameters = self.objective.parameters()
        return torch.cat([p.detach().flatten() for p in parameters])

    def validation_loss(self) -> float:
        """Return the negative log-likelihood per token of the validation set."""
        batches = fixed_batches(*self.corpus.valid, 2_000)
        return validate(self.objective.model, batches, SMOOTHING).nll


def forget_moments(run: SmallRun) -> None:
    """Reset Adam's moments and its count of steps."""
    for state in run.optimizer.state.values():
        for tensor in state.values():
            tensor.zero_()


def forget_place(run: SmallRun) -> None:
    """Begin the data from the start."""
    run.place = (0, 0)


def forget_schedule(run: SmallRun) -> None:
    """Begin the schedule of the learning rate from the start."""
    run.rate_steps = 0


def forget_each(*forgets: Callable[[SmallRun], None]) -> Callable[[SmallRun], None]:
    """Return what resets several parts."""

    def forget(run: SmallRun) -> None:
        for each in forgets:
            each(run)

    return forget


def other_dropout(run: SmallRun) -> None:
    """Drop other units."""
    run.dropout_seed += 100


def other_seed(run: SmallRun) -> None:
    """Read the data in another order, and drop other units."""
    run.data_seed, run.dropout_seed = run.seed + 100, run.seed + 100


DAMAGES: dict[str, Callable[[SmallRun], None]] = {
    "nothing": lambda run: None,
    "Adam's state": forget_moments,
    "place in the data": forget_place,
    "place in the schedule": forget_schedule,
    "both places": forget_each(forget_place, forget_schedule),
    "Adam's state and place in the data": forget_each(forget_moments, forget_place),
    "all but the weights": forget_each(forget_moments, forget_place, forget_schedule),
    "another dropout": other_dropout,
    "another seed from here": other_seed,
}


def by_damage(corpus: Corpus, seed: int) -> dict[str, dict[str, float]]:
    """Resume a run from its middle after each damage, and compare it with itself."""
    run = SmallRun(corpus, seed)
    list(run.steps(DAMAGED_AFTER))
    found, intact = {}, None
    more = COMPARED_AFTER - DAMAGED_AFTER
    for name, damage in DAMAGES.items():
        tried = deepcopy(run)
        # A copy of the optimizer still steps the weights of the original.
        tried.optimizer = adam(tried.objective.parameters(), RATE_SCALE)
        tried.optimizer.load_state_dict(deepcopy(run.optimizer.state_dict()))
        damage(tried)
        losses = list(tried.steps(more))
        weights = tried.weights()
        list(tried.steps(ENDS_AFTER - COMPARED_AFTER))
        intact = weights if intact is None else intact
        found[name] = {
            "off": ((weights - intact).norm() / intact.norm()).item(),
            "loss_after": fmean(losses[:10]),
            "valid_at_end": tried.validation_loss(),
        }
    other = SmallRun(corpus, seed + 100)
    losses = list(other.steps(COMPARED_AFTER))
    weights = other.weights()
    list(other.steps(ENDS_AFTER - COMPARED_AFTER))
    found["another seed from the start"] = {
        "off": ((weights - intact).norm() / intact.norm()).item(),
        "loss_after": fmean(losses[DAMAGED_AFTER:][:10]),
        "valid_at_end": other.validation_loss(),
    }
    return found


def main() -> None:
    """Train with each seed in each way, and write what was found."""
    torch.set_num_threads(1)
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    result |= {"processes": PROCESSES, "sentences": SENTENCES, "steps": STEPS}
    corpus = toy_corpus()
    result["damages"], result["means"] = {}, {way: {} for way in WAYS}
    for seed in SEEDS:
        result["damages"][seed] = by_damage(corpus, seed)
        print(seed, result["damages"][seed], flush=True)
    for seed in SEEDS:
        for way in WAYS:
            result["means"][way][seed] = by_means(corpus, seed, way)
            print(seed, way, result["means"][way][seed], flush=True)
    write_json(SAME_RUN, result)


if __name__ == "__main__":
    main()
