"""`transformer-lite evaluate`: translations become scores.

Paper: §6.1, 6.3
Chapter: 06_1_machine_translation, 06_3_english_constituency_parsing
Tests: tests/test_cli.py, tests/test_parsing.py
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from transformer_lite.commands.translate import Search
from transformer_lite.config import Recipe
from transformer_lite.data.trees import TREES, TREES_WITH_WORDS
from transformer_lite.files import write_whole
from transformer_lite.training.folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class Evaluate(Search):
    """Score a run's translations of one split: BLEU, chrF, loss; of trees, bracket F1.

    A run on a treebank has labelled precision, recall and F1 as EVALB counts them.
    """

    split: str = "test"
    """Which split of the prepared corpus."""
    data: Path | None = None
    """The prepared corpus, if it lies elsewhere than at training."""
    translations: Path | None = None
    """File to write the translations to, one a line; trees as the model's own tokens,
    which may be no tree."""
    tokenize: str | None = None
    """How BLEU finds words, by sacrebleu's name; by default as the language asks."""
    json: Path | None = None
    """File to write the scores to."""

    def run(self) -> None:
        """Print a table, and write the same as JSON."""
        from transformer_lite.data.store import PreparedCorpus
        from transformer_lite.inference.published import is_published
        from transformer_lite.inference.scores import bleu_of, score_outputs
        from transformer_lite.training.step import validate

        if is_published(self.folder):
            raise ValueError(
                f"{self.folder}: a published model, and scores are those of a run on "
                "its corpus; have it translate a file (transformer-lite translate "
                f"{self.folder} FILE --out OUT), then: sacrebleu REFERENCE -i OUT"
            )
        for path in (self.translations, self.json):
            if path and path.is_dir():
                raise ValueError(f"{path}: a folder; give the name of a file")
        folder = self.trained()
        recipe = folder.recipe()
        corpus = PreparedCorpus(self.data or self._usual_data(folder, recipe))
        self._compare(folder, corpus)
        sources, references = corpus.text(self.split)
        batches = self._batches(corpus, recipe)
        language = corpus.languages[1] or folder.languages()[1]
        if self.tokenize:  # before all the work
            if language in (TREES, TREES_WITH_WORDS):
                raise ValueError(
                    "--tokenize is for BLEU, and trees have none; leave it out"
                )
            bleu_of(language, self.tokenize)
        with self.translator() as (translator, weights):
            translations = translator.translate(sources)
        if self.translations:
            text = "".join(f"{line}\n" for line in translations).encode("utf-8")
            write_whole(self.translations, lambda partial: partial.write_bytes(text))
        scores = score_outputs(
            sources, references, translations, language, self.tokenize
        )
        report = validate(translator.model, batches, recipe.train.label_smoothing)
        results = {**asdict(scores), "loss": report.loss, "nll": report.nll}
        results["weights"] = str(weights)
        for name, value in results.items():
            print(f"{name:14} {_shown(value)}")
        if self.json:
            table = json.dumps(results, indent=2) + "\n"
            write_whole(self.json, lambda partial: partial.write_text(table))

    def _usual_data(self, folder: RunFolder, recipe: Recipe) -> Path:
        """Where the run's corpus lies if nobody has moved it."""
        if recipe.data.is_dir():
            return recipe.data
        card = folder.path / "README.md"  # beside the models of the package
        if card.exists():
            raise ValueError(
                f"{self.folder}: its corpus does not come with the package; prepare it "
                f"as {card} says, and give --data"
            )
        raise ValueError(
            f"{recipe.data}: the corpus of this run is not there; give --data, the "
            "folder where it lies now"
        )

    def _compare(self, folder: RunFolder, corpus: Any) -> None:
        """See that the corpus has the run's vocabulary; say if it is another one."""
        vocabulary = (corpus.folder / "tokenizer.model").read_bytes()
        if folder.tokenizer.read_bytes() != vocabulary:
            raise ValueError(
                f"{corpus.folder}: has another vocabulary than {self.folder}; give "
                "--data with the corpus of this run, or score what translate writes"
            )
        if folder.training_data().get("fingerprint") != corpus.fingerprint():
            note = (
                f"{corpus.folder} is not the corpus that {self.folder} was trained on"
            )
            print(f"note: {note}", file=sys.stderr)

    def _batches(self, corpus: Any, recipe: Recipe) -> list:
        """The split's batches, made before all the work.

        Raises:
            ValueError: A pair is longer than the model allows.
        """
        from transformer_lite.batching import fixed_batches

        sides = corpus.ids(self.split)
        longest = 1 + max(int(side.lengths.max()) for side in sides)
        if longest > recipe.model.max_len:
            raise ValueError(
                f"{corpus.folder}: {self.split} has a sentence of {longest} tokens, "
                f"longer than model.max_len = {recipe.model.max_len}; take it out and "
                "prepare again"
            )
        return fixed_batches(*sides, max(longest, recipe.train.batch_tokens))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{n:,} {kind}" for kind, n in value.items()) or "none"
    return f"{value:.2f}" if isinstance(value, float) else f"{value}"
