"""Decode one trained model in every way, and write down what each way scores.

Greedy and beam search, six exponents of the length penalty, one checkpoint and the mean
of the last ones. `make results` does it once the model is trained.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from results import records
from results.bleu import compare, lowercased_bleu, tokenized_bleu
from results.provenance import conditions
from results.runs import RUNS
from results.storage import write_json, write_lines
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.scores import bleu_of
from transformer_lite.runs.folder import RunFolder

RUN = "multi30k_en_de-1"
SPLITS = ("valid", "test_2016_flickr")
RESULT = Path("results/decoding.json")
ALPHAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


class System(NamedTuple):
    """One way to decode."""

    weights: str
    beam_size: int
    alpha: float

    @property
    def name(self) -> str:
        """The system in words."""
        beam = f"beam {self.beam_size}, α = {self.alpha}"
        return f"{self.weights}, {'greedy' if self.beam_size == 1 else beam}"


def systems() -> list[System]:
    """Return all ways; the first is the paper's, the baseline of the others."""
    # Greedy search has nothing to choose by length.
    beams = [(1, 0.6), *product((4, 8), ALPHAS)]
    ways = [System(weights, *beam) for weights in ("average", "last") for beam in beams]
    return sorted(ways, key=lambda way: way != System("average", 4, 0.6))


def decode(at: str) -> None:
    """Decode, score, compare, write.

    Args:
        at: The commit at which the process began.

    Raises:
        SystemExit: The model's weights are not on this machine.
    """
    (run,) = (run for run in RUNS if run.name == RUN)
    folder = RunFolder(run.folder)
    if not (folder.average.exists() and folder.step_checkpoints()):
        sys.exit(
            f"{run.folder}: the weights of this run are not here; delete {run.result} "
            f"and make it again: python -m results.make --only {run.name}"
        )
    corpus = PreparedCorpus(run.data)
    translators = {
        weights: records.translator_of(replace(run, weights=weights))
        for weights in ("average", "last")
    }
    result = {"run": run.name, "corpus": records.corpus_of(run)}
    result |= {"commit": at, **conditions(), "scores": {}}
    for split in SPLITS:
        sources, references = corpus.text(split)
        found = {}
        for system in systems():
            translator = translators[system.weights]
            search = replace(
                translator.search, beam_size=system.beam_size, alpha=system.alpha
            )
            found[system.name] = translator.translate(sources, search)
            print(f"{split}: {system.name}", flush=True)
            if split == SPLITS[-1]:
                write_lines(outputs(system), found[system.name])
        result["scores"][split] = scores_of(found, references, corpus.languages[1])
    write_json(RESULT, result)


def outputs(system: System) -> Path:
    """Return the file of what a system made of the last split."""
    name = f"{system.weights}_{system.beam_size}_{system.alpha}.{SPLITS[-1]}.txt.gz"
    return RESULT.parent / "decoding" / name


def scores_of(
    found: Mapping[str, Sequence[str]], references: Sequence[str], language: str
) -> dict[str, dict[str, Any]]:
    """Score each system, and compare it with the first."""
    scores = {}
    for name, comparison in compare(found, references, language).items():
        counted = bleu_of(language).corpus_score(found[name], [references])
        scores[name] = asdict(comparison) | {
            "tokenized_bleu": tokenized_bleu(found[name], references)[0],
            "lowercased_bleu": lowercased_bleu(found[name], references)[0],
            "length_ratio": counted.sys_len / counted.ref_len,
        }
    return scores
