"""What rounding the weights to 8 bits, as in the page, costs in BLEU.

    python -m results.rounded

translates the test set with the model's weights and with the rounded ones, and writes
both scores to results/rounded.json.
"""

import os
from pathlib import Path

import torch
import tyro

from results.conditions import ROOT, require_clean
from results.everyday import CORPUS, MODEL
from results.files import write_json
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.translator import Translator
from transformer_lite.page.export import rounded_to_8_bits
from transformer_lite.parsing.evaluation import score_outputs
from transformer_lite.runs.weights import weights_of

RECORDING = ROOT / "results" / "rounded.json"


def main() -> None:
    """Score the general translator's own weights and the rounded ones."""
    commit = require_clean()
    # Its text lies where `make results` has prepared it.
    corpus = PreparedCorpus(Path("data/results", CORPUS))
    sources, references = corpus.text("test")
    translator = Translator.load(MODEL, device="cpu")
    bleu = {}
    for weights in ("own", "rounded"):
        if weights == "rounded":
            with torch.no_grad():
                parameters = weights_of(translator.model)
                for name, tensor in rounded_to_8_bits(parameters).items():
                    parameters[name].copy_(tensor)
        outputs = translator.translate(sources)
        scores = score_outputs(sources, references, outputs, corpus.languages[1])
        bleu[weights] = scores.bleu
        print(f"{weights:8} {scores.bleu:.2f}", flush=True)
    record = {"model": MODEL, "commit": commit, "sentences": len(sources)}
    write_json(RECORDING, {**record, "bleu": bleu})


if __name__ == "__main__":
    os.chdir(ROOT)
    tyro.cli(main)
