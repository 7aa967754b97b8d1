"""The exercises' checks accept the stored solution and refuse the likely wrong answers.

Below stand at least three wrong answers to each exercise; whoever writes one adds its
own. The chapters that pyproject.toml lists as revised are held to it.
"""

import math
from functools import cache

import nbformat
import pytest
import torch
from test_notebooks import ROOT, tool


def softmax_less(subtracted):
    """A softmax that subtracts something else than each row's largest score."""

    def candidate(scores):
        exponentials = (scores - subtracted(scores)).exp()
        return exponentials / exponentials.sum(-1, keepdim=True)

    return candidate


WRONG = {
    "03_2_1_scaled_dot_product_attention": {
        "check_softmax": {
            "subtracts nothing": softmax_less(torch.zeros_like),
            "subtracts the row's first score": softmax_less(lambda s: s[..., :1]),
            "subtracts the row's mean": softmax_less(lambda s: s.mean(-1, True)),
            "subtracts the largest of all rows": softmax_less(torch.max),
            "subtracts 1000": softmax_less(lambda s: 1000),
            "takes another axis": lambda s: s.softmax(0),
        },
        "check_divisor": {
            "no root": lambda d_k, q, k: q * k * d_k,
            "the root alone": lambda d_k, q, k: math.sqrt(d_k),
            "a constant": lambda d_k, q, k: 1.5 * math.sqrt(d_k),
            "a sum": lambda d_k, q, k: (q + k) * math.sqrt(d_k),
            "variances": lambda d_k, q, k: (q * k) ** 2 * math.sqrt(d_k),
        },
        "check_derivative": {
            "the diagonal alone": lambda w: (w * (1 - w)).diag(),
            "a plus": lambda w: w.diag() + w[:, None] * w,
            "the sign": lambda w: w[:, None] * w - w.diag(),
        },
    }
}


@cache
def exercises(stem):
    """What the cells below the heading "Exercises" define, solutions included."""
    cells = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", as_version=4).cells
    (start,) = [i for i, cell in enumerate(cells) if "## Exercises" in cell.source]
    names = {}
    exec(cells[0].source, names)
    for cell in cells[start:]:
        if cell.cell_type == "code":
            exec(cell.source, names)
    return names


@pytest.mark.parametrize("stem", tool.make_map.SECOND_EDITION)
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
