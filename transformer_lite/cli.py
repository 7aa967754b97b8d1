"""The command line, `transformer-lite VERB …`.

Each verb is a function, and tyro makes its parameters the verb's arguments. The options
of `train` are the fields of the configurations, with the recipe's values as defaults.

PyTorch takes seconds to import. Each verb imports it only when its work begins, so that
help and errors in a command come at once.

Paper: §5–6
Chapter: the_multi_gpu_trainer
Tests: tests/package/test_cli.py
"""

import io
import json as json_format
import os
import re
import signal
import sys
import threading
import traceback
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass, is_dataclass, replace
from difflib import get_close_matches
from functools import partial, wraps
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import tyro
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, arg

from transformer_lite import __version__
from transformer_lite.config import (
    RECIPE_NAMES,
    RECIPES,
    Recipe,
    SearchConfig,
    load_recipe,
    recipe_from_dict,
)
from transformer_lite.data.verbs import prepare, prepare_files
from transformer_lite.inference.lines import lines_in, lines_out
from transformer_lite.parsing.trees import TREES, TREES_WITH_WORDS
from transformer_lite.parsing.verbs import prepare_trees
from transformer_lite.runs.files import naming, require_new, require_outputs
from transformer_lite.runs.folder import MODEL_NAMES, RunFolder, find_run
from transformer_lite.runs.progress import Progress, tell
from transformer_lite.tokenizer import Tokenizer, is_blank

DEBUG = "TRANSFORMER_LITE_DEBUG"
"""Environment variable: if it is set, an error shows its traceback."""

INTERRUPTED = 130
"""Exit status of a program that Ctrl-C ended, as shells report it."""

BLOCK_BATCHES = 8
"""Most batches in a block of lines. In large blocks batches need less padding."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Train a model by a recipe; resume a run from its last checkpoint.

    The defaults shown are the recipe's.
    """

    out: Path
    """The run's folder."""
    recipe: Annotated[Recipe, arg(name="")]  # its fields are options without a prefix


def train(words: Sequence[str]) -> None:
    """Train a model by a recipe; resume a run from its last checkpoint.

    Args:
        words: The recipe's name or file, and the options, whose defaults it gives.

    Raises:
        SystemExit: The options are wrong, or a signal stopped the run.
    """
    if not words or words[0] in ("-h", "--help"):
        _exit_with_usage(
            "train RECIPE [OPTIONS]\n\nRECIPE is a .toml file, or one of\n\n"
            f"{_table({name: _first_line(name) for name in RECIPE_NAMES})}\n\n"
            "transformer-lite train RECIPE --help shows the options.",
            asked_for=bool(words),
        )
    name, *options = words
    if name.startswith("-"):
        raise ValueError(f"the recipe comes before the options, such as {name}")
    recipe = as_options(load_recipe(name))
    defaults = Training(out=Path("runs", Path(name).stem), recipe=recipe)
    chosen = _read(Training, f"train {name}", options, default=defaults)
    recipe = recipe_from_dict(asdict(chosen.recipe) | {"data": str(chosen.recipe.data)})
    from transformer_lite.parsing.evaluation import validation_samples
    from transformer_lite.training.run import train_recipe

    if not train_recipe(recipe, chosen.out, validation_samples):
        tell("stopped; the same command resumes the run")
        # torchrun takes any other status for a failure, and restarts the run.
        under_torchrun = "TORCHELASTIC_RESTART_COUNT" in os.environ
        sys.exit(0 if under_torchrun else INTERRUPTED)
    if os.environ.get("RANK", "0") == "0":  # one process speaks for all
        print(f"{chosen.out}: complete, at step {recipe.train.max_steps:,}")


def as_options(config: Any, shown: Collection[str] | None = None) -> Any:
    """Return a configuration that tyro may change without checks, value by value.

    `recipe_from_dict` checks it as a whole. Its help does without None, which means
    what the help says of the default.

    Args:
        shown: Fields that are options; by default all but the vocabulary's size, which
            the data has.
    """
    hints = get_type_hints(type(config))
    kept = hints.keys() - {"vocab_size"} if shown is None else shown
    for name, hint in hints.items():
        if name not in kept and not is_dataclass(hint):
            hints[name] = tyro.conf.SuppressFixed[tyro.conf.Fixed[hint]]
        elif type(None) in get_args(hint):
            described = arg(
                metavar=get_args(hint)[0].__name__.upper(),
                help_behavior_hint=lambda default: (
                    "" if default == "None" else f"(default: {default})"
                ),
            )
            hints[name] = Annotated[hint, described]
    body = {"__annotations__": hints, "__post_init__": lambda self: None}
    values = {
        name: as_options(value, shown) if is_dataclass(value) else value
        for name, value in vars(config).items()
    }
    return type(type(config).__name__, (type(config),), body)(**values)


def average(folder: Positional[Path], /, *, last: int | None = None) -> None:
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
        given = {"alpha": self.alpha, "batch_sentences": self.batch_sentences}
        given = {"beam_size": self.beam, **given}
        given = {name: value for name, value in given.items() if value is not None}
        return replace(run.recipe().search, **given)

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
    folder: Positional[Path],
    file: Positional[Path | None] = None,
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
    unusable = []

    def warn(message: str) -> None:
        place = f"{file}, " if file else ""
        tell(f"{place}{message}; left empty")
        unusable.append(message)

    source = file.open("rb") if file else sys.stdin.buffer
    with source, lines_out(out) as target:
        if source.isatty():
            tell("type a sentence and Enter; Ctrl-D ends")
        blocks = lines_in(
            source, BLOCK_BATCHES * translator.search.batch_sentences, warn
        )
        if not is_parser:  # which reads a known token there, and keeps the words
            blocks = _with_notes(blocks, translator.tokenizer)
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
    if unusable:
        sys.exit(1)


def evaluate(
    folder: Positional[Path],
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
    from transformer_lite.batching import fixed_batches
    from transformer_lite.data.store import PreparedCorpus
    from transformer_lite.inference.scores import bleu_of
    from transformer_lite.parsing.evaluation import score_outputs
    from transformer_lite.precision import memory_error_on_full_gpu
    from transformer_lite.training.step import validate

    if not data and not recipe.data.exists():
        raise ValueError(_how_to_prepare(folder, run))
    corpus = PreparedCorpus(data or recipe.data)
    _require_vocabulary(folder, corpus)
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


def page(
    folder: Positional[Path], /, *, out: Path, weights: Path | None = None
) -> None:
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


def find_verbs() -> dict[str, Callable[..., None]]:
    """Return all verbs by name: the package's, and those that other packages bring."""
    verbs = [prepare, prepare_files, prepare_trees, train, average, translate, evaluate]
    brought = [entry.load() for entry in entry_points(group="transformer_lite.verbs")]
    return {v.__name__.replace("_", "-"): v for v in (*verbs, page, *brought)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb; a user's mistake gives one line on stderr and exit status 2."""
    if sys.stderr is None:  # it is closed, and notes would go to standard output
        sys.stderr = open(os.devnull, "w")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # it is None if it is closed
            stream.reconfigure(errors="backslashreplace")
    name, *words = (sys.argv[1:] if arguments is None else arguments) or [""]
    verbs = find_verbs()
    program = f"transformer-lite {name}" if name in verbs else "transformer-lite"
    try:
        with _all_printed():
            if name in ("", "-h", "--help"):
                _exit_with_usage(_overview(verbs), asked_for=bool(name))
            elif name == "--version":
                print(f"transformer-lite {__version__}")
            elif name not in verbs:
                close = get_close_matches(name, verbs, n=1)
                all_verbs = ", ".join(verbs)
                hint = f"did you mean {close[0]}?" if close else f"take {all_verbs}"
                raise ValueError(f'no verb "{name}"; {hint}')
            elif name == "train":
                train(words)  # which ends by signals in its own way
            else:
                with _signals_as_interrupts():

                    @wraps(verbs[name])  # tyro reads all options before the work begins
                    def work(*given: Any, **options: Any) -> Callable[[], None]:
                        return partial(verbs[name], *given, **options)

                    _read(work, name, words, config=(FlagCreatePairsOff,))()
    except KeyboardInterrupt:
        tell(f"{program}: interrupted")
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # the reader of the output has closed it
        sys.exit(INTERRUPTED)
    except Exception as error:
        if os.environ.get(DEBUG) or not _is_for_users(error):
            raise
        tell(f"{program}: error: {_message_of(error)}")
        sys.exit(2)


def _read(what: Any, command: str, words: Sequence[str], **options: Any) -> Any:
    """Return what tyro reads from a command's words.

    Raises:
        ValueError: In place of tyro's boxed error, an option is unknown, missing or
            wrong.
        SystemExit: The help was asked for.
    """
    program = f"transformer-lite {command}"
    read = partial(tyro.cli, what, prog=program, **options)

    def said(words: Sequence[str]) -> str:
        streams = redirect_stdout(text := io.StringIO()), redirect_stderr(text)
        with streams[0], streams[1], suppress(SystemExit):
            read(args=words)
        return text.getvalue()

    try:
        with redirect_stderr(io.StringIO()):
            return read(args=words)
    except SystemExit as ended:
        if not ended.code:
            raise
    known = re.findall(r"(?<!\S)--[a-z][\w.-]*", said(["--help"]))
    for word in words:
        name = word.partition("=")[0].replace("_", "-")
        if name.startswith("--") and name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"see {program} --help"
            raise ValueError(f"unknown option {word}; {hint}")
    # Below the title and a rule: the error, and after another rule or a gap the rest.
    *_, error = re.split(r"-{5,} *\n|\n *\n", said(words))[:2]
    if missing := re.findall(r"^ {6}(\S.*?) *\n((?: {10}.*(?:\n|$))+)", error, re.M):
        names = (
            n if n[0] == "-" else f"{n} ({' '.join(t.split())})" for n, t in missing
        )
        error = f"missing {', '.join(names)}".replace(". (required))", ")")
    raise ValueError(f"{' '.join(error.split()).rstrip('.')}; see {program} --help")


def _table(rows: dict[str, str]) -> str:
    width = max(map(len, rows))
    return "\n".join(f"  {name:{width}}  {text}" for name, text in rows.items())


def _first_line(recipe: str) -> str:
    """Return what a recipe says of itself first."""
    return (RECIPES / f"{recipe}.toml").read_text("utf-8").split("\n")[0][2:]


def _overview(verbs: dict[str, Callable[..., None]]) -> str:
    table = _table({name: v.__doc__.splitlines()[0] for name, v in verbs.items()})
    recipes, models = ", ".join(RECIPE_NAMES), ", ".join(MODEL_NAMES)
    names = f"recipes: {recipes}\ntrained models: {models}"
    return f"VERB …   (VERB --help)\n\n{table}\n\n{names}"


@contextmanager
def _all_printed() -> Iterator[None]:
    """Write out what the block has printed; say where that fails, as on a full disk."""
    try:
        yield
    finally:
        try:
            with naming("standard output"):
                print(end="", flush=True)
        except OSError:  # Python would try again at its end, and complain
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise


@contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that it cleans up."""
    is_main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGHUP) if is_main else ()  # others may set none
    # Not those that are ignored, as by nohup.
    numbers = [n for n in numbers if signal.getsignal(n) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def _is_for_users(error: Exception) -> bool:
    """Return whether an error is for users: our own, or one of memory and files.

    A ValueError that a library raises is a fault of ours, and shows its traceback.
    """
    if isinstance(error, OSError | MemoryError | FloatingPointError):
        return True
    if isinstance(error, RuntimeError):
        return "can't allocate memory" in str(error)  # PyTorch's, on a CPU
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    module = frame.f_globals["__name__"]
    return isinstance(error, ValueError) and module.startswith("transformer_lite")


def _message_of(error: Exception) -> str:
    """Return what to tell; what the system says of a file is no sentence of ours."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}; check its path and permissions"
    return str(error) or "out of memory"


def _exit_with_usage(usage: str, asked_for: bool) -> None:
    text = f"usage: transformer-lite {usage}"
    print(text, file=sys.stdout if asked_for else sys.stderr)
    sys.exit(0 if asked_for else 2)


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


def _require_vocabulary(name: Path, corpus: Any) -> None:
    """Check that a corpus has a run's vocabulary; note if it is another corpus."""
    run, vocabulary = find_run(name), (corpus.folder / "tokenizer.model").read_bytes()
    if run.tokenizer.read_bytes() != vocabulary:
        raise ValueError(
            f"{corpus.folder}: has another vocabulary than {name}; prepare the text "
            f"with --vocabulary {name}"
        )
    if run.training_data().get("fingerprint") != corpus.fingerprint:
        tell(f"note: {corpus.folder} is not the corpus that {name} was trained on")


def _shown(character: str) -> str:
    """Return a character; a mark of other letters on the circle that stands for one."""
    return "◌" * unicodedata.category(character).startswith("M") + character


def _with_notes(
    blocks: Iterable[list[str]], tokenizer: Tokenizer
) -> Iterator[list[str]]:
    """Pass lines on; note each character that the vocabulary lacks, once."""
    noted, number = set(), 0
    for block in blocks:
        for line in block:
            number += 1
            unknown = [] if is_blank(line) else tokenizer.unknown(line)
            if new := [character for character in unknown if character not in noted]:
                listed = ", ".join(f"“{_shown(c)}” (U+{ord(c):04X})" for c in new)
                tell(
                    f"note: line {number}: the model has never seen {listed}; it reads "
                    "“unknown” there"
                )
                noted.update(new)
        yield block
