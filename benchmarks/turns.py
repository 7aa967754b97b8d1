"""Systems that are timed in turn, each in a process of its own.

In one process they would disturb each other: PyTorch and CTranslate2 may share an
OpenMP (examples/ctranslate2/README.md), and memory is left in another state.
"""

import multiprocessing
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from tqdm import tqdm

Begin = Callable[[str], Callable[[], Any]]
"""Makes a system ready, given its name; returns what is done in each turn."""


def in_turn(
    begin: Begin, systems: Iterable[str], passes: int
) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Return what each system gives in each pass, and what is missing for the others.

    All systems have a pass before any has the next; the first one warms up and is not
    returned.

    Args:
        begin: A function of a module, which each process imports.
        systems: The systems' names.
        passes: How often each one has its turn.
    """
    context = multiprocessing.get_context("spawn")
    pipes, missing = {}, {}
    for system in systems:
        here, there = context.Pipe()
        serve = partial(_serve, partial(begin, system), there)
        context.Process(target=serve, daemon=True).start()
        there.close()
        if reason := here.recv():
            missing[system] = reason
        else:
            pipes[system] = here
    given = {system: [] for system in pipes}
    for _ in tqdm(range(passes + 1)):
        for system, pipe in pipes.items():
            pipe.send("your turn")
            given[system].append(pipe.recv())
    return {system: each[1:] for system, each in given.items()}, missing


def _serve(begin: Callable[[], Callable[[], Any]], parent: Connection) -> None:
    """Take a turn whenever the parent says so, until it is gone."""
    try:
        act = begin()
    except ModuleNotFoundError as error:
        parent.send(str(error))
        return
    parent.send("")
    with suppress(EOFError):
        while parent.recv():
            parent.send(act())
