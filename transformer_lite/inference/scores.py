"""How close translations come to their references, at the end and on the way.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/inference/test_scores.py
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import sacrebleu
from tqdm import tqdm

from transformer_lite.config import SearchConfig
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.translator import Translator
from transformer_lite.model import Transformer

SCORED = 200
"""Validation sentences that are translated at each validation."""
SHOWN = 3
"""How many of these translations are shown."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How close translations come to their references."""

    bleu: float
    """Corpus BLEU by sacrebleu's defaults, on cased, detokenized text."""
    signature: str
    """Sacrebleu's statement of how that was computed."""
    chrf: float
    """Corpus chrF2."""
    exact_match: float
    """Percentage of translations that equal their reference."""
    sentences: int


def score(translations: Sequence[str], references: Sequence[str]) -> Scores:
    """BLEU, chrF and exact matches of translations against one reference each."""
    bleu = sacrebleu.BLEU()
    equal = sum(a == b for a, b in zip(translations, references, strict=True))
    return Scores(
        bleu=bleu.corpus_score(translations, [references]).score,
        signature=str(bleu.get_signature()),
        chrf=sacrebleu.CHRF().corpus_score(translations, [references]).score,
        exact_match=100 * equal / len(references),
        sentences=len(references),
    )


class ValidationSamples:
    """The first validation sentences, translated again at every validation.

    Args:
        model: The model in training.
        corpus: Its corpus.
        search: How to translate; beams are left to the end.
    """

    def __init__(
        self, model: Transformer, corpus: PreparedCorpus, search: SearchConfig
    ) -> None:
        sources, references = corpus.text("valid")
        # Greedy search is several times faster, and enough to watch a run.
        search = replace(search, beam_size=1)
        self.translator = Translator(model, corpus.tokenizer, search)
        self.sources, self.references = sources[:SCORED], references[:SCORED]

    def __call__(self) -> dict[str, Any]:
        """Show some translations; return what the metrics shall record."""
        translations = self.translator.translate(self.sources)
        samples = zip(self.sources, self.references, translations, strict=True)
        for source, reference, translation in islice(samples, SHOWN):
            tqdm.write(f"  source       {source}", file=sys.stderr)
            tqdm.write(f"  reference    {reference}", file=sys.stderr)
            tqdm.write(f"  translation  {translation}", file=sys.stderr)
        return {
            "valid_bleu": score(translations, self.references).bleu,
            "translations": translations[:SHOWN],
        }
