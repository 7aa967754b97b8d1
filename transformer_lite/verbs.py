"""The verbs that use a trained model: average, translate, evaluate, page.

PyTorch takes seconds to import. Each verb imports it only when its work begins, so that
help and errors in a command come at once.

Paper: §5–6
Chapter: 06_1_machine_translation
Tests: tests/package/test_cli.py
"""

import json as json_format
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import OmitArgPrefixes, Positional, arg

from transformer_lite.config import SearchConfig
from transformer_lite.inference.lines import lines_in, lines_out
from transformer_lite.parsing.trees import TREES, TREES_WITH_WORDS
from transformer_lite.runs.console import MOST_MESSAGES, Progress, tell, tell_first
from transformer_lite.runs.files import require_new, require_outputs
from transformer_lite.runs.folder import RunFolder, find_run, require_folder
from transformer_lite.tokenizer import Tokenizer, is_blank

Run = Positional[Annotated[Path, arg(metavar="RUN")]]
Text = Positional[Annotated[Path | None, arg(metavar="[TEXT]")]]

BLOCK_BATCHES = 8
"""Most batches in a block of lines. In large blocks batches need less padding."""


def average(folder: Run, /, *, last: int | None = None) -> None:
    """Average the last checkpoints of a run.

    Args:
        folder: The run's folder.
        last: How many checkpoints; by default the recipe's average_checkpoints, or
            all if there are fewer.
    """
    run = find_run(folder)
    paths = run.step_checkpoints()
    if last is None:
        last = min(run.recipe().train.average_checkpoints, len(paths))
    if not paths:
        if run.average.exists():
            raise ValueError(
                f"{run.path}: is an average already; use it as it is, there are no "
                "other checkpoints"
            )
        raise ValueError(f"{run.checkpoints}: no checkpoint yet; run `train` first")
    if not 1 <= last <= len(paths):
        raise ValueError(
            f"{run.checkpoints}: has {len(paths)} checkpoints; give --last from 1 to "
            f"{len(paths)}"
        )
    from transformer_lite.runs.weights import average as mean
    from transformer_lite.runs.weights import save_weights

    written = "replaced by" if run.average.exists() else "is"
    save_weights(run.average, mean(paths[-last:]))
    names = ", ".join(path.stem for path in paths[-last:])
    print(f"{run.average}: {written} the mean of {names}")


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """The weights, and how to search."""

    weights: Path | None = None
    """A checkpoint; by default the average, else the best, else the newest."""
    beam: int | None = None
    """Beam size; 1 is greedy search. By default the run's."""
    alpha: float | None = None
    """Exponent of the length penalty; by default the run's."""
    batch_sentences: int | None = None
    """Sentences translated at once; by default the run's."""

    def config(self, run: RunFolder) -> SearchConfig:
        """Return the run's search with these changes."""
        changes = {
            "beam_size": self.beam,
            "alpha": self.alpha,
            "batch_sentences": self.batch_sentences,
        }
        changes = {name: value for name, value in changes.items() if value is not None}
        return replace(run.recipe().search, **changes)

    def translator(self, run: RunFolder) -> Any:
        """Load the translator of a run."""
        search = self.config(run)  # before the slow import
        from transformer_lite.inference.translator import Translator

        weights = self.weights or run.default_weights()
        tell(f"weights: {weights}")
        translator = Translator.load(run.path, weights)
        translator.search = search
        return translator


def translate(
    folder: Run,
    file: Text = None,
    /,
    *,
    out: Path | None = None,
    n_best: int | None = None,
    search: OmitArgPrefixes[SearchOptions] = SearchOptions(),
) -> None:
    """Translate a file or standard input, one line in, one line out.

    A run on a treebank parses: it writes the tree of a tokenized sentence in brackets.
    An empty or unusable line gives an empty line. What has arrived is translated as
    soon as no further line waits. With --out, the file appears when it is whole.

    --n-best writes several lines for each line, as Marian and Moses do: its number
    from 0 on, the translation, its log-probability and its score, with " ||| " between.

    Args:
        folder: The run's folder, or a model of the package such as multi30k_en_de.
        file: Text to translate, one sentence a line; by default standard input.
        out: File to write; by default standard output.
        n_best: Write so many translations of each line, at most as many as beams.
        search: The weights, and how to search.

    Raises:
        SystemExit: With status 1, after all lines are written, if one was too long or
            not UTF-8.
    """
    run = find_run(folder)
    beam_size = search.config(run).beam_size
    if n_best is not None and not 1 <= n_best <= beam_size:
        raise ValueError(
            f"--n-best {n_best} is impossible; give 1 to {beam_size}, the beam size "
            "(--beam)"
        )
    if file and (file.is_dir() or not file.exists()):
        problem = "a folder" if file.is_dir() else "no such file"
        raise ValueError(
            f"{file}: {problem}; give a text file, or pipe text in: "
            f'echo "…" | transformer-lite translate {folder}'
        )
    if not file and sys.stdin is None:
        raise ValueError("standard input is closed; name a file with the text")
    require_outputs([out], [file or Path("/dev/stdin"), *_files_of(run, search)])
    language = run.training_data()["languages"][1]
    translator = search.translator(run)
    if is_parser := language in (TREES, TREES_WITH_WORDS):
        from transformer_lite.parsing.parser import Parser

        translator = Parser(translator, with_words=language == TREES_WITH_WORDS)
    unusable, notes = [], []

    def warn(message: str) -> None:
        place = f"{file}, " if file else ""
        tell_first(f"{place}{message}; left empty", unusable)

    source = file.open("rb") if file else sys.stdin.buffer
    with source, lines_out(out) as target:
        if source.isatty():
            tell("type a sentence and Enter; Ctrl-D ends")
        blocks = lines_in(
            source, BLOCK_BATCHES * translator.search.batch_sentences, warn
        )
        if not is_parser:  # which reads a known token there, and keeps the words
            blocks = _with_notes(blocks, translator.tokenizer, notes)
        outputs = translator.stream(blocks, warn, n_best or 1)
        # On a terminal a progress bar would come between the lines of the output.
        quiet = target.isatty()
        outputs = Progress(outputs, unit="line", delay=5, disable=quiet)
        for number, best in enumerate(outputs):
            for text, log_prob, score in best:
                if n_best:
                    text = f"{number} ||| {text} ||| F0= {log_prob:.6f} ||| {score:.6f}"
                # In UTF-8 as the input is, whatever the terminal's language.
                target.write(text.encode("utf-8") + b"\n")
            target.flush()
    for kind, told in {"notes": notes, "unusable lines": unusable}.items():
        if len(told) > MOST_MESSAGES:
            tell(f"and {len(told) - MOST_MESSAGES:,} more {kind}")
    if unusable:
        sys.exit(1)


def evaluate(
    folder: Run,
    /,
    *,
    split: str = "test",
    data: Path | None = None,
    translations: Path | None = None,
    json: Path | None = None,
    tokenize: str | None = None,
    search: OmitArgPrefixes[SearchOptions] = SearchOptions(),
) -> None:
    """Score a run's translations of a split: BLEU, chrF, loss; of trees bracket F1.

    A run on a treebank has labelled precision, recall and F1 as EVALB counts them. Its
    search is unconstrained here, so some outputs are no trees.

    Args:
        folder: The run's folder, or a model of the package such as multi30k_en_de.
        split: Which split of the prepared corpus.
        data: The prepared corpus; by default where it lay at training.
        translations: File to write, one output a line, also where it is not a tree.
        json: File to write the scores to.
        tokenize: How BLEU finds words, by sacrebleu's name; else as the language asks.
        search: The weights, and how to search.
    """
    run = find_run(folder)
    recipe = run.recipe()
    # A run that ends meanwhile has other default weights.
    search = replace(search, weights=search.weights or run.default_weights())
    inputs = [data or recipe.data, *_files_of(run, search)]
    require_outputs([translations, json], inputs)
    if not data and not recipe.data.exists():
        raise ValueError(_how_to_prepare(folder, run))
    require_folder(data or recipe.data)
    from transformer_lite.batching import fixed_batches
    from transformer_lite.data.store import PreparedCorpus
    from transformer_lite.inference.scores import bleu_of
    from transformer_lite.parsing.evaluation import score_outputs
    from transformer_lite.precision import memory_error_on_full_gpu
    from transformer_lite.training.step import validate

    corpus = PreparedCorpus(data or recipe.data)
    corpus.require_vocabulary_of(run)
    if run.training_data().get("fingerprint") != corpus.fingerprint:
        tell(f"note: {corpus.folder} is not the corpus that {folder} was trained on")
    sources, references = corpus.text(split)
    sides, language = corpus.ids(split), corpus.languages[1]
    longest = 1 + max(int(side.lengths.max()) for side in sides)
    if longest > recipe.model.max_len:
        raise ValueError(
            f"{corpus.folder}: {split} has a sentence of {longest} tokens, longer than "
            f"model.max_len = {recipe.model.max_len}; remove it and prepare again"
        )
    if tokenize:
        bleu_of(language, tokenize)  # raises an error, before all the work
    translator = search.translator(run)
    batches = fixed_batches(*sides, max(longest, recipe.train.batch_tokens))
    no_room = (
        "the GPU has no room for the loss of these sentences; evaluate without a GPU "
        "(CUDA_VISIBLE_DEVICES= transformer-lite evaluate …)"
    )
    with memory_error_on_full_gpu(no_room):
        report = validate(translator.model, batches, recipe.train.label_smoothing)
    outputs = translator.translate(sources)
    if translations:
        with lines_out(translations) as target:
            target.writelines(f"{line}\n".encode() for line in outputs)
    scores = asdict(score_outputs(sources, references, outputs, language, tokenize))
    scores |= {"loss": report.loss, "nll": report.nll}
    scores["weights"] = str(search.weights)
    for name, value in scores.items():
        if isinstance(value, dict):
            value = ", ".join(f"{n:,} {kind}" for kind, n in value.items()) or "none"
        shown = f"{value:.2f}" if isinstance(value, float) else value
        print(f"{name:14} {shown}")
    if json:
        with lines_out(json) as target:
            target.write(json_format.dumps(scores, indent=2).encode() + b"\n")


def page(folder: Run, /, *, out: Path, weights: Path | None = None) -> None:
    """Write a web page on which a run's model translates or parses, without a server.

    Args:
        folder: The run's folder, or a model of the package such as tatoeba_en_de.
        out: Folder to make.
        weights: A checkpoint; by default the average, else the best, else the newest.
    """
    require_new(out)  # before the slow import
    from transformer_lite.page.export import write_page

    write_page(folder, out, weights)
    print(f"{out / 'index.html'}: open it in a browser")


def _files_of(run: RunFolder, search: SearchOptions) -> list[Path]:
    files = [run.config, run.tokenizer, run.corpus, run.metrics, run.events, run.lock]
    weights = search.weights or run.checkpoints
    return [*files, run.checkpoints, weights, run.recipe().data]


def _how_to_prepare(name: Path, run: RunFolder) -> str:
    """Say which data a run was trained on, and how to have it."""
    record, out = run.training_data(), run.recipe().data
    corpus, (source, target) = record.get("corpus", "files"), record["languages"]
    command = f"prepare {corpus} --source {source} --target {target}"
    if corpus in ("files", "trees"):  # of the user's own
        command = f"prepare-{corpus} …"
    return (
        f"{out}: no such folder in {Path.cwd()}; {name} was trained on {corpus}: make "
        f"it with `transformer-lite {command} --vocabulary {name} --out {out}`, or "
        "name it with --data"
    )


def _shown(character: str) -> str:
    """Return a character; a mark of other letters on the circle that stands for one."""
    return "◌" * unicodedata.category(character).startswith("M") + character


def _with_notes(
    blocks: Iterable[list[str]], tokenizer: Tokenizer, notes: list[str]
) -> Iterator[list[str]]:
    """Pass lines on; note each character that the vocabulary lacks, once."""
    noted, number = set(), 0
    for block in blocks:
        for line in block:
            number += 1
            unknown = [] if is_blank(line) else tokenizer.unknown(line)
            if new := [character for character in unknown if character not in noted]:
                listed = ", ".join(f"“{_shown(c)}” (U+{ord(c):04X})" for c in new)
                note = f"note: line {number}: the model has never seen {listed}; it "
                tell_first(f"{note}reads “unknown” there", notes)
                noted.update(new)
        yield block
