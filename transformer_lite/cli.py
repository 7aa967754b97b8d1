"""The command line, `transformer-lite VERB …`: which verb, and errors in one line.

Each verb is a dataclass in `commands/`: its fields are the verb's arguments. The
settings of `train` are the configurations' own fields, so every name, default and help
text stands once.

What imports PyTorch, which takes seconds, is imported where a verb does its work: help,
and what is wrong with a command, come at once.

Paper: §5–6
Chapter: the_multi_gpu_trainer
Tests: tests/test_cli.py
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from transformer_lite import __version__
from transformer_lite.commands.arguments import Verb, nearest
from transformer_lite.commands.average import Average
from transformer_lite.commands.evaluate import Evaluate
from transformer_lite.commands.export import Export
from transformer_lite.commands.prepare import Prepare
from transformer_lite.commands.train import INTERRUPTED, Train
from transformer_lite.commands.translate import Translate

VERBS: dict[str, type[Verb]] = {
    "prepare": Prepare,
    "train": Train,
    "average": Average,
    "translate": Translate,
    "evaluate": Evaluate,
    "export": Export,
}


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
        hint = nearest(name, {verb: verb for verb in VERBS}, "transformer-lite")
        _fail("transformer-lite", f'no verb "{name}"; {hint}')
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
        print(f"{verb.program()}: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read the output has enough; Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(INTERRUPTED)
    except MemoryError as error:
        _fail(verb.program(), f"{error}" or f"out of memory; {verb.less_memory}")
    except (ValueError, OSError, FloatingPointError) as error:
        _fail(verb.program(), error)
    except RuntimeError as error:
        if not _is_want_of_memory(error):
            raise
        _fail(verb.program(), f"out of memory; {verb.less_memory}")


def _is_want_of_memory(error: RuntimeError) -> bool:
    """Whether PyTorch says that a GPU or the machine has no memory left."""
    import torch

    on_gpu = isinstance(error, torch.OutOfMemoryError)
    return on_gpu or "can't allocate memory" in str(error)


def _fail(program: str, message: object) -> NoReturn:
    """End the program with one line and exit status 2."""
    print(f"{program}: error: {message}", file=sys.stderr)
    sys.exit(2)


def _overview() -> str:
    shown = {name: verb.__doc__.partition("\n")[0] for name, verb in VERBS.items()}
    lines = [f"  {name:10} {line}" for name, line in shown.items()]
    return "\n".join(["usage: transformer-lite VERB …   (VERB --help)", "", *lines])
