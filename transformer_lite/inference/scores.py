"""How close translations come to their references, at the end and on the way.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/inference/test_scores.py
"""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import sacrebleu
from torch import nn
from tqdm import tqdm

from transformer_lite.config import SearchConfig
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.data.trees import TREES, TREES_WITH_WORDS
from transformer_lite.inference.brackets import BracketScores, score_brackets
from transformer_lite.inference.translator import Translator

SCORED = 200
"""Validation sentences that are translated at each validation."""
SHOWN = 3
"""How many of these translations are shown."""


TOKENIZERS = {
    code: tokenizer
    for tokenizer, codes in {
        "zh": "zh zho chi cmn yue",
        "ja-mecab": "ja jpn",
        "ko-mecab": "ko kor",
        "char": "th tha lo lao km khm my mya bur bo bod tib",
    }.items()
    for code in codes.split()
}
"""How sacrebleu finds the words of a language where not by its default, 13a."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How close translations come to their references."""

    bleu: float
    """Corpus BLEU by sacrebleu, on cased, detokenized text."""
    signature: str
    """Sacrebleu's statement of how that was computed."""
    chrf: float
    """Corpus chrF2."""
    exact_match: float
    """Percentage of translations that equal their reference."""
    sentences: int


def score_outputs(
    sources: Sequence[str],
    references: Sequence[str],
    outputs: Sequence[str],
    language: str = "",
    tokenize: str | None = None,
) -> Scores | BracketScores:
    """Score outputs against references: text by BLEU, trees by their brackets.

    Args:
        sources: What a model was given.
        references: What it should have made of each.
        outputs: What it made of them.
        language: Code of the language of references; `TREES` or `TREES_WITH_WORDS` for
            trees, by how the model writes them.
        tokenize: For text, how BLEU finds words, by sacrebleu's name for it.

    Raises:
        ValueError: Sacrebleu has no such tokenizer, or not all that it needs; or a
            reference is no tree.
    """
    if language in (TREES, TREES_WITH_WORDS):
        with_words = language == TREES_WITH_WORDS
        return score_brackets(sources, references, outputs, with_words)
    return score(outputs, references, language, tokenize)


def score(
    translations: Sequence[str],
    references: Sequence[str],
    language: str = "",
    tokenize: str | None = None,
) -> Scores:
    """Return BLEU, chrF and exact matches of translations against one reference each.

    Args:
        translations: What is scored.
        references: What each of them should be.
        language: Code of the language they are in, such as "zh", "zho" or "zh-CN",
            which decides how BLEU finds the words; empty if it is not known.
        tokenize: How to find them, by sacrebleu's name for it.

    Raises:
        ValueError: Sacrebleu has no such tokenizer, or not all that it needs.
    """
    bleu = bleu_of(language, tokenize)
    equal = sum(a == b for a, b in zip(translations, references, strict=True))
    return Scores(
        bleu=bleu.corpus_score(translations, [references]).score,
        signature=str(bleu.get_signature()),
        chrf=sacrebleu.CHRF().corpus_score(translations, [references]).score,
        exact_match=100 * equal / len(references),
        sentences=len(references),
    )


def bleu_of(language: str, tokenize: str | None = None) -> sacrebleu.BLEU:
    """Return sacrebleu's BLEU for a language.

    Chinese, Japanese and Thai have no spaces between words, and in Korean what stands
    between two spaces is more than a word. Japanese and Korean are cut up by extras of
    sacrebleu (`ja`, `ko`); where these are missing every character is a word, as in
    languages for which sacrebleu has nothing.

    Args:
        language: The language's code; empty if it is not known.
        tokenize: How to find its words, by sacrebleu's name for it.

    Raises:
        ValueError: Sacrebleu has no such tokenizer, or not all that it needs.
    """
    if tokenize:
        try:
            return sacrebleu.BLEU(tokenize=tokenize)
        except (AssertionError, ImportError, KeyError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            names = ", ".join(sacrebleu.BLEU.TOKENIZERS)
            raise ValueError(
                f"tokenize = {tokenize!r}: {reason or 'unknown'}; give one of {names}"
            ) from None
    try:
        return sacrebleu.BLEU(tokenize=TOKENIZERS.get(_code(language), "13a"))
    except RuntimeError:  # an extra of sacrebleu is not installed
        return sacrebleu.BLEU(tokenize="char")


def _code(language: str) -> str:
    """Return the language of a code that may name a script or country too: zh-CN."""
    return re.split("[-_]", language.lower())[0]


class ValidationSamples:
    """The first validation sentences, translated again at every validation.

    Args:
        model: The model in training: a `Transformer`, or what searches like one.
        corpus: Its corpus.
        search: How to translate; beams are left to the end.
    """

    def __init__(
        self, model: nn.Module, corpus: PreparedCorpus, search: SearchConfig
    ) -> None:
        sources, references = corpus.text("valid")
        # Greedy search is several times faster, and enough to watch a run.
        search = replace(search, beam_size=1)
        self.translator = Translator(model, corpus.tokenizer, search)
        self.sources, self.references = sources[:SCORED], references[:SCORED]
        self.language = corpus.languages[1]

    def __call__(self) -> dict[str, Any]:
        """Show some translations; return what the metrics should record."""
        translations = self.translator.translate(self.sources)
        samples = zip(self.sources, self.references, translations, strict=True)
        for source, reference, translation in islice(samples, SHOWN):
            tqdm.write(f"  source       {source}", file=sys.stderr)
            tqdm.write(f"  reference    {reference}", file=sys.stderr)
            tqdm.write(f"  translation  {translation}", file=sys.stderr)
        scores = score_outputs(
            self.sources, self.references, translations, self.language
        )
        if isinstance(scores, BracketScores):
            found = {"valid_f1": scores.f1_all, "valid_well_formed": scores.well_formed}
        else:
            found = {"valid_bleu": scores.bleu}
        return {**found, "translations": translations[:SHOWN]}
