"""The exercises' checks accept the stored solution and refuse the likely wrong answers.

tests/wrong_answers/ has at least three wrong answers to each exercise, one or two for
each way in which its check refuses; whoever writes an exercise adds its own.
"""

from functools import cache
from importlib import import_module

import nbformat
import pytest
from loading import ROOT

PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
WRONG = {path.stem: import_module(f"wrong_answers.{path.stem}").WRONG for path in PATHS}


@cache
def exercises(stem):
    """What the cells below "Exercises" and above "Evidence" define, with solutions."""
    cells = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", as_version=4).cells
    (start,) = [i for i, cell in enumerate(cells) if "## Exercises" in cell.source]
    ends = [i for i, cell in enumerate(cells) if "## Evidence" in cell.source]
    names = {}
    exec(cells[0].source, names)
    for cell in cells[start : ends[0] if ends else None]:
        if cell.cell_type == "code":
            exec(cell.source, names)
    return names


@pytest.mark.parametrize("stem", WRONG)
def test_every_check_is_tried_with_three_wrong_answers(stem):
    checks = {name for name in exercises(stem) if name.startswith("check_")}
    assert checks == set(WRONG[stem])
    assert all(len(answers) >= 3 for answers in WRONG[stem].values())


@pytest.mark.parametrize(
    ("stem", "check", "mistake"),
    [
        (stem, check, mistake)
        for stem, checks in WRONG.items()
        for check, answers in checks.items()
        for mistake in answers
    ],
)
def test_a_wrong_answer_is_refused(stem, check, mistake):
    assert not exercises(stem)[check](WRONG[stem][check][mistake])


@pytest.mark.parametrize("stem", WRONG)
def test_the_stored_solutions_are_accepted(stem, capsys):
    exercises.cache_clear()
    exercises(stem)
    verdicts = capsys.readouterr().out.split("\n")
    assert verdicts.count("correct") == len(WRONG[stem])
