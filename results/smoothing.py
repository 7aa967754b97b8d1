"""Train small translators with and without label smoothing, and compare them.

The recipe is that of a row of our small Table 3. Each pair has the same seed: the same
initial weights and the same batches. A trained model's scores are also divided by the
temperature at which its perplexity on the validation captions is lowest. What is
counted is counted on the test captions.

python -m results.smoothing 1 0.1  # one training: its seed, its smoothing
python -m results.smoothing        # those that are missing, and the file of all
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from results.interventions import GREEDY, german_bleu
from results.make import prepare
from results.provenance import conditions, require_clean
from results.runs import ROWS
from results.storage import read_json, write_json
from results.sureness import divided, sureness
from transformer_lite.batching import Batch, fixed_batches
from transformer_lite.config import Recipe
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.scores import bleu_of
from transformer_lite.inference.translator import Translator
from transformer_lite.model import Transformer
from transformer_lite.runs.folder import RunFolder
from transformer_lite.runs.weights import load_weights
from transformer_lite.tokenizer import PAD
from transformer_lite.training.run import train_recipe
from transformer_lite_book.recordings import SMOOTHED

CORPUS, ROW = "multi30k_en_de", "table_3/C1-1"
"""One layer in place of three takes half the time."""
SPLIT, CALIBRATED_ON = "test_2016_flickr", "valid"
SEEDS, SMOOTHINGS = (1, 2, 3), (0.0, 0.1)
PRECISION = "bf16"
"""The row was trained in fp32; nothing else differs but the smoothing and the seed."""
TEMPERATURES = tuple(round(0.7 + 0.02 * place, 2) for place in range(66))
DRAWN_SETS = 1_000
"""How many test sets are drawn from the captions."""
DATA, FOLDER = Path("data/results", CORPUS), Path("runs/smoothing")


def recipe_of(seed: int, smoothing: float) -> Recipe:
    """Return the recipe of a training."""
    recipe = ROWS[ROW].settings()
    train = replace(recipe.train, seed=seed, label_smoothing=smoothing)
    train = replace(train, precision=PRECISION)
    return replace(recipe, train=train)


@torch.inference_mode()
def best_temperature(model: Any, batches: Sequence[Batch]) -> float:
    """Return the temperature with the lowest perplexity on batches."""
    model.eval()
    nll = torch.zeros(len(TEMPERATURES), dtype=torch.float64)
    for batch in batches:
        is_real = batch.labels != PAD
        scores = model(batch.src_ids, batch.tgt_input)[is_real]
        right = scores.gather(1, batch.labels[is_real][:, None])[:, 0]
        for place, by in enumerate(TEMPERATURES):
            nll[place] += ((scores / by).logsumexp(1) - right / by).double().sum()
    return TEMPERATURES[int(nll.argmin())]


def make_one(seed: int, smoothing: float, at: str) -> dict[str, Any]:
    """Train a model unless it is trained, and return what it scores and writes.

    Args:
        at: The commit at which it is trained.
    """
    path = FOLDER / f"{smoothing:g}-{seed}.json"
    if path.exists():
        return read_json(path)
    folder = path.with_suffix("")
    corpus, run = PreparedCorpus(DATA), RunFolder(folder)
    if not train_recipe(recipe_of(seed, smoothing), folder):
        sys.exit("stopped; the same command goes on")
    valid, test = (
        fixed_batches(*corpus.ids(split), 2_000) for split in (CALIBRATED_ON, SPLIT)
    )
    model = Transformer(run.recipe().model)
    load_weights(model, run.step_checkpoints()[-1])
    search = run.recipe().search
    translator = Translator(model.eval(), corpus.tokenizer, search)
    sources, references = corpus.text(SPLIT)
    made = {"seed": seed, "smoothing": smoothing, "commit": at}
    made |= {"temperature": best_temperature(model, valid)}
    outputs = {"greedy": translator.translate(sources, GREEDY)}
    for name, by in (("undivided", 1.0), ("divided", made["temperature"])):
        with divided(model, by):
            outputs[name] = translator.translate(sources, search)
            made[name] = sureness(model, test)
        made[name]["beam_bleu"] = german_bleu(outputs[name], references)
    made["greedy_bleu"] = german_bleu(outputs["greedy"], references)
    print(made, flush=True)
    write_json(path, made | {"outputs": outputs})
    return read_json(path)


def gains(runs: Sequence[dict[str, Any]], references: list[str]) -> dict[str, Any]:
    """Return gains of BLEU, each with its range in 95 % of drawn sets of captions.

    A gain is the mean of the seeds. Each drawn set takes the same captions for all.
    """
    bleu = bleu_of("de")
    # sacrebleu has no public way to score many drawn sets without counting again.
    counts = {  # a row of BLEU's counts for each caption
        (run["smoothing"], run["seed"], name): np.array(
            bleu._extract_corpus_statistics(outputs, [references])
        )
        for run in runs
        for name, outputs in run["outputs"].items()
    }

    def score(smoothing: float, name: str, chosen: Any) -> float:
        stats = [counts[smoothing, seed, name][chosen].sum(axis=0) for seed in SEEDS]
        found = [bleu._compute_score_from_stats(one.tolist()).score for one in stats]
        return sum(found) / len(found)

    without, smoothed = SMOOTHINGS
    generator, number = np.random.default_rng(0), len(references)
    sets = [generator.integers(number, size=number) for _ in range(DRAWN_SETS)]
    found = {}
    for name, more, less in (
        ("smoothing, greedy", (smoothed, "greedy"), (without, "greedy")),
        ("smoothing, beam", (smoothed, "undivided"), (without, "undivided")),
        ("smoothing, both divided", (smoothed, "divided"), (without, "divided")),
        ("dividing", (without, "divided"), (without, "undivided")),
        (
            "smoothing instead of dividing",
            (smoothed, "undivided"),
            (without, "divided"),
        ),
    ):
        drawn = [score(*more, one) - score(*less, one) for one in sets]
        every = np.arange(number)
        found[name] = {
            "gain": round(score(*more, every) - score(*less, every), 2),
            "interval": np.quantile(drawn, [0.025, 0.975]).round(2).tolist(),
        }
    return found


def main(*chosen: str) -> None:
    """Make one training, or all that are missing and the file of all."""
    torch.set_num_threads(1)
    at = require_clean()
    prepare(CORPUS)
    if chosen:
        make_one(int(chosen[0]), float(chosen[1]), at)
        return
    runs = [make_one(*each, at) for each in product(SEEDS, SMOOTHINGS)]
    _, references = PreparedCorpus(DATA).text(SPLIT)
    recipe = recipe_of(*next(product(SEEDS, SMOOTHINGS)))
    result: dict[str, Any] = {"commit": at, **conditions()}
    result |= {"row": ROW, "precision": PRECISION, "split": SPLIT}
    result |= {"calibrated_on": CALIBRATED_ON, "pairs": len(references)}
    result |= {"beam_size": recipe.search.beam_size, "alpha": recipe.search.alpha}
    result |= {"sets": DRAWN_SETS, "gains": gains(runs, references)}
    result["runs"] = [
        {key: value for key, value in run.items() if key != "outputs"} for run in runs
    ]
    write_json(SMOOTHED, result)
    print(result["gains"])


if __name__ == "__main__":
    main(*sys.argv[1:])
