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
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import asdict, dataclass, is_dataclass
from difflib import get_close_matches
from functools import partial, wraps
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any, get_args, get_type_hints

import tyro
from tyro.conf import FlagCreatePairsOff, arg
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
)

from transformer_lite import __version__
from transformer_lite.config import (
    RECIPE_NAMES,
    RECIPES,
    Recipe,
    load_recipe,
    recipe_from_dict,
)
from transformer_lite.data.verbs import prepare, prepare_files
from transformer_lite.parsing.treebank import prepare_trees
from transformer_lite.runs.console import interrupt, stop_signals_to, tell
from transformer_lite.runs.files import naming
from transformer_lite.runs.folder import MODEL_NAMES, require_folder
from transformer_lite.verbs import average, evaluate, page, translate

DEBUG = "TRANSFORMER_LITE_DEBUG"
"""Environment variable: if it is set, an error shows its traceback."""

WIDTH = 88
"""Most characters of a line of help."""

INTERRUPTED = 130
"""Exit status of a program that Ctrl-C ended, as shells report it."""


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
    recipe = recipe_from_dict(asdict(chosen.recipe))
    require_folder(recipe.data)  # before the slow import
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

    `recipe_from_dict` checks it as a whole.

    Args:
        shown: Fields that are options; by default all but the vocabulary's size, which
            the data has.
    """
    hints = get_type_hints(type(config))
    kept = hints.keys() - {"vocab_size"} if shown is None else shown
    for name, hint in hints.items():
        if name not in kept and not is_dataclass(hint):
            hints[name] = tyro.conf.SuppressFixed[tyro.conf.Fixed[hint]]
    body = {"__annotations__": hints, "__post_init__": lambda self: None}
    values = {
        name: as_options(value, shown) if is_dataclass(value) else value
        for name, value in vars(config).items()
    }
    return type(type(config).__name__, (type(config),), body)(**values)


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
        with stop_signals_to(interrupt), _all_printed():
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
                train(words)
            else:

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


_REGISTRY = ConstructorRegistry()


@_REGISTRY.primitive_rule
def _value(hint: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """Have tyro speak of `T | None` as of T, and plainly of what is no number.

    A number can be unset by "none"; "none" may be the name of a file.
    """
    kind, *rest = get_args(hint.type) or (hint.type,)
    if kind not in (int, float, str, Path) or rest not in ([], [type(None)]):
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=kind.__name__.upper(),
        instance_from_str=partial(_read_value, kind, bool(rest)),
        is_instance=lambda value: isinstance(value, kind | None if rest else kind),
        str_from_instance=lambda value: ["none" if value is None else str(value)],
    )


def _read_value(kind: type, can_be_unset: bool, words: list[str]) -> Any:
    (word,) = words
    if kind in (str, Path):
        return kind(word)
    if can_be_unset and word.lower() == "none":
        return None
    try:
        return kind(word)
    except ValueError:
        what = "whole number" if kind is int else "number"
        raise ValueError(f'"{word}" is no {what}') from None


def _read(what: Any, command: str, words: Sequence[str], **options: Any) -> Any:
    """Return what tyro reads from a command's words.

    Raises:
        ValueError: In place of tyro's boxed error, an option is unknown, missing or
            wrong.
        SystemExit: The help was asked for.
    """
    program = f"transformer-lite {command}"
    read = partial(tyro.cli, what, prog=program, registry=_REGISTRY, **options)
    said = io.StringIO()
    try:  # an error is in one line
        with _terminal(1000), redirect_stdout(said), redirect_stderr(said):
            return read(args=words)
    except SystemExit as ended:
        is_help = not ended.code
    with _terminal(WIDTH), redirect_stdout(io.StringIO()) as shown:
        with suppress(SystemExit):
            read(args=["--help"])
    if is_help:
        print(_plain(shown.getvalue()))
        sys.exit(0)
    known = re.findall(r"(?<!\S)--[a-z][\w.-]*", shown.getvalue())
    ends = {name.lstrip("-").rpartition(".")[2]: name for name in known}
    for word in words:
        name = word.partition("=")[0].replace("_", "-")
        if name.startswith("--") and name not in known:
            hint = f"see {program} --help"
            for end in get_close_matches(name.lstrip("-").rpartition(".")[2], ends, 1):
                hint = f"did you mean {ends[end]}?"
            raise ValueError(f"unknown option {word}; {hint}")
    # Below the title and a rule: the error, and after another rule or a gap the rest.
    *_, error = re.split(r"-{5,} *\n|\n *\n", said.getvalue())[:2]
    if missing := re.findall(r"^ {6}(\S.*?) *\n((?: {10}.*(?:\n|$))+)", error, re.M):
        names = (
            n if n[0] == "-" else f"{n} ({' '.join(t.split())})" for n, t in missing
        )
        error = f"missing {', '.join(names)}".replace(". (required))", ")")
    error = re.sub(r"Missing value for argument '(.*)'.*", r"\1 needs a value", error)
    raise ValueError(f"{' '.join(error.split()).rstrip('.')}; see {program} --help")


@contextmanager
def _terminal(width: int) -> Iterator[None]:
    """Have tyro write lines of this width inside the block."""
    columns = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(width)
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if columns is not None:
            os.environ["COLUMNS"] = columns


def _plain(shown: str) -> str:
    """Return tyro's help without empty defaults and gaps, at most `WIDTH` wide."""
    shown = re.sub(r"\s*\(default:\s*(none|'')?\)", "", shown)
    shown = re.sub(r"\[(\w+) \[\1 \.\.\.\]\]", r"\1 ...", shown)
    lines = (fill(line, WIDTH) for line in shown.splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _table(rows: dict[str, str]) -> str:
    width = max(map(len, rows))
    lines = (f"  {name:{width}}  {text}" for name, text in rows.items())
    indent = " " * (width + 4)
    return "\n".join(fill(line, WIDTH, subsequent_indent=indent) for line in lines)


def _first_line(recipe: str) -> str:
    """Return what a recipe says of itself first."""
    return (RECIPES / f"{recipe}.toml").read_text("utf-8").split("\n")[0][2:]


def _overview(verbs: dict[str, Callable[..., None]]) -> str:
    table = _table({name: v.__doc__.splitlines()[0] for name, v in verbs.items()})
    names = {"recipes": ", ".join(RECIPE_NAMES)}
    names["trained models"] = ", ".join(MODEL_NAMES)
    return f"VERB …   (VERB --help)\n\n{table}\n\n{_table(names)}"


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
