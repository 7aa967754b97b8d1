"""The command line, `transformer-lite VERB …`.

Each verb is a function, and tyro makes its parameters the verb's arguments. The options
of `train` are the fields of the configurations, with the recipe's values as defaults.
So each name, default and help text is written once.

PyTorch takes seconds to import. Each verb imports it only when its work begins, so that
help and errors in a command come at once.

Paper: §5–6
Chapter: the_multi_gpu_trainer
Tests: tests/package/test_cli.py
"""

import codecs
import json as json_format
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from functools import partial
from importlib.metadata import entry_points
from inspect import getdoc
from pathlib import Path
from typing import (
    Annotated,
    Any,
    BinaryIO,
    Literal,
    get_args,
    get_type_hints,
)

import tyro
from tqdm import tqdm
from tyro.conf import FlagCreatePairsOff, OmitArgPrefixes, Positional, arg

from transformer_lite import __version__
from transformer_lite.config import RECIPES, Recipe, load_recipe, recipe_from_dict
from transformer_lite.parsing.trees import TREES, TREES_WITH_WORDS, TreeForm
from transformer_lite.runs.files import require_new, require_writable, write_whole
from transformer_lite.runs.folder import RunFolder, find_run

INTERRUPTED = 130
"""Exit status of a program that Ctrl-C ended, as shells report it."""

VOCAB_SIZES = {"toy": 500, "multi30k": 4000, "wmt14": 37_000}
"""Default sizes of the vocabulary; 8000 for every other corpus."""


def prepare(
    corpus: Positional[
        Literal["toy", "multi30k", "tatoeba", "wmt14", "files", "trees"]
    ],
    /,
    *,
    out: Path,
    source: str | None = None,
    target: str | None = None,
    train: tuple[Path, ...] = (),
    valid: tuple[Path, ...] = (),
    test: tuple[Path, ...] = (),
    leaves: Literal["tags", "XX", "words"] = "tags",
    plain_closing: FlagCreatePairsOff[bool] = False,
    vocab_size: int | None = None,
    vocabulary: str | None = None,
    max_length: int | None = None,
    skip_unusable: FlagCreatePairsOff[bool] = False,
) -> None:
    """Get a corpus, learn its vocabulary, write its sentences as ids.

    Args:
        corpus: A corpus by name, or "files" or "trees" for your own.
        out: Folder to make.
        source: Code of the source language, by default en. Multi30k and wmt14 have en,
            de and fr; tatoeba has many more, such as ko and zh. For "files" and "trees"
            name it yourself.
        target: Code of the target language, likewise; by default de.
        train: Your training files: source and target, one sentence a line; or one file
            with a tab between source and target. For "trees" any number of files in
            brackets.
        valid: Your validation files.
        test: Your test files, if you have any.
        leaves: What stands for each word of a tree: its part-of-speech tag, XX, or the
            word itself.
        plain_closing: Leave the labels of a tree's closing brackets out.
        vocab_size: Size of the shared vocabulary; by default 500 for toy, 4000 for
            multi30k, 37000 for wmt14, otherwise 8000.
        vocabulary: A run, or a trained model by name, whose vocabulary is taken, so
            that the model can be scored or trained on this text.
        max_length: Most tokens of a sentence; by default 256, for trees 2000.
        skip_unusable: Leave out training pairs that are empty, damaged or too long,
            and say how many, instead of stopping at them.
    """
    require_new(out)
    given = {"train": train, "valid": valid, "test": test}
    given = {split: paths for split, paths in given.items() if paths}
    form = TreeForm(leaves, not plain_closing)
    if corpus not in ("files", "trees") and given:
        raise ValueError(f"{corpus} has its own text; for yours write files or trees")
    if corpus in ("files", "trees") and not (train and valid):
        raise ValueError(f"{corpus} needs --train and --valid, your own files")
    if corpus != "trees" and form != TreeForm():
        raise ValueError(f"--leaves and --plain-closing are for trees, not {corpus}")
    if corpus == "trees" and target:
        raise ValueError("--target does not apply to trees; remove it")
    if corpus == "files" and not (source and target):
        raise ValueError(
            "files needs --source and --target, the codes of the languages, such as en "
            "and ko: how BLEU finds words depends on them"
        )
    if vocabulary and vocab_size:
        raise ValueError("--vocabulary has a size already; remove --vocab-size")
    from transformer_lite.data import corpora
    from transformer_lite.data.prepare import prepare as write_corpus
    from transformer_lite.data.store import PreparedCorpus
    from transformer_lite.parsing.treebank import corpus_of_trees

    tokenizer = _tokenizer_of(vocabulary) if vocabulary else None
    if corpus == "trees":
        text = corpus_of_trees(given, source or "", form)
    elif corpus == "files":
        text = corpora.corpus_of_files(given, (source, target))
    else:
        text = corpora.load_corpus(corpus, source or "en", target or "de")
    if vocab_size is None:
        vocab_size = VOCAB_SIZES.get(corpus, 8000)
    if max_length is None:
        max_length = 2000 if corpus == "trees" else 256
    write_corpus(text, out, vocab_size, max_length, skip_unusable, tokenizer)
    prepared = PreparedCorpus(out)
    vocab_size = prepared.tokenizer.vocab_size
    pairs = ", ".join(f"{size:,} {split}" for split, size in prepared.sizes.items())
    print(f"{out}: {pairs} pairs, {vocab_size:,} tokens in the vocabulary")
    if prepared.left_out:
        print(f"training pairs left out: {_listed(prepared.left_out)}")


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
        names = ", ".join(sorted(path.stem for path in RECIPES.glob("*.toml")))
        _exit_with_usage(
            "train RECIPE [OPTIONS]\n\n"
            f"RECIPE is a .toml file or one of {names}.\n"
            "transformer-lite train RECIPE --help shows the options.",
            asked_for=bool(words),
        )
    name, *options = words
    if name.startswith("-"):
        raise ValueError(f"the recipe comes before the options, such as {name}")
    loaded = load_recipe(name)
    parts = ("model", "train", "search")
    recipe = replace(
        loaded, **{part: _as_options(getattr(loaded, part)) for part in parts}
    )
    defaults = Training(out=Path("runs", Path(name).stem), recipe=_as_options(recipe))
    program = f"transformer-lite train {name}"
    chosen = tyro.cli(Training, prog=program, args=options, default=defaults)
    recipe = recipe_from_dict(asdict(chosen.recipe) | {"data": str(chosen.recipe.data)})
    from transformer_lite.parsing.evaluation import validation_samples
    from transformer_lite.training.run import train_recipe

    if not train_recipe(recipe, chosen.out, validation_samples):
        print("stopped; the same command resumes the run", file=sys.stderr)
        # torchrun takes any other status for a failure, and restarts the run.
        under_torchrun = "TORCHELASTIC_RESTART_COUNT" in os.environ
        sys.exit(0 if under_torchrun else INTERRUPTED)
    if os.environ.get("RANK", "0") == "0":  # one process speaks for all
        print(f"{chosen.out}: complete, at step {recipe.train.max_steps:,}")


def _as_options(config: Any) -> Any:
    """Return a configuration that tyro may change without checks, value by value.

    `recipe_from_dict` checks it as a whole. Its help does without None, which means
    what the help says of the default, and without the vocabulary's size, which the data
    has.
    """
    hints = get_type_hints(type(config))
    for name, hint in hints.items():
        if type(None) in get_args(hint):
            shown = arg(
                metavar=get_args(hint)[0].__name__.upper(),
                help_behavior_hint=lambda default: (
                    "" if default == "None" else f"(default: {default})"
                ),
            )
            hints[name] = Annotated[hint, shown]
    if "vocab_size" in hints:
        hints["vocab_size"] = tyro.conf.Suppress[int]
    body = {"__annotations__": hints, "__post_init__": lambda self: None}
    values = {entry.name: getattr(config, entry.name) for entry in fields(config)}
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

    def translator(self, run: RunFolder) -> Any:
        """Load the translator of a run."""
        given = {
            "beam_size": self.beam,
            "alpha": self.alpha,
            "batch_sentences": self.batch_sentences,
        }
        given = {name: value for name, value in given.items() if value is not None}
        search = replace(run.recipe().search, **given)  # before the slow import
        from transformer_lite.inference.translator import Translator

        weights = self.weights or run.default_weights()
        print(f"weights: {weights}", file=sys.stderr)
        translator = Translator.load(run.path, weights)
        translator.search = search
        return translator


def translate(
    folder: Positional[Path],
    file: Positional[Path | None] = None,
    /,
    *,
    out: Path | None = None,
    search: OmitArgPrefixes[SearchOptions] = SearchOptions(),
) -> None:
    """Translate a file or standard input, one line in, one line out.

    A run on a treebank parses: it writes the tree of a tokenized sentence in brackets.
    An empty or unusable line gives an empty line.

    Args:
        folder: The run's folder, or a model of the package such as multi30k_en_de.
        file: Text to translate, one sentence a line; by default standard input.
        out: File to write, instead of one of that name, once all lines are done; by
            default standard output.
        search: The weights, and how to search.

    Raises:
        SystemExit: With status 1, after all lines are written, if one was too long or
            not UTF-8.
    """
    run = find_run(folder)
    language = run.training_data()["languages"][1]
    if file and out and file.resolve() == out.resolve():
        raise ValueError(f"{out}: is the text to translate; give another --out")
    if file and (file.is_dir() or not file.exists()):
        problem = "a folder" if file.is_dir() else "no such file"
        raise ValueError(
            f"{file}: {problem}; give a text file, or pipe text in: "
            f'echo "…" | transformer-lite translate {folder}'
        )
    translator = search.translator(run)
    unusable = []

    def warn(message: str) -> None:
        place = f"{file}, " if file else ""
        print(f"{place}{message}; left empty", file=sys.stderr)
        unusable.append(message)

    stream = translator.stream
    if language in (TREES, TREES_WITH_WORDS):
        from transformer_lite.parsing.parser import parse

        with_words = language == TREES_WITH_WORDS
        stream = partial(parse, translator, with_words=with_words)
    source = file.open("rb") if file else sys.stdin.buffer
    with source, _kept_until_whole(out) as target:
        typed = source.isatty()
        if typed:
            print("type a sentence and Enter; Ctrl-D ends", file=sys.stderr)
        # On a terminal a progress bar would come between the lines of the output.
        quiet = target.isatty() or not sys.stderr.isatty()
        lines = tqdm(_decoded(source, warn), unit="line", delay=5, disable=quiet)
        for line in stream(lines, warn, at_once=1 if typed else None):
            # In UTF-8 as the input is, whatever the terminal's language.
            target.write(line.encode("utf-8") + b"\n")
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
        translations: File to write the translations to, one a line; of trees the
            model's own tokens, also where they are not a tree.
        json: File to write the scores to.
        tokenize: How BLEU finds words, by sacrebleu's name; by default as the language
            asks.
        search: The weights, and how to search.
    """
    run = find_run(folder)
    recipe = run.recipe()
    # A run that ends meanwhile has other default weights.
    search = replace(search, weights=search.weights or run.default_weights())
    from transformer_lite.batching import fixed_batches
    from transformer_lite.data.store import PreparedCorpus
    from transformer_lite.inference.scores import bleu_of
    from transformer_lite.parsing.evaluation import score_outputs
    from transformer_lite.precision import memory_error_on_full_gpu
    from transformer_lite.training.step import validate

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
    for path in (translations, json):
        if path:
            require_writable(path)
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
        text = "".join(f"{line}\n" for line in outputs).encode("utf-8")
        write_whole(translations, lambda partial: partial.write_bytes(text))
    scores = asdict(score_outputs(sources, references, outputs, language, tokenize))
    scores |= {"loss": report.loss, "nll": report.nll}
    scores["weights"] = str(search.weights)
    for name, value in scores.items():
        if isinstance(value, dict):
            value = _listed(value) or "none"
        elif isinstance(value, float):
            value = f"{value:.2f}"
        print(f"{name:14} {value}")
    if json:
        table = json_format.dumps(scores, indent=2) + "\n"
        write_whole(json, lambda partial: partial.write_text(table))


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


VERBS = (prepare, train, average, translate, evaluate, page)
"""The package's own verbs."""


def find_verbs() -> dict[str, Callable[..., None]]:
    """Return all verbs by name: the package's, and those that other packages bring."""
    brought = [entry.load() for entry in entry_points(group="transformer_lite.verbs")]
    return {verb.__name__.replace("_", "-"): verb for verb in (*VERBS, *brought)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb; a user's mistake gives one line on stderr and exit status 2."""
    name, *words = (sys.argv[1:] if arguments is None else arguments) or [""]
    verbs = find_verbs()
    if name in ("", "-h", "--help"):
        lines = [
            f"  {verb:11} {f.__doc__.splitlines()[0]}" for verb, f in verbs.items()
        ]
        text = "\n".join(["VERB …   (VERB --help)", "", *lines])
        _exit_with_usage(text, asked_for=bool(name))
    if name == "--version":
        print(f"transformer-lite {__version__}")
        return
    program = f"transformer-lite {name}"
    try:
        if name not in verbs:
            close = get_close_matches(name, verbs, n=1)
            hint = f"did you mean {close[0]}?" if close else f"take {', '.join(verbs)}"
            raise ValueError(f'no verb "{name}"; {hint}')
        if name == "train":
            train(words)
        else:
            verb = verbs[name]
            # Tyro keeps the line ends within the description of an argument.
            verb.__doc__ = re.sub(r"\n {8,}", " ", getdoc(verb))
            tyro.cli(verb, prog=program, args=words)
    except KeyboardInterrupt:
        print(f"{program}: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of the output has closed it. Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(INTERRUPTED)
    except (ValueError, OSError, FloatingPointError, MemoryError) as error:
        print(f"{program}: error: {error or 'out of memory'}", file=sys.stderr)
        sys.exit(2)


def _exit_with_usage(usage: str, asked_for: bool) -> None:
    """Show how a command is used, as help if it was asked for, else as an error."""
    text = f"usage: transformer-lite {usage}"
    print(text, file=sys.stdout if asked_for else sys.stderr)
    sys.exit(0 if asked_for else 2)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in counts.items())


def _tokenizer_of(name: str) -> Any:
    """Load the tokenizer of a run, or of a trained model of the package."""
    run = find_run(name)
    run.recipe()  # raises an error where there is no run
    from transformer_lite.tokenizer import Tokenizer

    return Tokenizer.load(run.tokenizer)


def _require_vocabulary(name: Path, corpus: Any) -> None:
    """Check that a corpus has a run's vocabulary; note if it is another corpus."""
    run, vocabulary = find_run(name), (corpus.folder / "tokenizer.model").read_bytes()
    if run.tokenizer.read_bytes() != vocabulary:
        raise ValueError(
            f"{corpus.folder}: has another vocabulary than {name}; prepare the text "
            f"with --vocabulary {name}"
        )
    if run.training_data().get("fingerprint") != corpus.fingerprint:
        print(
            f"note: {corpus.folder} is not the corpus that {name} was trained on",
            file=sys.stderr,
        )


@contextmanager
def _kept_until_whole(path: Path | None) -> Iterator[BinaryIO]:
    """Yield a file beside `path`, renamed at the end, or standard output.

    After an error the file stays beside it, with the lines that were done.
    """
    if path is None:
        yield sys.stdout.buffer
        return
    require_writable(path)
    unfinished = path.with_name(path.name + ".unfinished")
    if unfinished.exists():
        raise ValueError(
            f"{unfinished}: holds the lines of a translation that was interrupted; "
            "rename or delete it"
        )
    try:
        with unfinished.open("wb") as file:
            yield file
    except BaseException:
        if unfinished.stat().st_size:
            print(f"{unfinished}: keeps the lines translated so far", file=sys.stderr)
        else:
            unfinished.unlink()
        raise
    unfinished.replace(path)


def _decoded(lines: Iterable[bytes], warn: Callable[[str], None]) -> Iterator[str]:
    """Yield each line as text, as soon as it is read; only a line feed ends a line.

    Args:
        lines: Lines with their ends.
        warn: Called with a message for each line that is not UTF-8, which becomes
            empty.
    """
    for number, line in enumerate(lines, start=1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)  # as `corpora.lines_of` does
        text = ""
        try:
            text = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            warn(f"line {number}: not UTF-8 (byte {error.start + 1}), convert the text")
        if "\0" in text:  # every other byte of UTF-16 is 0, and each half would pass
            warn(f"line {number}: contains a zero byte, convert UTF-16 to UTF-8")
            text = ""
        yield text
