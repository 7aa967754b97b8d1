"""Every well-known mistake is caught, by its name; right code passes in any style."""

import pytest
from course.mistakes import MISTAKES
from loading import ROOT

from transformer_lite_course.checks import CHECKS
from transformer_lite_course.grading import grade
from transformer_lite_course.parts import PARTS

HERE = ROOT / "tests/course"
SOLUTIONS, STYLES = HERE / "solutions", HERE / "other_styles"
CASES = [(part, *case) for part, cases in MISTAKES.items() for case in cases]


def said_of(part, source, folder):
    """The sentence that a part with this source gets, empty if it holds."""
    (folder / f"{part}.py").write_text(source, "utf-8")
    (found,) = grade(folder, [part])
    assert (found.state == "holds") is not bool(found.sentence)
    return found.sentence


def test_every_part_has_a_check_and_its_mistakes():
    assert list(PARTS) == list(CHECKS)
    assert set(PARTS) == set(MISTAKES)
    assert len(CASES) >= 100


@pytest.mark.parametrize("part", PARTS)
def test_a_right_part_passes(part):
    assert [found.state for found in grade(SOLUTIONS, [part])] == ["holds"]


@pytest.mark.parametrize("file", sorted(STYLES.glob("*.py")), ids=lambda f: f.stem)
def test_a_right_part_in_another_style_passes(file, tmp_path):
    part = file.stem.split("_by_")[0]
    assert said_of(part, file.read_text("utf-8"), tmp_path) == ""


@pytest.mark.parametrize(("part", "right", "wrong", "named"), CASES)
def test_a_mistake_is_called_by_its_name(part, right, wrong, named, tmp_path):
    source = (SOLUTIONS / f"{part}.py").read_text("utf-8")
    assert right in source
    sentence = said_of(part, source.replace(right, wrong), tmp_path)
    assert named in sentence
