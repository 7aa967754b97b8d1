"""Does label smoothing make the empty output likely? Train a translator on without it.

Two copies of one trained model see the same batches for a few more steps, one with
label smoothing and one without. Then both translate the test captions.

python -m results.without_smoothing
python -m results.without_smoothing 0 0.1  # one of the runs: its seed, its smoothing
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from results.interventions import train_on
from results.provenance import conditions, require_clean
from results.storage import read_json, write_json
from transformer_lite import Translator
from transformer_lite.batching import Batch
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.scores import bleu_of
from transformer_lite.tokenizer import BOS, EOS
from transformer_lite_book.recordings import WITHOUT_SMOOTHING

MODEL, SPLIT = "multi30k_en_de", "test_2016_flickr"
CORPUS = Path("data/results/multi30k_en_de")
SEEDS, SMOOTHINGS = (0,), (0.1, 0.0)
STEPS, PAIRS, RATE = 120, 32, 2e-4


def batches(corpus: PreparedCorpus, seed: int) -> Iterator[Batch]:
    """Yield a batch of random pairs for each step."""
    src, tgt = corpus.ids("train")
    generator = np.random.default_rng(seed)
    for _ in range(STEPS):
        pairs = generator.choice(len(src), PAIRS, replace=False)
        yield Batch.of_pairs(src, tgt, pairs)


@torch.inference_mode()
def measured(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> dict[str, Any]:
    """Return how likely a model's own translations and the empty outputs are.

    "empty" and "translation" are mean log-probabilities.
    """
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
    """Make all runs, or the one that is named by its seed and its smoothing.

    The other runs stay if the same commit has made them.
    """
    result = {"model": MODEL, "split": SPLIT, "steps": STEPS, "pairs": PAIRS}
    result |= {"rate": RATE, "commit": require_clean(), **conditions()}
    corpus, of_all = PreparedCorpus(CORPUS), {}
    if chosen and WITHOUT_SMOOTHING.exists():
        before = read_json(WITHOUT_SMOOTHING)
        if before["commit"] == result["commit"]:
            of_all = {(run["seed"], run["smoothing"]): run for run in before["runs"]}
    names = {f"{seed} {of}": (seed, of) for seed, of in product(SEEDS, SMOOTHINGS)}
    for name in [" ".join(chosen)] if chosen else names:
        seed, smoothing = names[name]
        translator = Translator.load(MODEL, device="cpu")
        rates = [RATE] * STEPS
        train_on(translator.model, batches(corpus, seed), smoothing, rates, seed)
        run = {"seed": seed, "smoothing": smoothing}
        run |= measured(translator, *corpus.text(SPLIT))
        print(run, flush=True)
        of_all[seed, smoothing] = run
        in_order = sorted(of_all, key=lambda of: (of[0], -of[1]))
        write_json(
            WITHOUT_SMOOTHING, result | {"runs": [of_all[of] for of in in_order]}
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
