"""Translate with two stacks, and with one that reads ahead in the source or does not.

One stack is made of the encoder's layers and reads source and target together; its mask
says whether a source token may read later ones. Its feed-forward networks are wider, so
that a token meets as many weights as in two stacks, which hold twice as many. With each
seed, all models learn from the same batches of toy sentences, and the two of one stack
begin with the same weights.

Afterwards we exchange what the target reads at some places of the source, as chapter 3
does, and count how often the German article follows.

Runs that are recorded already stay.

python -m results.stacks
"""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice, product
from multiprocessing import get_context
from typing import Any

import torch
from torch import Tensor, nn

from results.interventions import german_bleu
from results.provenance import conditions, require_clean
from results.storage import read_json, write_json
from transformer_lite.batching import BatchStream, Sequences, pad
from transformer_lite.config import ModelConfig
from transformer_lite.data.toy import generate_pairs
from transformer_lite.layers import EncoderLayer
from transformer_lite.loss import fused_label_smoothed_loss
from transformer_lite.masks import causal_mask, padding_mask
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam, noam_schedule
from transformer_lite.tokenizer import BOS, EOS, PAD, Tokenizer
from transformer_lite_book.recordings import STACKS

SEEDS, LAYERS = range(1, 7), 2
TWO, AHEAD, CAUSAL = KINDS = ("two stacks", "one, reads ahead", "one, causal")
WIDTH, HEADS, LONGEST, VOCAB = 64, 4, 32, 600
TRAIN, TEST = 6000, 300
STEPS, WARMUP, BATCH_TOKENS, RATE = 400, 150, 500, 0.7

ANIMALS = "dog bird donkey frog cat mouse cow goat horse sheep pig chicken".split()
FRAMES = {
    "Sometimes the {} sleeps.": (1, 2),
    "The woman sees the {}.": (1, 3),
    "My aunt finds the old {}.": (2, 3),
}
"""Sentences, how many tokens from *the* on stand before the noun, and where the article
is among the German words."""


class TwoStacks(Transformer):
    """The Transformer; what its target reads of the source can be given."""

    def read(self, src_ids: Tensor) -> list[Tensor]:
        """Return all that the target reads of the source: the memory."""
        return [self.encoder(src_ids, padding_mask(src_ids, PAD))]

    def hidden(
        self, src_ids: Tensor, tgt_ids: Tensor, given: list[Tensor] | None = None
    ) -> Tensor:
        """Return the vectors that the output matrix scores."""
        (memory,) = given or self.read(src_ids)
        return self.decoder.hidden(tgt_ids, memory, padding_mask(src_ids, PAD))


def through(layer: EncoderLayer, x: Tensor, mask: Tensor) -> Tensor:
    """Return the output of an encoder layer whose mask has a row for each token."""
    x = layer.after_self_attention(x, layer.self_attention(x, x, mask))
    return layer.after_feed_forward(x, layer.feed_forward(x))


class OneStack(nn.Module):
    """The package's encoder over source and target, with another mask.

    As in two stacks, the positions of both sides begin at 0. A learned vector tells
    the sides apart.
    """

    def __init__(self, config: ModelConfig, reads_ahead: bool) -> None:
        super().__init__()
        self.encoder, self.reads_ahead = Transformer(config).encoder, reads_ahead
        self.side = nn.Embedding(2, config.d_model)

    def start(self, ids: Tensor, side: int) -> Tensor:
        """Return the vectors of one side before the first layer."""
        x = self.encoder.positions(self.encoder.embedding(ids))
        return self.encoder.dropout(x + self.side.weight[side])

    def read(self, src_ids: Tensor) -> list[Tensor]:
        """Return all that the target reads of the source: each layer's input there."""
        mask = padding_mask(src_ids, PAD)
        if not self.reads_ahead:
            mask = mask & causal_mask(src_ids.size(1))
        inputs = [self.start(src_ids, 0)]
        for layer in self.encoder.layers[:-1]:
            inputs.append(through(layer, inputs[-1], mask))
        return inputs

    def hidden(
        self, src_ids: Tensor, tgt_ids: Tensor, given: list[Tensor] | None = None
    ) -> Tensor:
        """Return the vectors of the target that the output matrix scores."""
        length = src_ids.size(1)
        both = torch.cat([src_ids, tgt_ids], dim=1)
        mask = causal_mask(both.size(1))
        mask[:length, :length] |= self.reads_ahead
        mask = mask & padding_mask(both, PAD)
        x = torch.cat([self.start(src_ids, 0), self.start(tgt_ids, 1)], dim=1)
        for number, layer in enumerate(self.encoder.layers):
            if given:
                x = torch.cat([given[number], x[:, length:]], dim=1)
            x = through(layer, x, mask)
        return x[:, length:]


def build(kind: str, vocab_size: int) -> Any:
    """Return an untrained model of a kind."""
    shape = {"d_model": WIDTH, "num_heads": HEADS, "max_len": 64, "dropout": 0.0}
    shape |= {"vocab_size": vocab_size, "num_layers": LAYERS}
    if kind == TWO:
        return TwoStacks(ModelConfig(d_ff=4 * WIDTH, **shape))
    return OneStack(ModelConfig(d_ff=5 * WIDTH, **shape), kind != CAUSAL)


def toy_texts() -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the pairs to learn from, and unseen ones."""
    pairs = [
        (pair.source, pair.target)
        for pair in islice(generate_pairs(seed=1), TRAIN + TEST)
    ]
    return pairs[:TRAIN], pairs[TRAIN:]


def train(
    kind: str,
    seed: int,
    pairs: Sequence[tuple[str, str]],
    tokenizer: Tokenizer,
    steps: int = STEPS,
) -> Any:
    """Return a trained model."""
    torch.manual_seed(seed)
    model = build(kind, tokenizer.vocab_size).train()
    optimizer = adam(model.parameters(), RATE)
    schedule = noam_schedule(optimizer, WIDTH, WARMUP, steps, cooldown=steps // 3)
    sides = [
        Sequences.from_lists([tokenizer.encode(text) for text in side])
        for side in zip(*pairs, strict=True)
    ]
    stream = BatchStream(*sides, BATCH_TOKENS, seed).steps()
    for step in islice(stream, steps):
        (batch,) = step.batches
        hidden = model.hidden(batch.src_ids, batch.tgt_input)
        weight = model.encoder.embedding.weight
        sums = fused_label_smoothed_loss(hidden, weight, batch.labels, 0.0, batch.real)
        optimizer.zero_grad()
        (sums.loss / sums.tokens).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


@torch.no_grad()
def greedy(
    model: Any, src_ids: Tensor, given: list[Tensor] | None = None
) -> list[list[int]]:
    """Return the ids that a model writes, without EOS."""
    given = given or model.read(src_ids)
    ids = torch.full((len(src_ids), 1), BOS)
    is_done = torch.zeros(len(src_ids), dtype=torch.bool)
    while not is_done.all() and ids.size(1) < LONGEST:
        last = model.hidden(src_ids, ids, given)[:, -1]
        best = model.encoder.embedding.logits(last).argmax(-1)
        ids = torch.cat([ids, best.masked_fill(is_done, PAD)[:, None]], dim=1)
        is_done |= best == EOS
    rows = ids[:, 1:].tolist()
    return [row[: row.index(EOS)] if EOS in row else row for row in rows]


def scores(
    model: Any, pairs: Sequence[tuple[str, str]], tokenizer: Tokenizer
) -> dict[str, float]:
    """Return BLEU, and the share of sentences that are "right" word for word."""
    pairs = sorted(pairs, key=lambda pair: len(tokenizer.encode(pair[0])))
    written = []
    for first in range(0, len(pairs), 100):
        some = [source for source, _ in pairs[first : first + 100]]
        ids = pad([[*tokenizer.encode(text), EOS] for text in some])
        written += map(tokenizer.decode, greedy(model, ids))
    references = [target for _, target in pairs]
    right = sum(map(str.__eq__, written, references)) / len(pairs)
    return {"bleu": german_bleu(written, references), "right": round(right, 3)}


@torch.no_grad()
def transplants(model: Any, tokenizer: Tokenizer) -> dict[str, list[int]]:
    """Return how often the article follows the vectors, and of how many pairs."""
    counts: dict[str, list[int]] = {}
    for frame, (before, at_word) in FRAMES.items():
        texts = [frame.format(animal) for animal in ANIMALS]
        ids = torch.tensor([[*tokenizer.encode(text), EOS] for text in texts])
        (noun,) = (ids != ids[0]).any(0).nonzero()[0].tolist()
        rest = {*range(ids.size(1))} - {*range(noun - before, noun + 1)}
        places = {"before": [*range(noun - before, noun)], "noun": [noun]}
        places |= {"both": places["before"] + places["noun"], "rest": sorted(rest)}

        def articles(outputs: list[list[int]], at: int = at_word) -> list[str]:
            words = [[*tokenizer.decode(row).split(), *[""] * at] for row in outputs]
            return [row[at] for row in words]

        own, vectors = articles(greedy(model, ids)), model.read(ids)
        all_pairs = product(range(len(texts)), repeat=2)
        pairs = [(a, b) for a, b in all_pairs if own[a] != own[b]]
        if not pairs:
            continue
        into, donors = (list(side) for side in zip(*pairs, strict=True))
        for name, at in places.items():
            mixed = [x[into] for x in vectors]
            for x, whole in zip(mixed, vectors, strict=True):
                x[:, at] = whole[donors][:, at]
            found = articles(greedy(model, ids[into], mixed))
            count = counts.setdefault(name, [0, 0])
            count[0] += sum(map(str.__eq__, found, [own[b] for b in donors]))
            count[1] += len(pairs)
    return counts


def run(kind: str, seed: int) -> dict[str, Any]:
    """Train a model; return its scores and its transplants."""
    torch.set_num_threads(1)
    pairs, unseen = toy_texts()
    texts = [text for pair in pairs for text in pair]
    tokenizer = Tokenizer.train(texts, vocab_size=VOCAB)
    model = train(kind, seed, pairs, tokenizer)
    in_layers = sum(p.numel() for p in model.parameters())
    in_layers -= model.encoder.embedding.weight.numel()
    found = {"kind": kind, "seed": seed, "in_layers": in_layers}
    found |= scores(model, unseen, tokenizer)
    return found | {"transplants": transplants(model, tokenizer)}


def main() -> None:
    """Train each kind with each seed, and write what they reach."""
    at = {"commit": require_clean()}
    runs = read_json(STACKS)["runs"] if STACKS.exists() else []
    result: dict[str, Any] = {**conditions(), "steps": STEPS, "runs": runs}
    made = {(one["kind"], one["seed"]) for one in runs}
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        missing = [
            each[::-1] for each in product(SEEDS, KINDS) if each[::-1] not in made
        ]
        for job in as_completed([pool.submit(run, *each) for each in missing]):
            runs.append(job.result() | at)
            print(runs[-1], flush=True)
            runs.sort(key=lambda one: (KINDS.index(one["kind"]), one["seed"]))
            write_json(STACKS, result)


if __name__ == "__main__":
    main()
