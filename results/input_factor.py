"""Train small translators with and without the factor √d_model at the input.

Two controls change the length of the positional encodings instead; one starts with
entries so large that the embeddings are as long as with the factor. Each network has
the same toy sentences, batches and start as the others with its seed.

python -m results.input_factor
"""

import math
from itertools import islice
from typing import Any

import torch
from torch.nn import functional as F

from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig
from transformer_lite.data.toy import generate_pairs
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import PAD, Tokenizer
from transformer_lite_book.recordings import INPUT_FACTOR

WIDTH = 64
KINDS: dict[str, tuple[float, float, float]] = {
    "factor": (1, 1, 1),
    "no factor": (1 / math.sqrt(WIDTH), 1, 1),
    "no factor, shorter positions": (1 / math.sqrt(WIDTH), 1 / 8, 1),
    "factor, longer positions": (1, 8, 1),
    "no factor, large entries": (1 / math.sqrt(WIDTH), 1, math.sqrt(WIDTH)),
}
"""What multiplies the embeddings at the input, the positions, and the first matrix."""
SEEDS = range(5)
TRAIN, TEST, LONGEST, VOCAB = 3000, 200, 6, 400
"""Pairs of at most so many words, and tokens."""
STEPS, EVERY, BATCH, RATE = 600, 30, 16, 4e-3


def toy_corpus(vocab_size: int = VOCAB) -> tuple[Batch, Tokenizer]:
    """Return all pairs as ids; the last `TEST` are not trained on."""
    short = (p for p in generate_pairs(seed=1) if len(p.source.split()) <= LONGEST)
    pairs = [(p.source, p.target) for p in islice(short, TRAIN + TEST)]
    seen = [text for pair in pairs[:TRAIN] for text in pair]
    tokenizer = Tokenizer.train(seen, vocab_size=vocab_size)
    sides = zip(*pairs, strict=True)
    ids = [[tokenizer.encode(text) for text in side] for side in sides]
    return Batch.from_ids(*ids), tokenizer


def build(
    kind: str, vocab_size: int = VOCAB, of: type[Transformer] = Transformer
) -> Transformer:
    """Return an untrained model of a kind."""
    shape = {"num_layers": 1, "d_model": WIDTH, "d_ff": 128, "num_heads": 4}
    model = of(ModelConfig(vocab_size=vocab_size, dropout=0.0, **shape))
    embeddings, positions, entries = KINDS[kind]
    model.encoder.embedding.weight.data *= entries
    # Both stacks look up in this one module.
    model.encoder.embedding.register_forward_hook(lambda *found: embeddings * found[-1])
    for stack in (model.encoder, model.decoder):
        stack.positions.encoding = positions * stack.positions.encoding
    return model


def loss_of(model: Transformer, corpus: Batch, chosen: torch.Tensor) -> torch.Tensor:
    """Return the mean loss of a label."""
    logits = model(corpus.src_ids[chosen], corpus.tgt_input[chosen])
    labels = corpus.labels[chosen].flatten()
    return F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=PAD)


def train(model: Transformer, seed: int, corpus: Batch) -> list[float]:
    """Train a model; return its loss on unseen pairs, at first and after `EVERY`."""
    losses = []
    data = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), RATE, (0.9, 0.98))
    for step in range(STEPS + 1):
        if step % EVERY == 0:
            with torch.no_grad():
                unseen = torch.arange(TRAIN, TRAIN + TEST)
                losses.append(round(loss_of(model, corpus, unseen).item(), 4))
        optimizer.zero_grad()
        chosen = torch.randint(TRAIN, (BATCH,), generator=data)
        loss_of(model, corpus, chosen).backward()
        optimizer.step()
    return losses


def main() -> None:
    """Train each kind with each seed, and write the losses."""
    torch.set_num_threads(1)
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    result |= {"every": EVERY, "losses": {kind: [] for kind in KINDS}}
    corpus, _ = toy_corpus()
    for kind in KINDS:
        for seed in SEEDS:
            torch.manual_seed(seed)
            result["losses"][kind].append(train(build(kind), seed, corpus))
            print(kind, seed, result["losses"][kind][-1][::4], flush=True)
    write_json(INPUT_FACTOR, result)


if __name__ == "__main__":
    main()
