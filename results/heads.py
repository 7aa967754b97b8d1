"""Train five small translators of the toy corpus from five seeds, and keep them.

    python -m results.heads OUT.safetensors

The chapter on the attention visualizations asks what their heads look at. What this
wrote once comes with the package: transformer_lite_book/heads.safetensors. It takes
about half a minute for each on one processor core.
"""

import json
from itertools import islice
from pathlib import Path

import torch
import tyro
from safetensors.torch import save_file
from tyro.conf import Positional

from results.conditions import conditions, require_clean
from transformer_lite.batching import BatchStream, Sequences
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam
from transformer_lite.runs.files import write_whole
from transformer_lite.runs.weights import weights_of
from transformer_lite.training.step import Objective, train_step
from transformer_lite_book.recordings import (
    TRAIN_PAIRS,
    lowered,
    pronoun_pairs,
    toy_config,
)

SEEDS = [1, 2, 3, 4, 5]
STEPS, WARMUP, PEAK_RATE, BATCH_TOKENS = 700, 60, 6e-3, 1400


def train(model: Transformer, src: list, tgt: list, seed: int) -> None:
    """Train a model in place; the rate rises, then falls, both in a straight line."""
    optimizer = adam(model.parameters(), PEAK_RATE)
    objective = Objective(model, smoothing=0.0)
    stream = BatchStream(
        *map(Sequences.from_lists, (src, tgt)), batch_tokens=BATCH_TOKENS, seed=seed
    )
    for step, part in enumerate(islice(stream.steps(), STEPS), start=1):
        rate = min(step / WARMUP, (STEPS + 1 - step) / (STEPS + 1 - WARMUP))
        optimizer.param_groups[0]["lr"] = PEAK_RATE * rate
        report = train_step(objective, part.batches, optimizer)
        if step % 100 == 0:
            print(f"seed {seed}, step {step}: loss {report.loss:.4f}", flush=True)


def main(out: Positional[Path], /) -> None:
    """Train all and write them, rounded to 16 bits, with how they came to be."""
    at = require_clean()
    pairs = list(islice(pronoun_pairs(), TRAIN_PAIRS))
    sides = (
        [lowered(p.source_words) for p in pairs],
        [lowered(p.target_words) for p in pairs],
    )
    words = sorted({word for side in sides for row in side for word in row})
    words = ["PAD", "BOS", "EOS", "UNK", *words]
    ids = {word: i for i, word in enumerate(words)}
    src, tgt = ([[ids[word] for word in row] for row in side] for side in sides)
    kept = {}
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = Transformer(toy_config(len(words)))
        train(model, src, tgt, seed)
        for name, tensor in weights_of(model).items():
            kept[f"{seed}.{name}"] = tensor.half().contiguous()
    metadata = {
        "words": words,
        "seeds": SEEDS,
        "train_pairs": TRAIN_PAIRS,
        "steps": STEPS,
        "warmup_steps": WARMUP,
        "peak_rate": PEAK_RATE,
        "batch_tokens": BATCH_TOKENS,
        "commit": at,
        **conditions(),
    }
    told = {name: json.dumps(value) for name, value in metadata.items()}
    write_whole(out, lambda partial: save_file(kept, partial, told))


if __name__ == "__main__":
    tyro.cli(main)
