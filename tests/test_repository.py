"""The repository has the form that tests/lint.py says, which finds where it has not."""

from pathlib import Path

import lint
import pytest

CHAPTER = "notebooks/03_5_positional_encoding.ipynb"
LIVE = "notebooks/03_2_2_multi_head_attention.ipynb"
OF_CHAPTERS = ("names", "glossary", "executed", "figures", "stories")
# fmt: off
PLANTED = [
    ("versions", "requirements.txt", "torch==2", "torch==1", "torch==1"),
    ("versions", "pyproject.toml", "numpy>=", "numpy>=9", "allow 2.1.3 (Colab)"),
    ("versions", "CITATION.cff", "version: ", "version: 9", "the version is"),
    ("versions", "CHANGELOG.md", "## [", "## [9", "the version is"),
    ("names", "README.md", "make test", "make tests", "no target tests"),
    ("names", "book/command_line.md", "transformer-lite train", "transformer-lite x", "x"),
    ("names", "README.md", "](book/glossary.md)", "](book/x.md)", "no file book/x.md"),
    ("names", "CONTRIBUTING.md", "\n## Licences", "\n:::{note}\n", "GitHub shows"),
    ("names", CHAPTER, "## Today", "{eq}`a` ## Today", "Colab shows '{eq}`'"),
    ("names", CHAPTER, "## Today", "$$ (eq-a) ## Today", "Colab shows"),
    ("names", CHAPTER, "## Today", "`tests/x.py` ## Today", "no file tests/x.py"),
    ("machines", "README.md", "make test", "pip install transformer-" + "lite", "pip"),
    ("machines", "Makefile", "VENV := ", "VENV := /ho" + "me/me/", "take"),
    ("machines", "Makefile", "VENV := ", "VENV := TO" + "DO", "take"),
    ("deviations", "book/deviations.md", "\n## D3", "\n## D999", "lacks tag in the code"),
    ("deviations", "book/deviations.md", "| [D3]", "| [D4]", "link every entry"),
    ("glossary", "book/glossary.md", '<span lang="ko">', "<span>", "add Korean"),
    ("glossary", "book/glossary.md", "\n### BLEU\n", "\n### Beam\n", "link_glossary"),
    ("glossary", CHAPTER, "../book/glossary.md#", "../book/glossary.md#x", "no term"),
    ("way_to_the_code", "book/map.md", "# Map", "# A map", "make_map.py"),
    ("way_to_the_code", "book/_toc.yml", "notebooks/02", "notebooks/99", "lacks page 02"),
    ("way_to_the_code", "book/api.md", "lite.masks", "lite.mask", "no page"),
    ("front_page", "book/_static/model.svg", "3.5 Pos", "3.6 Pos", "Position needs"),
    ("front_page", "book/_static/model.svg", 'x="44"', 'x="-44"', "needs more room"),
    ("front_page", "book/_static/model.svg", "Feed-forward", 40 * "x", "needs more room"),
    ("front_page", "README.md", "take about ", "take about 9", "the chapters take"),
    ("front_page", "book/how_to_read.md", "\n| 10 |", "\n| 11 |", "a week"),
    ("executed", CHAPTER, '"execution_count": 2,', '"execution_count": 9,', "run it whole"),
    ("executed", CHAPTER, '"cellView": "form",\n', "", "--setup-only"),
    ("executed", LIVE, ".live-figure output {", ".figure output {", "--setup-only"),
    ("executed", CHAPTER, '"name": "stdout"', '"name": "stderr"', "or warning"),
    ("executed", CHAPTER, '"# @title Checked\\n', '"PAD = 1\\n', "PAD is the package's"),
    ("figures", CHAPTER, '"image/png": {', '"image/gif": {', "draw one figure"),
    ("figures", CHAPTER, '"caption": "', '"caption": "d_k ', "formulas in"),
    ("figures", CHAPTER, '"caption": "', '"caption": "Paler ', "light or dark"),
    ("figures", CHAPTER, '"alt": "', '"alt": "Black ', "light or dark"),
    ("figures", CHAPTER, '"plt.show()', '"ax.set_title(\\"white: 0\\")', "light or dark"),
    ("figures", CHAPTER, '"hide-input"', '"x"', "How this is drawn"),
    ("figures", CHAPTER, '"text": [\n      "', '"text": [\n      "' + 90 * "x", "at most 88"),
    ("stories", CHAPTER, "## The question", "## A question", "begin with"),
    ("stories", CHAPTER, "Exercise 2.", "Exercise 4.", "three exercises"),
    ("stories", CHAPTER, "without the exercises", "in all", "make notebooks"),
]
# fmt: on


@pytest.mark.parametrize("kind", lint.KINDS)
def test_the_form_is_right(kind):
    assert [*lint.KINDS[kind]()] == []


@pytest.mark.parametrize(("kind", "path", "old", "new", "remedy"), PLANTED)
def test_lint_finds_a_planted_fault(monkeypatch, kind, path, old, new, remedy):
    before = lint.text
    assert old in before(path)

    def changed(name):
        return before(name).replace(old, new) if str(name) == path else before(name)

    monkeypatch.setattr(lint, "text", changed)
    if kind in OF_CHAPTERS:  # the others would take long
        monkeypatch.setattr(lint, "STEMS", [Path(path).stem] * path.endswith(".ipynb"))
    faults = [fault for fault in lint.KINDS[kind]() if remedy in fault]
    assert any(path in fault for fault in faults), faults
