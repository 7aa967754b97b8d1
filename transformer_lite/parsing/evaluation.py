"""Outputs scored by what the model writes: trees by their brackets, text by BLEU.

Paper: §6.1, 6.3
Chapter: 06_3_english_constituency_parsing
Tests: tests/package/parsing/test_evaluation.py
"""

from collections.abc import Sequence

from torch import nn

from transformer_lite.config import SearchConfig
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.scores import Scores, ValidationSamples, score
from transformer_lite.parsing.brackets import BracketScores, score_brackets
from transformer_lite.parsing.trees import TREES, TREES_WITH_WORDS


def score_outputs(
    sources: Sequence[str],
    references: Sequence[str],
    outputs: Sequence[str],
    language: str = "",
    tokenize: str | None = None,
) -> Scores | BracketScores:
    """Score outputs against references: text by BLEU, trees by their brackets.

    Args:
        language: Language code of the references; for trees `TREES` or
            `TREES_WITH_WORDS`, by how the model writes them.
        tokenize: As for `bleu_of`.

    Raises:
        ValueError: As for `bleu_of`; or a reference is no tree.
    """
    if language in (TREES, TREES_WITH_WORDS):
        with_words = language == TREES_WITH_WORDS
        return score_brackets(sources, references, outputs, with_words)
    return score(outputs, references, language, tokenize)


class ParsingSamples(ValidationSamples):
    """The first validation sentences, parsed again at every validation."""

    def scores(self, translations: Sequence[str]) -> dict[str, float]:
        """Return the F1 of the brackets, and the share of outputs that are trees."""
        scores = score_outputs(
            self.sources, self.references, translations, self.language
        )
        return {"valid_f1": scores.f1_all, "valid_well_formed": scores.well_formed}


def validation_samples(
    model: nn.Module, corpus: PreparedCorpus, search: SearchConfig
) -> ValidationSamples:
    """Return what shows and scores outputs in training, for text or for trees."""
    is_treebank = corpus.languages[1] in (TREES, TREES_WITH_WORDS)
    samples = ParsingSamples if is_treebank else ValidationSamples
    return samples(model, corpus, search)
