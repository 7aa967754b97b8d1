"""The command line, `transformer-lite VERB …`: parsing, and errors in one line.

tyro makes each verb's options and help from the verb's fields.

Paper: §5–6
Chapter: the_multi_gpu_trainer
Tests: tests/test_cli.py
"""

import io
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import fields
from itertools import dropwhile, takewhile
from pathlib import Path

import tyro
from tyro.conf import FlagCreatePairsOff

from transformer_lite.recipe import Recipe, load_recipe
from transformer_lite.verbs import INTERRUPTED, VERBS, Train, Verb


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
            path = Path(word)
            break
        if word.startswith("--") and "=" not in word:
            next(words, None)  # an option's value
    else:
        return None
    recipe = load_recipe(path)
    settings = {entry.name: getattr(recipe, entry.name) for entry in fields(Recipe)}
    return Train(recipe=path, out=Path("runs", path.stem), **settings)


def _overview() -> str:
    lines = [f"  {verb:10} {command.__doc__}" for verb, command in VERBS.items()]
    return "\n".join(["usage: transformer-lite VERB …   (VERB --help)", "", *lines])
