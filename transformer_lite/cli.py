"""The command line, `transformer-lite VERB …`: its verbs, and errors in one line.

Each verb is a dataclass: its fields are the verb's arguments. The settings of `train`
are the configurations' own fields, so every name, default and help text stands once.

What imports PyTorch, which takes seconds, is imported where a verb does its work: help,
and what is wrong with a command, come at once.

Paper: §5–6
Chapter: the_multi_gpu_trainer
Tests: tests/test_cli.py
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

import tyro
from tqdm import tqdm
from tyro import _errors as refusal
from tyro.conf import (
    DisallowNone,
    FlagCreatePairsOff,
    Positional,
    PositionalMetavarFromFieldName,
)

from transformer_lite import __version__
from transformer_lite.config import (
    ModelConfig,
    Recipe,
    SearchConfig,
    TrainConfig,
    load_recipe,
    recipe_from_dict,
)
from transformer_lite.tokenizer import VOCAB_SENTENCES
from transformer_lite.training.folder import RunFolder

INTERRUPTED = 130
"""Exit status of a run that a signal ended, as shells give it."""
PATIENCE = 5
"""Seconds until progress is shown."""


class Verb:
    """What can be done; the fields are its arguments."""

    less_memory: ClassVar[str] = "close other programs"
    """What to do where memory does not suffice."""

    @classmethod
    def parse(cls, words: Sequence[str]) -> "Verb":
        """Read the arguments.

        Raises:
            ValueError: An argument is missing, unknown or impossible.
            SystemExit: Help was asked for, and shown.
        """
        return _parse(cls, words)

    def run(self) -> None:
        """Do it."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Prepare(Verb):
    """Get a corpus, learn its vocabulary, write its sentences as ids."""

    corpus: Positional[str]
    """"toy", "multi30k", "wmt14", or "files" for files of your own."""
    out: Path
    """Folder to make."""
    source: str | None = None
    """Source language. Multi30k and wmt14 have en, which is the default, de and fr; of
    your own files, the names of --train say it if they end in it, as train.ko does."""
    target: str | None = None
    """Target language, likewise; the default is de."""
    train: tuple[Path, ...] | None = None
    """Your training files: source and target, one sentence a line; or one file with a
    tab between source and target."""
    valid: tuple[Path, ...] | None = None
    """Your validation files."""
    test: tuple[Path, ...] | None = None
    """Your test files, if you have any."""
    vocab_size: int | None = None
    """Size of the shared vocabulary; by default 500 for toy, 37000 for wmt14, otherwise
    8000."""
    vocab_sentences: int = VOCAB_SENTENCES
    """Most sentences that the vocabulary is learned from, drawn at random."""
    max_length: int = 256
    """Most tokens of a sentence."""
    skip_unusable: FlagCreatePairsOff[bool] = False
    """Leave out training pairs that are empty, damaged or too long, and say how many,
    instead of stopping at them."""

    def run(self) -> None:
        """Write the folder, or say that it is there."""
        from transformer_lite.data.prepare import prepare
        from transformer_lite.data.store import PreparedCorpus

        vocab_size = self.vocab_size
        if vocab_size is None:
            vocab_size = {"toy": 500, "wmt14": 37_000}.get(self.corpus, 8000)
        new = prepare(
            self._text(),
            self.out,
            vocab_size,
            self.max_length,
            self.skip_unusable,
            self.vocab_sentences,
        )
        corpus = PreparedCorpus(self.out)
        pairs = ", ".join(f"{size:,} {split}" for split, size in corpus.sizes.items())
        done = "" if new else "already prepared: "
        print(
            f"{self.out}: {done}{pairs} pairs, {vocab_size:,} tokens in the vocabulary"
        )
        if corpus.left_out:
            reasons = [f"{n:,} {kind}" for kind, n in corpus.left_out.items()]
            print(f"training pairs left out: {', '.join(reasons)}")

    def _text(self) -> Any:
        from transformer_lite.data.corpora import corpus_of_files, load_corpus

        given = {"train": self.train, "valid": self.valid, "test": self.test}
        given = {split: paths for split, paths in given.items() if paths}
        form = "prepare files --train SOURCE TARGET --valid SOURCE TARGET"
        if self.corpus != "files":
            if given and self.corpus in ("toy", "multi30k", "wmt14"):
                raise ValueError(
                    f'"{self.corpus}" has its own text; for yours, write {form}'
                )
            return load_corpus(self.corpus, self.source or "en", self.target or "de")
        for split, paths in given.items():
            if len(paths) > 2:
                raise ValueError(
                    f"--{split} has {len(paths)} files; give source and target, or one "
                    "file with a tab between them"
                )
        if not {"train", "valid"} <= given.keys():
            raise ValueError(f"files of your own: write {form}")
        return corpus_of_files(**given, languages=(self.source, self.target))


def _unchecked(config: type) -> type:
    """The fields of a configuration without its checks, to be completed by a recipe."""
    # With the module's name too, so that documentation finds the configuration.
    kept = {"__doc__": config.__doc__, "__module__": config.__module__}
    changes = kept | {"__post_init__": lambda self: None}
    return type(config.__name__, (config,), changes)


_Model, _Train, _Search = map(_unchecked, (ModelConfig, TrainConfig, SearchConfig))


@dataclass(frozen=True, kw_only=True)
class Train(Verb):
    """Train a model by a recipe; resumes from the last checkpoint in --out.

    The defaults shown are the paper's; `train RECIPE --help` shows the recipe's.
    """

    less_memory: ClassVar[str] = (
        "give a smaller --train.batch-tokens and the same --train.global-batch-tokens: "
        "the steps stay as they are"
    )
    recipe: Positional[str]
    """A recipe of the package, such as toy, or a TOML file."""
    out: Path | None = None
    """The run's folder; by default runs/RECIPE."""
    data: Path | None = None
    """Folder that `prepare` wrote; by default the recipe's."""
    model: _Model = field(default_factory=_Model)
    """The model; its vocab_size is taken from the data."""
    train: _Train = field(default_factory=_Train)
    """The training."""
    search: _Search = field(default_factory=_Search)
    """The search for translations."""

    @classmethod
    def parse(cls, words: Sequence[str]) -> "Train":
        """Read the arguments; what the recipe says is the default of every option.

        Raises:
            ValueError: There is no such recipe, or an option is unknown or impossible.
            SystemExit: Help was asked for, and shown.
        """
        # The recipe may stand anywhere: a first reading finds it.
        no_help = [word for word in words if word not in ("-h", "--help")]
        recipe = _parse(cls, no_help, cls(recipe="")).recipe
        verb = _parse(cls, words, cls.by_recipe(recipe) if recipe else None)
        verb.settings()  # refuses impossible ones
        return verb

    @classmethod
    def by_recipe(cls, name: str) -> "Train":
        """The verb as a recipe has it, without further options."""
        recipe = load_recipe(name)
        return cls(
            recipe=name,
            data=recipe.data,
            model=_Model(**asdict(recipe.model)),
            train=_Train(**asdict(recipe.train)),
            search=_Search(**asdict(recipe.search)),
        )

    def settings(self) -> Recipe:
        """The recipe with what the options change.

        Raises:
            ValueError: A setting is impossible.
        """
        parts = {name: asdict(getattr(self, name)) for name in _settings(Train)}
        return recipe_from_dict({"data": str(self.data), **parts})

    def run(self) -> None:
        """Train to the recipe's last step, or to a signal."""
        from transformer_lite.inference.scores import ValidationSamples
        from transformer_lite.training.hardware import keep_freed_memory
        from transformer_lite.training.run import train_recipe

        keep_freed_memory()
        out = self.out or Path("runs", Path(self.recipe).stem)
        recipe = self.settings()
        if not train_recipe(recipe, out, ValidationSamples):
            print("stopped; the same command resumes the run", file=sys.stderr)
            sys.exit(INTERRUPTED)
        if os.environ.get("RANK", "0") == "0":  # one process speaks for all
            print(f"{out}: all {recipe.train.max_steps:,} steps are done")


@dataclass(frozen=True, kw_only=True)
class Average(Verb):
    """Average the last checkpoints of a run."""

    folder: Positional[Path]
    """The run's folder."""
    last: int = 5
    """How many checkpoints."""

    def run(self) -> None:
        """Write average.safetensors beside the checkpoints."""
        from transformer_lite.training import checkpoint

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
class Search(Verb):
    """A run's model, and how it searches for translations."""

    less_memory: ClassVar[str] = "give a smaller --batch-sentences"
    folder: Positional[Path]
    """The run's folder."""
    weights: Path | None = None
    """A checkpoint; by default the average, else the best, else the newest."""
    beam: int | None = None
    """Beam size; 1 is greedy search."""
    alpha: float | None = None
    """Exponent of the length penalty."""
    batch_sentences: int | None = None
    """Sentences translated at once."""
    workers: int = 1
    """Processes that translate; on CPUs one for each core pays for many sentences."""

    @contextmanager
    def translator(self) -> Iterator[tuple[Any, Path]]:
        """A `Translator` with its workers, and where its weights come from."""
        from transformer_lite.inference.parallel import parallel_translator
        from transformer_lite.inference.translator import Translator
        from transformer_lite.training.hardware import keep_freed_memory

        if self.workers < 1:
            raise ValueError(f"--workers {self.workers} is impossible; give at least 1")
        keep_freed_memory()
        run = RunFolder(self.folder)
        if run.corpus.exists() and not run.config.exists():
            raise ValueError(
                f"{self.folder}: a prepared corpus; give the folder that `train` wrote"
            )
        weights = self.weights or run.default_weights()
        translator = Translator.load(self.folder, weights)
        given = {"beam_size": self.beam, "alpha": self.alpha}
        given["batch_sentences"] = self.batch_sentences
        given = {name: value for name, value in given.items() if value is not None}
        translator.search = replace(translator.search, **given)
        if self.workers == 1:
            yield translator, weights
            return
        with parallel_translator(translator, self.workers) as several:
            yield several, weights


@dataclass(frozen=True, kw_only=True)
class Translate(Search):
    """Translate a file or standard input, one line in, one line out."""

    file: Positional[Path | None] = None
    """Text to translate, one sentence a line; by default standard input."""
    out: Path | None = None
    """File to write; by default standard output."""

    def run(self) -> None:
        """Translate every line; an empty line, and one that is too long, stays empty.

        Raises:
            SystemExit: With status 1, all being written, if a line was too long.
        """
        too_long = []

        def warn(message: str) -> None:
            print(f"{_program(Translate)}: {message}; left empty", file=sys.stderr)
            too_long.append(message)

        with (
            _opened(self.file, "rb", sys.stdin.buffer) as source,
            self.translator() as (translator, weights),
            _opened(self.out, "wb", sys.stdout.buffer) as target,
        ):
            print(f"weights: {weights}", file=sys.stderr)
            typed = source.isatty()
            if typed:
                print("type a sentence and Enter; Ctrl-D ends", file=sys.stderr)
            lines = _decoded(source, str(self.file or "standard input"))
            # A bar would tear the lines apart that are shown on the same terminal.
            quiet = target.isatty() or not sys.stderr.isatty()
            lines = iter(tqdm(lines, unit="line", delay=PATIENCE, disable=quiet))
            for translation in translator.stream(lines, warn, 1 if typed else None):
                # In UTF-8 as the input is, whatever the terminal's language.
                target.write(translation.encode("utf-8") + b"\n")
                target.flush()
        if too_long:
            sys.exit(1)


@dataclass(frozen=True, kw_only=True)
class Evaluate(Search):
    """Score a run's translations of one split: BLEU, chrF, loss, exact matches."""

    split: str = "test"
    """Which split of the prepared corpus."""
    data: Path | None = None
    """The prepared corpus, if it lies elsewhere than at training."""
    translations: Path | None = None
    """File to write the translations to, one a line."""
    tokenize: str | None = None
    """How BLEU finds words, by sacrebleu's name; by default as the language asks."""
    json: Path | None = None
    """File to write the scores to."""

    def run(self) -> None:
        """Print a table, and write the same as JSON."""
        from transformer_lite.batching import fixed_batches
        from transformer_lite.data.store import PreparedCorpus
        from transformer_lite.inference.scores import bleu_of, score
        from transformer_lite.training.step import validate

        folder = RunFolder(self.folder)
        recipe = folder.recipe()
        if not self.data and not recipe.data.is_dir():
            raise ValueError(
                f"{recipe.data}: the corpus of this run is not there; give --data, "
                "the folder where it lies now"
            )
        corpus = PreparedCorpus(self.data or recipe.data)
        self._compare(folder, corpus)
        sources, references = corpus.text(self.split)
        self._require_room(corpus, recipe.model.max_len)
        language = corpus.languages[1] or folder.languages()[1]
        bleu_of(language, self.tokenize)  # refuses a wrong name before all the work
        with self.translator() as (translator, weights):
            translations = translator.translate(sources)
        if self.translations:
            text = "".join(f"{line}\n" for line in translations)
            self.translations.write_bytes(text.encode("utf-8"))
        scores = asdict(score(translations, references, language, self.tokenize))
        batches = fixed_batches(*corpus.ids(self.split), recipe.train.batch_tokens)
        report = validate(translator.model, batches, recipe.train.label_smoothing)
        results = {**scores, "loss": report.loss, "nll": report.nll}
        results["weights"] = str(weights)
        for name, value in results.items():
            shown = f"{value:.2f}" if isinstance(value, float) else value
            print(f"{name:12} {shown}")
        if self.json:
            self.json.write_text(json.dumps(results, indent=2) + "\n")

    def _compare(self, folder: RunFolder, corpus: Any) -> None:
        """See that the corpus has the run's vocabulary; say if it is another one."""
        vocabulary = (corpus.folder / "tokenizer.model").read_bytes()
        if folder.tokenizer.read_bytes() != vocabulary:
            raise ValueError(
                f"{corpus.folder}: has another vocabulary than {self.folder}; give "
                "--data with the corpus of this run, or score what translate writes"
            )
        trained_on = json.loads(folder.corpus.read_text(encoding="utf-8"))
        if trained_on["fingerprint"] != corpus.fingerprint():
            note = (
                f"{corpus.folder} is not the corpus that {self.folder} was trained on"
            )
            print(f"note: {note}", file=sys.stderr)

    def _require_room(self, corpus: Any, max_len: int) -> None:
        """See before all the work that the loss of every pair can be computed."""
        longest = 1 + max(int(side.lengths.max()) for side in corpus.ids(self.split))
        if longest > max_len:
            raise ValueError(
                f"{corpus.folder}: {self.split} has a sentence of {longest} tokens, "
                f"longer than model.max_len = {max_len}; take it out and prepare again"
            )


@dataclass(frozen=True, kw_only=True)
class Export(Verb):
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
        from transformer_lite.inference.export import export_ctranslate2
        from transformer_lite.inference.translator import Translator

        weights = self.weights or RunFolder(self.folder).default_weights()
        export_ctranslate2(Translator.load(self.folder, weights), self.out)
        print(f"{self.out}: {self.format} model of {weights}")


VERBS: dict[str, type[Verb]] = {
    "prepare": Prepare,
    "train": Train,
    "average": Average,
    "translate": Translate,
    "evaluate": Evaluate,
    "export": Export,
}


@contextmanager
def _opened(path: Path | None, mode: str, standard: Any) -> Iterator[Any]:
    """The file at `path`, or the standard one, which stays open."""
    if path is None:
        yield standard
    else:
        with path.open(mode) as file:
            yield file


def _decoded(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """The lines as text, each as soon as it is there; a line feed alone ends a line.

    Raises:
        ValueError: A line is not UTF-8.
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{name}, line {number}: not UTF-8 (byte {error.start + 1}); "
                "convert the text to UTF-8"
            ) from error


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one verb; a user's mistake gives one line on stderr and exit status 2."""
    perform(parse(arguments))


def parse(arguments: Sequence[str] | None = None) -> Verb:
    """Read the verb and its arguments, without importing PyTorch.

    Raises:
        SystemExit: Something is missing, unknown or impossible, or help was shown.
    """
    name, *words = (sys.argv[1:] if arguments is None else arguments) or [""]
    if name in ("", "-h", "--help"):
        print(_overview(), file=sys.stdout if name else sys.stderr)
        sys.exit(0 if name else 2)
    if name == "--version":
        print(f"transformer-lite {__version__}")
        sys.exit(0)
    if name not in VERBS:
        _fail(
            None, f'no verb "{name}"; {_nearest(name, {verb: verb for verb in VERBS})}'
        )
    with _reported(VERBS[name]):
        return VERBS[name].parse(words)


def perform(verb: Verb) -> None:
    """Do what a verb says.

    Raises:
        SystemExit: It failed, which one line on stderr explains, or was interrupted.
    """
    with _reported(type(verb)):
        verb.run()


@contextmanager
def _reported(verb: type[Verb]) -> Iterator[None]:
    """End the program with one line for what a user can mend."""
    try:
        yield
    except KeyboardInterrupt:
        print(f"{_program(verb)}: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read the output has enough; Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(INTERRUPTED)
    except MemoryError as error:
        _fail(verb, f"{error}" or f"out of memory; {verb.less_memory}")
    except (ValueError, OSError, FloatingPointError) as error:
        _fail(verb, error)
    except RuntimeError as error:
        if not _is_want_of_memory(error):
            raise
        _fail(verb, f"out of memory; {verb.less_memory}")


def _is_want_of_memory(error: RuntimeError) -> bool:
    """Whether PyTorch says that a GPU or the machine has no memory left."""
    import torch

    on_gpu = isinstance(error, torch.OutOfMemoryError)
    return on_gpu or "can't allocate memory" in str(error)


def _program(verb: type[Verb] | None) -> str:
    names = [name for name, found in VERBS.items() if found is verb]
    return " ".join(["transformer-lite", *names])


def _fail(verb: type[Verb] | None, message: object) -> NoReturn:
    """End the program with one line and exit status 2."""
    print(f"{_program(verb)}: error: {message}", file=sys.stderr)
    sys.exit(2)


def _parse(verb: type[Verb], words: Sequence[str], default: Verb | None = None) -> Any:
    """The verb with these arguments; those not given are as in `default`.

    Raises:
        ValueError: An argument is missing, unknown or impossible.
        SystemExit: Help was asked for, and shown.
    """

    def refuse(event: refusal.ParseErrorEvent) -> None:
        if message := _message(event, verb):
            end = "" if message.endswith("?") else f"; see {_program(verb)} --help"
            raise ValueError(message + end)

    markers = (DisallowNone, PositionalMetavarFromFieldName)
    with refusal.on_parse_error(refuse):
        return tyro.cli(
            verb, prog=_program(verb), args=words, default=default, config=markers
        )


def _message(event: refusal.ParseErrorEvent, verb: type[Verb]) -> str | None:
    """What is wrong with the arguments; None if only tyro knows how to say it."""
    message = None
    match event:
        case (
            refusal.UnrecognizedArgs(tokens=[word, *_])
            | refusal.MissingArgs(unrecognized_tokens=[word, *_])
        ):
            message = f'"{word}" is one argument too many'
            if word.startswith("-"):
                message = f"no option {word}; {_nearest(word, _options(verb))}"
        case refusal.MissingArgs(missing_arguments=missing):
            names = " and ".join(_shown(found.arg) for found in missing)
            message = f"{names} {'is' if len(missing) == 1 else 'are'} missing"
        case refusal.InvalidChoice(argument=argument, value=value, choices=choices):
            message = f"{_shown(argument)} {value}; give one of {', '.join(choices)}"
        case (
            refusal.BadValue(argument=argument)
            | refusal.InstantiationFailure(argument=argument)
        ):
            message = f"{_shown(argument)} takes {argument.lowered.metavar.strip('{}')}"
    return message


def _shown(argument: Any) -> str:
    name = argument.display_name()
    return name.upper() if argument.is_positional() else name


def _settings(verb: type[Verb]) -> dict[str, type]:
    """The configurations among the verb's arguments."""
    return {
        entry.name: entry.type for entry in fields(verb) if is_dataclass(entry.type)
    }


def _options(verb: type[Verb]) -> dict[str, str]:
    """Every option, by its own name and by the last part of its name."""
    parts = [[entry.name] for entry in fields(verb)]
    for name, config in _settings(verb).items():
        parts += [[name, entry.name] for entry in fields(config)]
    parts = [[word.replace("_", "-") for word in words] for words in parts]
    options = {f"--{words[-1]}": f"--{'.'.join(words)}" for words in parts}
    return options | {option: option for option in options.values()}


def _nearest(word: str, names: Mapping[str, str]) -> str:
    """What was perhaps meant by a word that is none of the names."""
    spelled = word.partition("=")[0].replace("_", "-")
    found = get_close_matches(spelled, names, n=1)
    return f"did you mean {names[found[0]]}?" if found else "see --help"


def _overview() -> str:
    shown = {name: verb.__doc__.partition("\n")[0] for name, verb in VERBS.items()}
    lines = [f"  {name:10} {line}" for name, line in shown.items()]
    return "\n".join(["usage: transformer-lite VERB …   (VERB --help)", "", *lines])
