"""Arguments of a verb, read by tyro; what is wrong with them, in one line.

Paper: §5–6
Chapter: the_multi_gpu_trainer
Tests: tests/test_cli.py
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from typing import Any, ClassVar

import tyro
from tyro import _errors as refusal
from tyro.conf import DisallowNone, PositionalMetavarFromFieldName


class Verb(ABC):
    """What can be done; the fields are its arguments."""

    less_memory: ClassVar[str] = "close other programs"
    """What to do where memory does not suffice."""

    @classmethod
    def program(cls) -> str:
        """What the user has typed to come here."""
        return f"transformer-lite {cls.__name__.lower()}"

    @classmethod
    def parse(cls, words: Sequence[str]) -> "Verb":
        """Read the arguments.

        Raises:
            ValueError: An argument is missing, unknown or impossible.
            SystemExit: Help was asked for, and shown.
        """
        return parse(cls, words)

    @abstractmethod
    def run(self) -> None:
        """Do it."""


def parse(verb: type[Verb], words: Sequence[str], default: Verb | None = None) -> Any:
    """The verb with these arguments; those not given are as in `default`.

    Raises:
        ValueError: An argument is missing, unknown or impossible.
        SystemExit: Help was asked for, and shown.
    """

    for word in words:
        if _is_unknown(word, verb):
            hint = nearest(word, _options(verb), verb.program())
            raise ValueError(f"no option {word}; {hint}")

    def refuse(event: refusal.ParseErrorEvent) -> None:
        if message := _message(event):
            raise ValueError(f"{message}; see {verb.program()} --help")

    markers = (DisallowNone, PositionalMetavarFromFieldName)
    with refusal.on_parse_error(refuse):
        return tyro.cli(
            verb, prog=verb.program(), args=words, default=default, config=markers
        )


def _is_unknown(word: str, verb: type[Verb]) -> bool:
    """Whether a word is an option, but none of the verb's."""
    option = word.partition("=")[0].replace("_", "-")
    known = {*_options(verb).values(), "--help"}
    return option.startswith("--") and not {option, option.replace("no-", "")} & known


def _message(event: refusal.ParseErrorEvent) -> str | None:
    """What is wrong with the arguments; None if only tyro knows how to say it."""
    message = None
    match event:
        case (
            refusal.UnrecognizedArgs(tokens=[word, *_])
            | refusal.MissingArgs(unrecognized_tokens=[word, *_])
        ):
            message = f'"{word}" is one argument too many'
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


def configurations(verb: type[Verb]) -> dict[str, type]:
    """The configurations among the verb's arguments."""
    return {
        entry.name: entry.type for entry in fields(verb) if is_dataclass(entry.type)
    }


def _options(verb: type[Verb]) -> dict[str, str]:
    """Every option, by its own name and by the last part of its name."""
    parts = [[entry.name] for entry in fields(verb)]
    for name, config in configurations(verb).items():
        parts += [[name, entry.name] for entry in fields(config)]
    parts = [[word.replace("_", "-") for word in words] for words in parts]
    options = {f"--{words[-1]}": f"--{'.'.join(words)}" for words in parts}
    return options | {option: option for option in options.values()}


def nearest(word: str, names: Mapping[str, str], program: str) -> str:
    """What was perhaps meant by a word that is none of the names, or where they are."""
    spelled = word.partition("=")[0].replace("_", "-")
    found = get_close_matches(spelled, names, n=1, cutoff=0.7)
    return f"did you mean {names[found[0]]}?" if found else f"see {program} --help"


def unchecked(config: type) -> type:
    """The fields of a configuration without its checks, to be completed by a recipe."""
    # With the module's name too, so that documentation finds the configuration.
    kept = {"__doc__": config.__doc__, "__module__": config.__module__}
    changes = kept | {"__post_init__": lambda self: None}
    return type(config.__name__, (config,), changes)
