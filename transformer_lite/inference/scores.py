"""How close translations come to their references, at the end and on the way.

Paper: §6.1
Chapter: 06_1_machine_translation
Tests: tests/package/inference/test_scores.py
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any

import sacrebleu
from torch import nn

from transformer_lite.config import SearchConfig
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.translator import Translator
from transformer_lite.runs.console import tell

SCORED = 200
"""Validation sentences that are translated at each validation."""
SHOWN = 3
"""How many of these translations are shown."""
SHOWN_CHARACTERS = 200
"""Most characters of a translation that are shown."""

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
"""Sacrebleu's tokenizer for each language that needs another one than the default, 13a.

Chinese, Japanese and Thai have no spaces between words, and Korean has spaces between
groups of morphemes. Where sacrebleu has no tokenizer, every character is a word.
"""


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


def score(
    translations: Sequence[str],
    references: Sequence[str],
    language: str = "",
    tokenize: str | None = None,
) -> Scores:
    """Return BLEU, chrF and exact matches of translations against one reference each.

    Args:
        language: As for `bleu_of`.
        tokenize: As for `bleu_of`.

    Raises:
        ValueError: As for `bleu_of`.
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

    Args:
        language: The language's code, such as "zh", "zho" or "zh-CN"; empty if it is
            not known. Japanese and Korean need extras of sacrebleu (`ja`, `ko`);
            without them every character is a word.
        tokenize: Sacrebleu's name of a tokenizer, instead of the language's own.

    Raises:
        ValueError: Sacrebleu has no such tokenizer, or lacks a package that it needs.
    """
    if tokenize is None:
        return sacrebleu.BLEU(tokenize=_tokenizer_of(language))
    try:
        return sacrebleu.BLEU(tokenize=tokenize)
    except (AssertionError, ImportError, KeyError, RuntimeError) as error:
        is_known = tokenize in sacrebleu.BLEU.TOKENIZERS
        reason = " ".join(str(error).split()) if is_known else "unknown"
        names = ", ".join(sacrebleu.BLEU.TOKENIZERS)
        raise ValueError(
            f"tokenize = {tokenize!r}: {reason}; give one of {names}"
        ) from None


@cache
def _tokenizer_of(language: str) -> str:
    """Return sacrebleu's tokenizer for a language; note once where it is missing."""
    code = re.split("[-_]", language.lower())[0]  # without script and country
    tokenizer = TOKENIZERS.get(code, "13a")
    try:
        sacrebleu.BLEU(tokenize=tokenizer)
    except RuntimeError:
        tell(
            f"note: every character counts as a word of BLEU; for words of {language}, "
            f"pip install 'sacrebleu[{tokenizer.partition('-')[0]}]'",
        )
        return "char"
    return tokenizer


class ValidationSamples:
    """The first validation sentences, translated again at every validation.

    Args:
        search: How to translate, but for the beam: the search is greedy.
    """

    def __init__(
        self, model: nn.Module, corpus: PreparedCorpus, search: SearchConfig
    ) -> None:
        sources, references = corpus.text("valid")
        # Greedy search is several times faster, and enough to watch a run.
        search = replace(search, beam_size=1)
        self.translator = Translator(model, corpus.tokenizer, search)
        # fp32 holds whatever the precision of training does; fp16 might overflow.
        self.translator.precision = "fp32"
        self.sources, self.references = sources[:SCORED], references[:SCORED]
        self.language = corpus.languages[1]

    def __call__(self) -> dict[str, Any]:
        """Show some translations; return what to record."""
        translations = self.translator.translate(self.sources)
        samples = zip(self.sources, self.references, translations, strict=True)
        for source, reference, translation in islice(samples, SHOWN):
            if len(translation) > SHOWN_CHARACTERS:  # an untrained model goes on
                translation = translation[:SHOWN_CHARACTERS] + "…"
            shown = (
                f"  source       {source}\n"
                f"  reference    {reference}\n"
                f"  translation  {translation or '(nothing)'}"
            )
            tell(shown)
        return {**self.scores(translations), "translations": translations[:SHOWN]}

    def scores(self, translations: Sequence[str]) -> dict[str, float]:
        """Return the scores of the translations, by the names of the metrics."""
        return {"valid_bleu": score(translations, self.references, self.language).bleu}
