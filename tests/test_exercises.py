"""The exercises' checks accept the stored solution and refuse the likely wrong answers.

tests/wrong_answers/ has at least three wrong answers to each exercise, one or two for
each way in which its check refuses; whoever writes an exercise adds its own. It may
have some for the check of "Spot the bug", too, and right answers that look unlike the
solution. given() returns what such a cell takes from cells that are not executed here.
"""

from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from io import StringIO

import nbformat
import pytest
from loading import ROOT
from unchecked import unchecked

PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TABLES = {path.stem: import_module(f"wrong_answers.{path.stem}") for path in PATHS}
WRONG = {stem: table.WRONG for stem, table in TABLES.items()}
RIGHT = {stem: getattr(table, "RIGHT", {}) for stem, table in TABLES.items()}
GIVEN = {stem: getattr(table, "given", dict) for stem, table in TABLES.items()}

BUG = "## Where people go wrong"


@cache
def exercises(stem):
    """What the cells from "Exercises" to "Evidence" define, and what they print.

    The cells of "Where people go wrong" belong to them if their check is tried.
    """
    cells = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", as_version=4).cells
    (start,) = [i for i, cell in enumerate(cells) if "## Exercises" in cell.source]
    ends = [i for i, cell in enumerate(cells) if "## Evidence" in cell.source]
    (bug,) = [i for i, cell in enumerate(cells) if BUG in cell.source]
    (today,) = [i for i, cell in enumerate(cells) if "## Today" in cell.source]
    chosen, bugs = cells[start : ends[0]], cells[bug:today]
    tried = WRONG[stem] | RIGHT[stem]
    if any(f"def {name}(" in cell.source for name in tried for cell in bugs):
        chosen = bugs + chosen
    code = [cell for cell in chosen if cell.cell_type == "code"]
    names, printed = {**GIVEN[stem]()}, StringIO()
    with unchecked(), redirect_stdout(printed):  # a reader's types are not checked
        for cell in cells[:1] + code:
            exec(cell.source, names)
    return names, printed.getvalue()


@pytest.mark.parametrize("stem", WRONG)
def test_every_check_is_tried_with_three_wrong_answers(stem):
    checks = {name for name in exercises(stem)[0] if name.startswith("check_")}
    assert checks == set(WRONG[stem])
    assert all(len(answers) >= 3 for answers in WRONG[stem].values())


def answers(of):
    """The stem, check and name of each answer in WRONG or RIGHT."""
    return [
        (stem, check, name)
        for stem, checks in of.items()
        for check, named in checks.items()
        for name in named
    ]


@pytest.mark.parametrize(("stem", "check", "mistake"), answers(WRONG))
def test_a_wrong_answer_is_refused(stem, check, mistake):
    names, _ = exercises(stem)
    with unchecked(), redirect_stdout(StringIO()) as said:
        assert not names[check](WRONG[stem][check][mistake])
    # A name that the test forgot would be refused, too.
    assert "NameError" not in said.getvalue()
    assert "ModuleNotFoundError" not in said.getvalue()


@pytest.mark.parametrize(("stem", "check", "way"), answers(RIGHT))
def test_a_right_answer_is_accepted(stem, check, way):
    names, _ = exercises(stem)
    with unchecked(), redirect_stdout(StringIO()):
        assert names[check](RIGHT[stem][check][way])


@pytest.mark.parametrize("stem", WRONG)
def test_the_stored_solutions_are_accepted(stem):
    _, printed = exercises(stem)
    assert printed.split("\n").count("correct") == len(WRONG[stem])
