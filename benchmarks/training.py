"""Training: target tokens a second, ours and the peers' on the same batches."""

import copy
import statistics
import time
from pathlib import Path

import torch
from pairs import training_batches
from peers import (
    JoeyNMT,
    Marian,
    Naive,
    NaiveStep,
    Ours,
    joeynmt,
    marian,
    residual_dropout_only,
)
from tqdm import tqdm

from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.model import Transformer
from transformer_lite.precision import choose_precision

CONFIG = ModelConfig(
    vocab_size=8_000, num_layers=3, d_model=256, d_ff=1024, num_heads=8, max_len=512
)


def trainers(ours: Transformer) -> dict[str, object]:
    """Return what takes the steps, by name."""
    found = {"ours, fp32": Ours(copy.deepcopy(ours), "fp32")}
    if choose_precision("auto", torch.device("cpu")) == "bf16":
        found["ours, bf16"] = Ours(copy.deepcopy(ours), "bf16")
    return found | {
        "JoeyNMT": JoeyNMT(joeynmt(ours)),
        "JoeyNMT, residual dropout only": JoeyNMT(residual_dropout_only(joeynmt(ours))),
        "Marian, eager": Marian(marian(ours, "eager")),
        "Marian, sdpa": Marian(marian(ours, "sdpa")),
        "torch.nn.Transformer": NaiveStep(Naive(ours)),
    }


@torch.no_grad()
def check_losses(ours: Transformer, batch: Batch) -> None:
    """Hold the peers' losses to ours, from equal weights and without dropout.

    Label smoothing is defined a little differently by each: hence the tolerance.
    """
    own = Ours(copy.deepcopy(ours).eval(), "fp32").objective
    sums = own(batch.src_ids, batch.tgt_input, batch.labels, batch.real)
    expected = sums.loss / batch.tokens
    joey = JoeyNMT(joeynmt(ours).eval()).loss(batch)
    # A divergence is the cross-entropy less the entropy of the smoothed target.
    rest = 0.1 / (len(ours.encoder.embedding.weight) - 2)
    wrong = len(ours.encoder.embedding.weight) - 2
    joey += -(0.9 * torch.tensor(0.9).log() + wrong * rest * torch.tensor(rest).log())
    hugging = Marian(marian(ours, "sdpa").eval()).loss(batch)
    for name, loss in {"JoeyNMT": joey, "Marian": hugging}.items():
        if abs(loss - expected) > 2e-3 * expected:
            raise AssertionError(f"{name}: loss {loss}, ours {expected}")


def measure(corpus: PreparedCorpus, passes: int, folder: Path) -> dict:
    """Measure target tokens a second of each."""
    del folder
    torch.manual_seed(1)
    ours = Transformer(CONFIG)
    batches = training_batches(corpus, 6)
    check_losses(ours, batches[0])
    steps = trainers(ours)
    times = {name: [[] for _ in batches] for name in steps}
    for number in tqdm(range(passes + 1), desc="training"):
        for index, batch in enumerate(batches):
            for name, trainer in steps.items():
                start = time.perf_counter()
                trainer.step(batch)
                if number:  # the first pass warms up
                    times[name][index].append(time.perf_counter() - start)
    tokens = sum(batch.tokens for batch in batches)
    rates = {
        name: {
            "best": tokens / sum(min(taken) for taken in each),
            "median": tokens / sum(statistics.median(taken) for taken in each),
        }
        for name, each in times.items()
    }
    return {
        "unit": "target tokens/s",
        "passes": passes,
        "batches": [list(batch.tgt_ids.shape) for batch in batches],
        "tokens": tokens,
        "rates": rates,
    }
