"""Make a trained translator more or less sure, and count what it still gets right.

Its scores are divided by a number, which changes no greedy choice. And how far the BLEU
that smoothing gains in Table 3 depends on the captions.

python -m results.sureness
python -m results.sureness smoothing  # only the last part; the others stay
"""

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from results.interventions import GREEDY, german_bleu, pairs_of
from results.provenance import ROOT, conditions, require_clean
from results.storage import read_json, read_lines, write_json
from transformer_lite import Translator
from transformer_lite.batching import Batch
from transformer_lite.config import SearchConfig
from transformer_lite.inference.scores import bleu_of
from transformer_lite.tokenizer import PAD
from transformer_lite_book.recordings import SURENESS

MODEL, CORPUS, SPLIT = "multi30k_en_de", "multi30k", "valid"
VALID_PAIRS = 1_014
DIVISORS = (0.5, 0.8, 1.0, 1.5)
"""What all scores are divided by, before the softmax."""
BEAM = SearchConfig(beam_size=4)
SEEDS = (1, 2)
DRAWN_SETS = 2_000
"""How many test sets are drawn from the captions."""


def batches(tokenizer: Any, size: int) -> Iterator[Batch]:
    """Yield the pairs of the split in batches of about equal length."""
    pairs = zip(*pairs_of(CORPUS, SPLIT, VALID_PAIRS), strict=True)
    ids = [[tokenizer.encode(text) for text in pair] for pair in pairs]
    ids.sort(key=lambda pair: len(pair[1]))
    for first in range(0, len(ids), size):
        sources, targets = zip(*ids[first : first + size], strict=True)
        yield Batch.from_ids(sources, targets)


@contextmanager
def divided(model: Any, by: float) -> Iterator[None]:
    """Divide all scores of a model by a number inside the block."""
    embedding = model.decoder.embedding
    scores_of = embedding.logits
    with patch.object(embedding, "logits", lambda x: scores_of(x) / by):
        yield


@torch.inference_mode()
def sureness(model: Any, valid: Sequence[Batch]) -> dict[str, float]:
    """Return a model's perplexity and accuracy on batches, and how sure it is.

    "top" is the mean of the highest probability, "above_99" the share of tokens at
    which it is above 0.99.
    """
    model.eval()
    tops: list[Tensor] = []
    hits, nll = [], 0.0
    for batch in valid:
        is_real = batch.labels != PAD
        probabilities = model(batch.src_ids, batch.tgt_input)[is_real].softmax(dim=-1)
        labels = batch.labels[is_real]
        nll -= probabilities.gather(1, labels[:, None]).log().double().sum().item()
        top, chosen = probabilities.max(dim=-1)
        tops.append(top)
        hits.append(chosen == labels)
    top = torch.cat(tops)
    return {
        "perplexity": round(math.exp(nll / len(top)), 3),
        "accuracy": round(torch.cat(hits).double().mean().item(), 4),
        "top": round(top.mean().item(), 3),
        "above_99": round((top > 0.99).double().mean().item(), 3),
    }


def gain_of_smoothing() -> dict[str, Any]:
    """Return the BLEU that ε = 0.1 gains on 0, and its range in 95 % of drawn sets.

    Each drawn set takes the same captions for both, and the mean of the seeds. The
    translations are those of the runs of Table 3.
    """
    bleu = bleu_of("de")
    _, references = pairs_of(CORPUS, SPLIT, VALID_PAIRS)
    # sacrebleu has no public way to score many drawn sets without counting again.
    counts = {  # for each run, a row of BLEU's counts for each caption
        (row, seed): np.array(
            bleu._extract_corpus_statistics(
                read_lines(ROOT / f"results/table_3_longer/{row}-{seed}.valid.txt.gz"),
                [references],
            )
        )
        for row in ("D3", "base")
        for seed in SEEDS
    }

    def gain(chosen: Any) -> float:
        found = {
            run: bleu._compute_score_from_stats(rows[chosen].sum(axis=0).tolist()).score
            for run, rows in counts.items()
        }
        gains = [found["base", seed] - found["D3", seed] for seed in SEEDS]
        return sum(gains) / len(gains)

    generator, number = np.random.default_rng(0), VALID_PAIRS
    drawn = [gain(generator.integers(number, size=number)) for _ in range(DRAWN_SETS)]
    interval = np.quantile(drawn, [0.025, 0.975]).round(2).tolist()
    return {
        "commit": require_clean(),
        **conditions(),
        "sets": DRAWN_SETS,
        "gain": round(gain(np.arange(number)), 2),
        "interval": interval,
    }


def gain_again() -> None:
    """Write down anew what smoothing gains; the other parts stay."""
    result = read_json(SURENESS)
    result["smoothing"] = gain_of_smoothing()
    write_json(SURENESS, result)


def main() -> None:
    """Divide the scores, draw test sets, and write down what each gives."""
    translator = Translator.load(MODEL, device="cpu")
    model, tokenizer = translator.model, translator.tokenizer
    sources, references = pairs_of(CORPUS, SPLIT, VALID_PAIRS)
    valid = list(batches(tokenizer, 64))
    result: dict[str, Any] = {"model": MODEL, "split": SPLIT, "pairs": VALID_PAIRS}
    result |= {"commit": require_clean(), **conditions()}
    result["divided"] = {}
    for by in DIVISORS:
        with divided(model, by):
            found = sureness(model, valid)
            for name, search in (("greedy", GREEDY), ("beam", BEAM)):
                outputs = translator.translate(sources, search)
                found[f"{name}_bleu"] = german_bleu(outputs, references)
        result["divided"][str(by)] = found
        print(by, found, flush=True)
        write_json(SURENESS, result)
    result["smoothing"] = gain_of_smoothing()
    write_json(SURENESS, result)


if __name__ == "__main__":
    {"": main, "smoothing": gain_again}[" ".join(sys.argv[1:])]()
