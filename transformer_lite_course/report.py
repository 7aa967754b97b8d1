"""The table of grades, on a terminal or as JSON, once or after every change.

Paper: §3, 5.1, 5.3–5.4, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_grading.py
"""

import json
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path

from transformer_lite_course.grading import Grade, grade
from transformer_lite_course.parts import PARTS

SECONDS_BETWEEN_LOOKS = 0.3


def run(folder: Path, names: Sequence[str], as_json: bool, watch: bool) -> bool:
    """Grade parts and print the grades; return whether all of them hold.

    Args:
        folder: The reader's files.
        names: Which parts; none for all.
        as_json: Print one list of objects instead of a table.
        watch: Go on with each part whose file changes, without end.

    Raises:
        ValueError: There is no such folder or part, or both options are given.
    """
    if as_json and watch:
        raise ValueError("--json is for one look; leave out --watch")
    if not folder.is_dir():
        raise ValueError(
            f"{folder}: no such folder; `transformer-lite exercise {folder}` makes it"
        )
    for name in names:
        if name not in PARTS:
            close = get_close_matches(name, PARTS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"take {', '.join(PARTS)}"
            raise ValueError(f'there is no part "{name}"; {hint}')
    names = names or tuple(PARTS)
    if as_json:
        grades = list(grade(folder, names))
        print(json.dumps([asdict(one) for one in grades], indent=2))
        return all(one.state == "holds" for one in grades)
    saved = _saved(folder)
    holds = _table(folder, names)
    while watch:
        time.sleep(SECONDS_BETWEEN_LOOKS)
        before, saved = saved, _saved(folder)
        if changed := [name for name in names if saved[name] != before[name]]:
            _table(folder, changed)
    return holds


def _table(folder: Path, names: Sequence[str]) -> bool:
    """Print each part's state, and what is wrong with the first that fails."""
    grades: list[Grade] = []
    for one in grade(folder, names):
        grades.append(one)
        print(f"{one.part:12} {one.state}", flush=True)
        if one.printed:
            print(textwrap.indent(one.printed, "    | "), flush=True)
    held = sum(one.state == "holds" for one in grades)
    if len(grades) > 1:
        print(f"{held} of {len(grades)} parts hold")
    if failed := [one for one in grades if one.state == "fails"]:
        first = failed[0]
        print(textwrap.fill(f"{first.part}: {first.sentence}", 88))
        print(f"  {first.chapter}")
    return held == len(grades)


def _saved(folder: Path) -> dict[str, float]:
    """Return when each part was saved; 0 without a file."""
    paths = {name: folder / f"{name}.py" for name in PARTS}
    return {n: p.stat().st_mtime if p.exists() else 0.0 for n, p in paths.items()}
