"""Does label smoothing make the empty output likely? Train a translator on without it.

Two copies of one trained model see the same batches for a few more steps, one with
label smoothing and one without. Then both translate the test captions.

python -m results.without_smoothing
python -m results.without_smoothing 0 0.1  # one of the runs: its seed, its smoothing
"""

import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from results.provenance import conditions, require_clean
from results.storage import read_json, write_json
from transformer_lite import Translator
from transformer_lite.batching import Batch
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.scores import bleu_of
from transformer_lite.loss import label_smoothed_loss
from transformer_lite.tokenizer import BOS, EOS, PAD
from transformer_lite_book.recordings import WITHOUT_SMOOTHING

MODEL, SPLIT = "multi30k_en_de", "test_2016_flickr"
CORPUS = Path("data/results/multi30k_en_de")
SEEDS, SMOOTHINGS = (0,), (0.1, 0.0)
STEPS, PAIRS, RATE = 120, 32, 2e-4


def train_on(
    translator: Translator, corpus: PreparedCorpus, seed: int, smoothing: float
) -> None:
    """Train a translator's model for a few steps more."""
    model, (src, tgt) = translator.model, corpus.ids("train")
    generator = np.random.default_rng(seed)
    torch.manual_seed(seed)
    optimizer = torch.optim.Adam(
        model.requires_grad_().train().parameters(), RATE, (0.9, 0.98), 1e-9
    )
    for _ in range(STEPS):
        pairs = generator.choice(len(src), PAIRS, replace=False)
        batch = Batch.of_pairs(src, tgt, pairs)
        logits = model(batch.src_ids, batch.tgt_input)
        sums = label_smoothed_loss(logits, batch.labels, smoothing, PAD)
        optimizer.zero_grad()
        (sums.loss / sums.tokens).backward()
        optimizer.step()
    model.eval()


@torch.inference_mode()
def measured(translator: Translator, corpus: PreparedCorpus) -> dict[str, Any]:
    """Return how likely a model's own translations and the empty outputs are."""
    sources, references = corpus.text(SPLIT)
    search = replace(translator.search, alpha=0.0)
    translations = translator.hypotheses(sources, search)
    ends = []
    for source in sources:
        ids = torch.tensor([[*translator.tokenizer.encode(source), EOS]])
        first = translator.model(ids, torch.tensor([[BOS]]))[0, 0]
        ends.append(first.log_softmax(-1)[EOS].item())
    number = len(sources)
    log_probs = [translation.log_prob for translation in translations]
    texts = [translator.tokenizer.decode(each.ids) for each in translations]
    wins = sum(empty > own for empty, own in zip(ends, log_probs, strict=True))
    return {
        "empty": round(sum(ends) / number, 2),
        "translation": round(sum(log_probs) / number, 2),
        "empty_is_likelier": wins,
        "bleu": round(bleu_of("de").corpus_score(texts, [references]).score, 2),
    }


def main(*chosen: str) -> None:
    """Make all runs, or the one that is named by its seed and its smoothing."""
    at, corpus = require_clean(), PreparedCorpus(CORPUS)
    of_all = {f"{s} {e}": (s, e) for s, e in product(SEEDS, SMOOTHINGS)}
    names = [" ".join(chosen)] if chosen else [*of_all]
    for name in names:
        seed, smoothing = of_all[name]
        translator = Translator.load(MODEL, device="cpu")
        train_on(translator, corpus, seed, smoothing)
        run = {"seed": seed, "smoothing": smoothing, **measured(translator, corpus)}
        print(run, flush=True)
        result = {"model": MODEL, "split": SPLIT, "steps": STEPS, "pairs": PAIRS}
        result |= {"rate": RATE, "commit": at, **conditions(), "runs": []}
        if WITHOUT_SMOOTHING.exists():
            result["runs"] = read_json(WITHOUT_SMOOTHING)["runs"]
        others = [
            old for old in result["runs"] if f"{old['seed']} {old['smoothing']}" != name
        ]
        result["runs"] = sorted([*others, run], key=lambda each: each["seed"])
        write_json(WITHOUT_SMOOTHING, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
