"""Every well-known mistake is caught, by its name; right code passes in any style."""

import pytest
from course.mistakes import MISTAKES, PAIRS
from loading import ROOT

from transformer_lite_course.checks import CHECKS
from transformer_lite_course.grading import grade_parts
from transformer_lite_course.parts import PARTS, SKELETON

HERE = ROOT / "tests/course"
SOLUTIONS, STYLES = HERE / "solutions", HERE / "other_styles"
CASES = [(part, *case) for part, cases in MISTAKES.items() for case in cases]


def sentence_about(part, source, folder):
    """The sentence that a part with this source gets, empty if it holds."""
    (folder / f"{part}.py").write_text(source, "utf-8")
    (grade,) = grade_parts(folder, [part])
    assert (grade.state == "holds") is not bool(grade.sentence)
    return grade.sentence


def test_every_part_has_a_check_and_its_mistakes():
    assert list(PARTS) == list(CHECKS)
    assert set(PARTS) == set(MISTAKES)
    assert len(CASES) >= 140


@pytest.mark.parametrize("part", PARTS)
def test_a_right_part_passes(part):
    assert [grade.state for grade in grade_parts(SOLUTIONS, [part])] == ["holds"]


@pytest.mark.parametrize("file", sorted(STYLES.glob("*.py")), ids=lambda f: f.stem)
def test_a_right_part_in_another_style_passes(file, tmp_path):
    part = file.stem.split("_by_")[0]
    source = (SOLUTIONS / f"{part}.py").read_text("utf-8")
    changed = f"{source}\n\n{file.read_text('utf-8')}"  # which defines names again
    assert sentence_about(part, changed, tmp_path) == ""


def test_a_bias_of_heads_is_ignored_as_the_docstring_says(tmp_path):
    source = (SOLUTIONS / "heads.py").read_text("utf-8")
    with_bias = source.replace("bias=False", "bias=True")
    assert with_bias != source
    assert sentence_about("heads", with_bias, tmp_path) == ""
    assert "sets a bias to 0" in (SKELETON / "heads.py").read_text("utf-8")


@pytest.mark.parametrize(("part", "right", "wrong", "named"), CASES)
def test_a_mistake_is_called_by_its_name(part, right, wrong, named, tmp_path):
    source = (SOLUTIONS / f"{part}.py").read_text("utf-8")
    assert right in source
    assert named in sentence_about(part, source.replace(right, wrong), tmp_path)


@pytest.mark.parametrize(("part", "one", "other"), PAIRS)
def test_two_mistakes_are_both_named(part, one, other, tmp_path):
    source = (SOLUTIONS / f"{part}.py").read_text("utf-8")
    for name in (one, other):
        right, wrong = next(case[:2] for case in MISTAKES[part] if case[2] == name)
        assert right in source
        source = source.replace(right, wrong)
    sentence = sentence_about(part, source, tmp_path)
    assert sentence.startswith("Two mistakes. ")
    assert one in sentence
    assert other in sentence
