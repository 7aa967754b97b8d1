"""The course's verbs of the command line: write the parts, check them, train them.

`transformer_lite.cli` finds them by their entry points in pyproject.toml.

Paper: §3, 5.1, 5.3–5.4, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_grading.py
"""

import json as json_format
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff, Positional, arg

from transformer_lite.cli import as_options
from transformer_lite.config import load_recipe, recipe_from_dict
from transformer_lite_course.parts import PARTS, place_of, write_skeleton

SECONDS_BETWEEN_LOOKS = 0.3

Folder = Positional[Annotated[Path, arg(metavar="FOLDER")]]

_MODEL = ("num_layers", "d_model", "d_ff", "num_heads", "dropout")
_TRAINING = ("seed", "max_steps", "batch_tokens", "warmup_steps", "rate_scale")
OPTIONS = as_options(load_recipe("toy"), (*_MODEL, *_TRAINING, "label_smoothing"))
"""The recipe toy with those settings as options that count here."""


def exercise(folder: Folder, /) -> None:
    """Write the parts of a Transformer for you to fill in.

    Args:
        folder: The folder to make.
    """
    write_skeleton(folder)
    print(f"{folder}: {len(PARTS)} parts to write, each as its chapter explains")
    for part in PARTS.values():
        print(f"  {part.name + '.py':15} {part.link}")
    first = next(iter(PARTS))
    print(f"begin with {first}.py; check with: transformer-lite grade {folder} {first}")


def grade(
    folder: Folder,
    parts: Positional[Annotated[tuple[str, ...], arg(metavar="[PART ...]")]] = (),
    /,
    *,
    json: FlagCreatePairsOff[bool] = False,
    watch: FlagCreatePairsOff[bool] = False,
) -> None:
    """Check the parts that you have written, each for itself (on Linux and macOS).

    Args:
        folder: Your files, as `exercise` has written them.
        parts: Names of parts, such as attention; by default all.
        json: Print the grades as JSON.
        watch: Check a part again whenever its file is saved, until Ctrl-C.

    Raises:
        ValueError: There is no such folder or part, or both options are given.
        SystemExit: With status 1 if a part fails or is not written.
    """
    if json and watch:
        raise ValueError("--json is for one look; leave out --watch")
    if not any(_times_saved(folder).values()):
        raise ValueError(
            f"{folder}: has no part, such as attention.py; give the folder that "
            "`transformer-lite exercise FOLDER` wrote"
        )
    parts = tuple(name.removesuffix(".py") for name in parts)
    for name in parts:
        if name not in PARTS:
            close = get_close_matches(name, PARTS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"take {', '.join(PARTS)}"
            raise ValueError(f'there is no part "{name}"; {hint}')
    names = parts or tuple(PARTS)
    if json:
        from transformer_lite_course.grading import grade_parts

        grades = list(grade_parts(folder, names))
        print(json_format.dumps([asdict(grade) for grade in grades], indent=2))
        sys.exit(any(grade.state != "holds" for grade in grades))
    times = _times_saved(folder)
    all_hold = _print_grades(folder, names)
    if watch:
        files = f"{names[0]}.py" if len(names) == 1 else f"{len(names)} files"
        print(
            f"watching {files} in {folder}: what is saved is checked again; Ctrl-C "
            "ends",
            flush=True,
        )
    while watch:
        time.sleep(SECONDS_BETWEEN_LOOKS)
        before, times = times, _times_saved(folder)
        if changed := [name for name in names if times[name] != before[name]]:
            _print_grades(folder, changed)
    sys.exit(not all_hold)


def _print_grades(folder: Path, names: Sequence[str]) -> bool:
    """Print each part's state, and what is wrong with those that fail."""
    from transformer_lite_course.grading import grade_parts

    grades = []
    for grade in grade_parts(folder, names):
        grades.append(grade)
        print(f"{grade.part:12} {grade.state}", flush=True)
        if grade.printed:
            print(textwrap.indent(grade.printed, "    | "), flush=True)
    number = sum(grade.state == "holds" for grade in grades)
    if len(grades) > 1:
        print(f"{number} of {len(grades)} parts hold")
    for grade in grades:
        if grade.state == "fails":
            print(textwrap.fill(f"{grade.part}: {grade.sentence}", 88))
            print(f"  {grade.chapter}", flush=True)
    return number == len(grades)


def _times_saved(folder: Path) -> dict[str, float]:
    """Return when each part was saved; 0 without a file."""
    paths = {name: folder / f"{name}.py" for name in PARTS}
    return {n: p.stat().st_mtime if p.exists() else 0.0 for n, p in paths.items()}


def train_parts(
    folder: Folder,
    /,
    *,
    recipe: Annotated[type(OPTIONS), arg(name="")] = OPTIONS,
) -> None:
    """Train the Transformer of your parts on the toy corpus, and watch it translate.

    No run is kept.

    Args:
        folder: Your files, as `exercise` has written them.
        recipe: The widths, steps and rates; the defaults are the recipe toy's.

    Raises:
        ValueError: A part is written in part only.
    """
    from transformer_lite_course.toy_training import train

    try:
        train(folder, recipe_from_dict(asdict(recipe)))
    except NotImplementedError as error:
        place = place_of(error, folder)
        raise ValueError(f"{place}: this function is not written yet") from error
