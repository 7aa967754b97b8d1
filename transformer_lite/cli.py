"""The command line, `transformer-lite VERB …`: its verbs, and errors in one line.

Each verb is a dataclass: its fields are the verb's arguments. The settings of `train`
are the configurations' own fields, so every name, default and help text stands once.

Paper: §5–6
Chapter: the_multi_gpu_trainer
Tests: tests/test_cli.py
"""

import io
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import asdict, dataclass, fields, replace
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import tyro
from tyro.conf import FlagCreatePairsOff, Positional

from transformer_lite.batching import fixed_batches
from transformer_lite.config import Recipe, load_recipe
from transformer_lite.data.corpora import corpus_of_files, load_corpus
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.export import export_ctranslate2
from transformer_lite.inference.parallel import parallel_translator
from transformer_lite.inference.scores import ValidationSamples, score
from transformer_lite.inference.translator import Translator
from transformer_lite.tokenizer import VOCAB_SENTENCES
from transformer_lite.training import checkpoint
from transformer_lite.training.folder import RunFolder
from transformer_lite.training.hardware import keep_freed_memory
from transformer_lite.training.run import train_recipe
from transformer_lite.training.step import validate

INTERRUPTED = 130
"""Exit status of a run that a signal ended, as shells give it."""


@runtime_checkable
class Verb(Protocol):
    """A verb with its arguments."""

    def run(self) -> None:
        """Do it."""


@dataclass(frozen=True, kw_only=True)
class Prepare:
    """Get a corpus, learn its vocabulary, write its sentences as ids."""

    corpus: Positional[str]
    """"toy", "multi30k", "wmt14", or "files" for files of your own."""
    out: Path
    """Folder to make."""
    source: str = "en"
    """Source language of multi30k and wmt14: en, de or fr."""
    target: str = "de"
    """Target language of multi30k and wmt14: en, de or fr."""
    train: tuple[Path, Path] | None = None
    """Your training files: source and target, one sentence a line."""
    valid: tuple[Path, Path] | None = None
    """Your validation files."""
    test: tuple[Path, Path] | None = None
    """Your test files, if you have any."""
    vocab_size: int | None = None
    """Size of the shared vocabulary; by default 500 for toy, 37000 for wmt14, otherwise
    8000."""
    vocab_sentences: int = VOCAB_SENTENCES
    """Most sentences that the vocabulary is learned from, drawn at random."""
    max_length: int = 256
    """Most tokens of a sentence."""
    skip_long: bool = False
    """Leave longer training pairs out instead of stopping at them."""

    def run(self) -> None:
        """Write the folder."""
        if self.corpus != "files":
            if self.train or self.valid or self.test:
                raise ValueError(
                    f"{self.corpus}: has its own text; for yours, write prepare files "
                    "--train SOURCE TARGET --valid SOURCE TARGET"
                )
            corpus = load_corpus(self.corpus, self.source, self.target)
        elif self.train and self.valid:
            corpus = corpus_of_files(self.train, self.valid, self.test)
        else:
            raise ValueError(
                "files of your own: give --train SOURCE TARGET --valid SOURCE TARGET"
            )
        vocab_size = self.vocab_size
        if vocab_size is None:
            vocab_size = {"toy": 500, "wmt14": 37_000}.get(self.corpus, 8000)
        prepare(
            corpus,
            self.out,
            vocab_size,
            self.max_length,
            self.skip_long,
            self.vocab_sentences,
        )
        sizes = PreparedCorpus(self.out).sizes
        pairs = ", ".join(f"{size:,} {split}" for split, size in sizes.items())
        print(f"{self.out}: {pairs} pairs, {vocab_size:,} tokens in the vocabulary")


@dataclass(frozen=True, kw_only=True)
class Train(Recipe):
    """Train a model by a recipe; resumes from the last checkpoint in --out."""

    recipe: Positional[str]
    """A recipe of the package, such as toy, or a TOML file."""
    out: Path
    """The run's folder."""

    def run(self) -> None:
        """Train to the recipe's last step, or to a signal."""
        keep_freed_memory()
        recipe = Recipe(**{e.name: getattr(self, e.name) for e in fields(Recipe)})
        if not train_recipe(recipe, self.out, ValidationSamples):
            print("stopped; the same command goes on from here", file=sys.stderr)
            sys.exit(INTERRUPTED)
        if os.environ.get("RANK", "0") == "0":  # one process speaks for all
            print(f"{self.out}: all {recipe.train.max_steps:,} steps are done")


@dataclass(frozen=True, kw_only=True)
class Average:
    """Average the last checkpoints of a run."""

    folder: Positional[Path]
    """The run's folder."""
    last: int = 5
    """How many checkpoints."""

    def run(self) -> None:
        """Write average.safetensors beside the checkpoints."""
        folder = RunFolder(self.folder)
        paths = folder.step_checkpoints()
        if not 1 <= self.last <= len(paths):
            raise ValueError(
                f"{folder.checkpoints}: has {len(paths)} checkpoints; --last "
                f"{self.last} is not possible, give at least 1 and at most as many as "
                "there are"
            )
        averaged = checkpoint.average(paths[-self.last :])
        checkpoint.save_weights(folder.average, averaged)
        print(f"averaged {', '.join(path.stem for path in paths[-self.last :])}")


@dataclass(frozen=True, kw_only=True)
class Translate:
    """Translate standard input, one line in, one line out."""

    folder: Positional[Path]
    """The run's folder."""
    weights: Path | None = None
    """A checkpoint; by default the average, else the best, else the newest."""
    beam: int | None = None
    """Beam size; 1 is greedy search."""
    alpha: float | None = None
    """Exponent of the length penalty."""
    workers: int = 1
    """Processes that translate; on CPUs one for each core pays for many sentences."""

    def run(self) -> None:
        """Translate every line; an empty line stays empty."""
        translator = self._load()
        lines = _decode_lines(sys.stdin.buffer.read())
        # In UTF-8 as the input is, whatever the terminal's language.
        for translation in self._translate(translator, lines):
            sys.stdout.buffer.write(translation.encode("utf-8") + b"\n")
        sys.stdout.buffer.flush()
        print(f"weights: {self._weights()}", file=sys.stderr)

    def _weights(self) -> Path:
        return self.weights or RunFolder(self.folder).default_weights()

    def _load(self) -> Translator:
        keep_freed_memory()
        translator = Translator.load(self.folder, self._weights())
        given = {"beam_size": self.beam, "alpha": self.alpha}
        given = {name: value for name, value in given.items() if value is not None}
        translator.search = replace(translator.search, **given)
        return translator

    def _translate(self, translator: Translator, lines: list[str]) -> list[str]:
        if self.workers < 1:
            raise ValueError(f"--workers {self.workers} is impossible; give at least 1")
        if self.workers == 1:
            return translator.translate(lines)
        with parallel_translator(
            translator, self.folder, self._weights(), self.workers
        ) as several:
            return several.translate(lines)


@dataclass(frozen=True, kw_only=True)
class Evaluate(Translate):
    """Score a run's translations of one split: BLEU, chrF, loss, exact matches."""

    split: str = "test"
    """Which split of the prepared corpus."""
    data: Path | None = None
    """The prepared corpus, if it lies elsewhere than at training."""
    json: Path | None = None
    """File to write the scores to."""

    def run(self) -> None:
        """Print a table, and write the same as JSON."""
        recipe = RunFolder(self.folder).recipe()
        corpus = PreparedCorpus(self.data or recipe.data)
        sources, references = corpus.text(self.split)
        translator = self._load()
        translations = self._translate(translator, sources)
        scores = asdict(score(translations, references))
        batches = fixed_batches(*corpus.ids(self.split), recipe.train.batch_tokens)
        report = validate(translator.model, batches, recipe.train.label_smoothing)
        results = {**scores, "loss": report.loss, "nll": report.nll}
        results["weights"] = str(self._weights())
        for name, value in results.items():
            shown = f"{value:.2f}" if isinstance(value, float) else value
            print(f"{name:12} {shown}")
        if self.json:
            self.json.write_text(json.dumps(results, indent=2) + "\n")


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a run's model in the format of a program that serves it faster."""

    folder: Positional[Path]
    """The run's folder."""
    out: Path
    """Folder to make."""
    format: Literal["ctranslate2"] = "ctranslate2"
    """The program: pip install ctranslate2."""
    weights: Path | None = None
    """A checkpoint; by default the average, else the best, else the newest."""

    def run(self) -> None:
        """Write the folder."""
        weights = self.weights or RunFolder(self.folder).default_weights()
        export_ctranslate2(Translator.load(self.folder, weights), self.out)
        print(f"{self.out}: {self.format} model of {weights}")


VERBS = {
    "prepare": Prepare,
    "train": Train,
    "average": Average,
    "translate": Translate,
    "evaluate": Evaluate,
    "export": Export,
}


def _decode_lines(text: bytes) -> list[str]:
    lines = []
    for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            lines.append(line.removesuffix(b"\r").decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(
                f"standard input, line {number}: not UTF-8 (byte {error.start + 1}); "
                "convert the text to UTF-8"
            ) from error
    return lines if text else []


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb; a user's mistake gives one line on stderr and exit status 2."""
    verb, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if verb not in VERBS:
        asked = verb in ("-h", "--help")
        print(_overview(), file=sys.stdout if asked else sys.stderr)
        if verb and not asked:
            print(f'\ntransformer-lite: error: no verb "{verb}"', file=sys.stderr)
        sys.exit(0 if asked else 2)
    try:
        _parse(verb, rest).run()
    except KeyboardInterrupt:
        print(f"transformer-lite {verb}: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.exit(INTERRUPTED)
    except (ValueError, OSError, FloatingPointError) as error:
        print(f"transformer-lite {verb}: error: {error}", file=sys.stderr)
        sys.exit(2)


def _parse(verb: str, arguments: Sequence[str]) -> Verb:
    """The verb with its arguments.

    Raises:
        ValueError: An option is unknown or its value impossible.
    """
    default = _train_by_recipe(arguments) if verb == "train" else None
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return tyro.cli(
                VERBS[verb],
                prog=f"transformer-lite {verb}",
                args=arguments,
                default=default,
                config=(FlagCreatePairsOff,),
            )
    except SystemExit as end:
        if not end.code:
            raise  # that was --help
        raise ValueError(
            f"{_one_line(said.getvalue())}; see transformer-lite {verb} --help"
        ) from None


def _one_line(box: str) -> str:
    """The message in the box, of lines or of hyphens, that tyro puts an error in."""
    lines = [line.strip("│╭╮╰╯ ") for line in box.splitlines()]
    inside = dropwhile(_is_rule, lines[1:])  # the first line is the box's title
    message = " ".join(takewhile(lambda line: not _is_rule(line), inside))
    message = re.sub("^Error parsing (model|train|search): ", r"\1.", message)
    return message.removeprefix("Error parsing ").removesuffix(".")


def _is_rule(line: str) -> bool:
    return set(line) <= set("─-")


def _train_by_recipe(arguments: Sequence[str]) -> Train | None:
    """The recipe's settings, to be the defaults of the options of `train`."""
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            break
        if word.startswith("--") and "=" not in word:
            next(words, None)  # an option's value
    else:
        return None
    recipe = load_recipe(word)
    settings = {entry.name: getattr(recipe, entry.name) for entry in fields(Recipe)}
    return Train(recipe=word, out=Path("runs", Path(word).stem), **settings)


def _overview() -> str:
    lines = [f"  {verb:10} {command.__doc__}" for verb, command in VERBS.items()]
    return "\n".join(["usage: transformer-lite VERB …   (VERB --help)", "", *lines])
