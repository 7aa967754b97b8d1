"""Train small translators whose padding has a loss, beside others whose has none.

Held-out toy pairs tell after some steps what the tokens cost, and how many the model
predicts: so what is slower at first is told apart from what is worse at the end.

python -m results.pad_loss
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from results.provenance import conditions, require_clean
from results.storage import write_json
from transformer_lite.batching import Batch, Sequences
from transformer_lite.config import ModelConfig
from transformer_lite.data.toy import generate_pairs
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import PAD, Tokenizer
from transformer_lite_book.recordings import PAD_LOSS

CONFIG = ModelConfig(
    vocab_size=300, num_layers=1, d_model=48, d_ff=96, num_heads=4, dropout=0.0
)
PAIRS, LEARNED, TESTED = 3000, 2800, 100
SEEDS, BATCH, RATE = range(3), 32, 5e-3
STEPS = (40, 160, 640)
"""After how many steps the models are tested."""
LABELS: dict[str, Callable[[Tensor], Tensor]] = {
    "all but PAD": lambda labels: labels != PAD,
    "PAD, too": lambda labels: labels >= PAD,
}
"""Which labels have a loss."""


def toy_sides() -> tuple[list[Sequences], Batch]:
    """Return the ids of the toy pairs on both sides, and a batch that is held out."""
    toy = list(islice(generate_pairs(1), PAIRS))
    lines = [[" ".join(pair.source_words) for pair in toy]]
    lines.append([" ".join(pair.target_words) for pair in toy])
    tokenizer = Tokenizer.train([*lines[0], *lines[1]], CONFIG.vocab_size)
    ids = [Sequences.from_lists(tokenizer.encode_all(side)) for side in lines]
    known = set(lines[0][:LEARNED])
    new = [i for i in range(LEARNED, PAIRS) if lines[0][i] not in known][:TESTED]
    return ids, Batch.of_pairs(*ids, np.array(new))


def batches(ids: list[Sequences], order: str, seed: int) -> Iterator[Batch]:
    """Yield batches of pairs drawn at random, or of neighbours in length."""
    generator = np.random.default_rng(seed)
    by_length = np.lexsort([side.lengths[:LEARNED] for side in ids])
    while True:
        if order == "random":
            pairs = generator.integers(0, LEARNED, BATCH)
        else:
            start = generator.integers(0, LEARNED - BATCH + 1)
            pairs = by_length[start : start + BATCH]
        yield Batch.of_pairs(*ids, pairs)


@torch.inference_mode()
def tested(model: Transformer, batch: Batch) -> dict[str, float]:
    """Return the loss of the tokens, the mean with PAD, and the tokens' share right."""
    logits = model.eval()(batch.src_ids, batch.tgt_input)
    losses = F.cross_entropy(logits.mT, batch.labels, reduction="none")
    real = batch.labels != PAD
    right = (logits.argmax(-1) == batch.labels)[real]
    model.train()
    return {
        "loss": losses[real].mean().item(),
        "loss_with_pad": losses.mean().item(),
        "right": right.double().mean().item(),
    }


def train(
    ids: list[Sequences], held_out: Batch, labels: str, order: str, seed: int
) -> list[dict[str, float]]:
    """Train a model and return what `tested` tells after each of `STEPS`."""
    torch.manual_seed(seed)
    model = Transformer(CONFIG)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    found = []
    drawn = islice(batches(ids, order, seed), max(STEPS))
    for step, batch in enumerate(drawn, start=1):
        counts = LABELS[labels](batch.labels)
        logits = model(batch.src_ids, batch.tgt_input)
        loss = F.cross_entropy(logits[counts], batch.labels[counts])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in STEPS:
            found.append(tested(model, held_out))
    return found


def main() -> None:
    """Train with each kind of labels, order and seed, and write what was found."""
    torch.set_num_threads(1)
    result: dict[str, Any] = {"commit": require_clean(), **conditions()}
    result |= {"steps": STEPS, "runs": {}}
    ids, held_out = toy_sides()
    for seed in SEEDS:
        for order in ("random", "by length"):
            for labels in LABELS:
                run = train(ids, held_out, labels, order, seed)
                result["runs"].setdefault(f"{order}, {labels}", []).append(run)
                print(seed, order, labels, *(one["loss"] for one in run), flush=True)
    write_json(PAD_LOSS, result)


if __name__ == "__main__":
    main()
