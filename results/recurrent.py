"""Train three generations of translation models alike and write down how they do.

    python -m results.recurrent OUT.json [MODEL SEED]

The recurrent model with one context vector, the same with additive attention, and the
Transformer get the same sentences of the toy corpus in the same batches for the same
number of steps. The Transformer and the model with one vector, which are not finished
by then, are trained once more, for longer, and the model with one vector also on
sentences that never come twice, at four widths, the narrowest again for longer. With
MODEL and SEED, only that one is trained; otherwise all are that OUT.json does not hold
yet. Chapters 1 and 2 read what it wrote once, which comes with the package:
transformer_lite_book/recurrent.json.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from results.conditions import conditions, require_clean
from results.files import read_json, write_json
from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig
from transformer_lite.data.toy import generate_pairs
from transformer_lite.model import Transformer
from transformer_lite.search import greedy_search
from transformer_lite.tokenizer import BOS, EOS, PAD, UNK
from transformer_lite_book.recordings import lowered
from transformer_lite_book.recurrent import RecurrentModel

CONFIGURATION = {
    "corpus": "generate_pairs(1), words in lower case",
    "train_pairs": 10_000,
    "test_pairs": 1_000,
    "d_model": 128,
    "transformer_layers": 2,
    "transformer_heads": 4,
    "transformer_d_ff": 512,
    "dropout": 0.1,
    "batch_pairs": 64,
    "steps": {
        "one vector": 600,
        "attention": 600,
        "Transformer": 600,
        "one vector, longer": 6000,
        "Transformer, longer": 1800,
        "one vector, fresh": 6000,
        "one vector, fresh, width 32": 6000,
        "one vector, fresh, width 32, longer": 24_000,
        "one vector, fresh, width 64": 6000,
        "one vector, fresh, width 256": 6000,
    },
    "other_widths": {
        "one vector, fresh, width 32": 32,
        "one vector, fresh, width 32, longer": 32,
        "one vector, fresh, width 64": 64,
        "one vector, fresh, width 256": 256,
    },
    "warmup_steps": 60,
    "peak_rate": {"one vector": 5e-3, "attention": 5e-3, "Transformer": 3e-3},
    "seeds": [1, 2, 3],
}
FRESH = ", fresh"
"""Stands in the name of a model that is trained on sentences that never come twice."""
POOL = 20
"""So many batches' pairs are sorted by length together."""
SHOWN = 12
"""So many translations of each model are kept as text."""


Pair = tuple[list[str], list[str]]
"""The words of a sentence and those of its translation, in lower case."""


def pairs_of(seed: int) -> Iterator[Pair]:
    """Yield the pairs of the toy corpus, without end."""
    for pair in generate_pairs(seed):
        yield lowered(pair.source_words), lowered(pair.target_words)


class Data:
    """Training and test pairs, and their vocabulary of whole words."""

    def __init__(self) -> None:
        size, total = CONFIGURATION["train_pairs"], CONFIGURATION["test_pairs"]
        pairs = list(islice(pairs_of(1), size + total))
        self.train, self.test = pairs[:size], pairs[size:]
        words = sorted({word for pair in self.train for side in pair for word in side})
        self.words = ["PAD", "BOS", "EOS", "UNK", *words]
        self.ids = {word: i for i, word in enumerate(words, start=UNK + 1)}

    def batch(self, pairs: Iterable[Pair]) -> Batch:
        """Make the batch of these pairs."""
        sides = zip(*pairs, strict=True)
        return Batch.from_ids(
            *([[self.ids[word] for word in row] for row in side] for side in sides)
        )

    def batches(self, seed: int) -> Iterator[Batch]:
        """Yield endless batches of the training pairs, shuffled in every epoch."""
        rng = np.random.default_rng(seed)
        while True:
            order = rng.permutation(len(self.train))
            yield from self._batches_of([self.train[i] for i in order], rng)

    def fresh_batches(self, seed: int) -> Iterator[Batch]:
        """Yield the same of sentences that never come again, nor are test sentences."""
        rng = np.random.default_rng(seed)
        tested = {" ".join(source) for source, _ in self.test}
        unseen = (p for p in pairs_of(1000 + seed) if " ".join(p[0]) not in tested)
        while pool := list(islice(unseen, POOL * CONFIGURATION["batch_pairs"])):
            yield from self._batches_of(pool, rng)

    def _batches_of(
        self, pairs: list[Pair], rng: np.random.Generator
    ) -> Iterator[Batch]:
        """Yield batches of about equally long sentences, in random order."""
        size, parts = CONFIGURATION["batch_pairs"], []
        for start in range(0, len(pairs), POOL * size):
            pool = pairs[start : start + POOL * size]
            pool.sort(key=lambda pair: len(pair[1]))
            parts += [pool[k : k + size] for k in range(0, len(pool), size)]
        return (self.batch(parts[k]) for k in rng.permutation(len(parts)))


def base_of(name: str) -> str:
    """Return the model's own name, without what its training has of its own."""
    return name.partition(",")[0]


def new_model(name: str, vocab_size: int) -> nn.Module:
    """Make one of the three models, untrained."""
    c, kind = CONFIGURATION, base_of(name)
    if kind != "Transformer":
        width = c["other_widths"].get(name, c["d_model"])
        return RecurrentModel(vocab_size, width, kind == "attention", c["dropout"])
    return Transformer(
        ModelConfig(
            vocab_size=vocab_size,
            num_layers=c["transformer_layers"],
            d_model=c["d_model"],
            d_ff=c["transformer_d_ff"],
            num_heads=c["transformer_heads"],
            dropout=c["dropout"],
            max_len=64,
        )
    )


def train(model: nn.Module, name: str, seed: int, data: Data) -> list[dict]:
    """Train it in place; return the curve of its training loss."""
    steps, warmup = CONFIGURATION["steps"][name], CONFIGURATION["warmup_steps"]
    peak = CONFIGURATION["peak_rate"][base_of(name)]
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    curve, losses = [], []
    batches = (data.fresh_batches if FRESH in name else data.batches)(seed)
    for step, batch in enumerate(islice(batches, steps), start=1):
        rate = min(step / warmup, (steps + 1 - step) / (steps + 1 - warmup))
        optimizer.param_groups[0]["lr"] = peak * rate
        logits = model(batch.src_ids, batch.tgt_input)
        loss = F.cross_entropy(
            logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD
        )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 50 == 0:
            curve.append({"step": step, "train_loss": round(np.mean(losses), 4)})
            print(name, seed, curve[-1], flush=True)
            losses = []
    return curve


@torch.inference_mode()
def evaluate(model: nn.Module, data: Data) -> dict:
    """Say of each test sentence whether it is right, and how many tokens are wrong."""
    order = sorted(range(len(data.test)), key=lambda i: len(data.test[i][0]))
    exact, wrong, texts = {}, {}, {}
    for start in range(0, len(order), 100):
        rows = order[start : start + 100]
        batch = data.batch([data.test[i] for i in rows])
        limits = torch.full((len(rows),), batch.tgt_ids.size(1) + 5)
        found = greedy_search(
            model.decoder.step, model.start(batch.src_ids), limits, BOS, EOS
        )
        guess = model(batch.src_ids, batch.tgt_input).argmax(dim=-1)
        misses = ((guess != batch.labels) & (batch.labels != PAD)).sum(dim=1).tolist()
        for i, output, missed in zip(rows, found, misses, strict=True):
            words = [data.words[token] for token in output.ids]
            exact[i], wrong[i] = words == data.test[i][1], min(missed, 9)
            texts[i] = " ".join(words)
    test = range(len(order))
    return {
        "exact_match": round(100 * sum(exact.values()) / len(exact), 1),
        "exact": "".join(str(int(exact[i])) for i in test),
        "wrong_tokens": "".join(str(wrong[i]) for i in test),
        "translations": [texts[i] for i in test[:SHOWN]],
    }


def run(name: str, seed: int) -> dict:
    """Train and evaluate one model."""
    data = Data()
    torch.manual_seed(seed)
    model = new_model(name, len(data.words))
    start = time.process_time()
    curve = train(model, name, seed, data)
    seconds = round(time.process_time() - start)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "processor_seconds": seconds,
        "curve": curve,
        **evaluate(model.eval(), data),
    }


def main(out: Path, wanted: list[tuple[str, int]]) -> None:
    """Train what the file does not hold yet, and write it down after each training."""
    made_by = {"commit": require_clean(), **conditions()}
    for name, seed in wanted:
        if str(seed) in stored(out).get(name, {}):
            continue
        found = {"conditions": made_by, **run(name, seed)}
        runs = stored(out)  # to which another process may have added
        runs.setdefault(name, {})[str(seed)] = found
        write_json(out, {"configuration": CONFIGURATION, "runs": runs})


def stored(out: Path) -> dict[str, dict[str, dict]]:
    """Read what the file holds, by the model's name and the seed.

    Raises:
        ValueError: It was made with another configuration.
    """
    if not out.exists():
        return {}
    record = read_json(out)
    if record["configuration"] != CONFIGURATION:
        raise ValueError(
            f"{out}: was made with another configuration; give another file, or "
            "delete it to have all made again"
        )
    return record["runs"]


if __name__ == "__main__":
    every = [(n, s) for n in CONFIGURATION["steps"] for s in CONFIGURATION["seeds"]]
    out, *one = sys.argv[1:]
    main(Path(out), [(one[0], int(one[1]))] if one else every)
