"""What the book's own Sphinx extensions make of a page."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from docutils import nodes
from docutils.utils import new_document

ROOT = Path(__file__).resolve().parents[1]


def load(name):
    path = ROOT / "book" / "_ext" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"book_ext_{name}", path)
    extension = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(extension)
    return extension


chapter_head = load("chapter_head")
docstrings = load("docstrings")
figure_numbers = load("figure_numbers")
punctuation = load("punctuation")
voices = load("voices")


def page(*children):
    document = new_document("page")
    document += children
    return document


def quotation(*children, below=()):
    # As the parser of Markdown gives it: an empty text comes first.
    first = nodes.paragraph("", "", nodes.Text(""), *children)
    return nodes.block_quote("", first, *below)


def bold(text):
    return nodes.strong("", text)


def test_a_quotation_that_begins_in_bold_becomes_an_admonition():
    document = page(quotation(bold("Spot the bug."), nodes.Text(" Look here.")))
    voices.raise_voices(None, document)
    (admonition,) = document.children
    title, text = admonition.children
    assert isinstance(admonition, nodes.admonition)
    assert title.astext() == "Spot the bug"
    assert text.astext() == "Look here."
    assert admonition["classes"] == ["voice", "spot-the-bug"]


def test_an_admonition_keeps_what_follows_the_first_paragraph():
    below = nodes.paragraph("", "And this.")
    document = page(quotation(bold("In short."), below=[below]))
    voices.raise_voices(None, document)
    (admonition,) = document.children
    assert [child.astext() for child in admonition.children] == [
        "In short",
        "And this.",
    ]


@pytest.mark.parametrize(
    "first", [nodes.Text("Said "), nodes.emphasis("", "Said")], ids=["plain", "italic"]
)
def test_other_quotations_stay_quotations(first):
    document = page(quotation(first, bold("loudly.")))
    voices.raise_voices(None, document)
    assert isinstance(document.children[0], nodes.block_quote)


@pytest.mark.parametrize(
    ("behind", "kept", "rest"),
    [(". Then", ".", " Then"), ("), so", "),", " so"), (".", ".", "")],
)
def test_a_formula_stays_with_the_punctuation_behind_it(behind, kept, rest):
    formula = nodes.math("", "x^2")
    paragraph = nodes.paragraph("", "", nodes.Text("Of "), formula, nodes.Text(behind))
    punctuation.join(None, page(paragraph))
    before, together, after = paragraph.children
    assert together["classes"] == ["unbroken"]
    assert together.children == [formula, kept]
    assert (before, after) == ("Of ", rest)


@pytest.mark.parametrize("behind", [[], [nodes.Text(" is")], [nodes.emphasis("", ".")]])
def test_other_formulas_stay_as_they_are(behind):
    formula = nodes.math("", "x^2")
    paragraph = nodes.paragraph("", "", formula, *behind)
    punctuation.join(None, page(paragraph))
    assert paragraph.children == [formula, *behind]


def test_setup_cell_comes_below_the_lines_under_the_title():
    setup, picture = nodes.container(ids=["setup"]), nodes.container(ids=["picture"])
    lines = [nodes.paragraph("", "Chapter 4"), nodes.paragraph("", "You need")]
    later = nodes.paragraph("", "A word often needs …")
    chapter = nodes.section("", nodes.title("", "3.2.1"), *lines, picture, later)
    app = SimpleNamespace(env=SimpleNamespace(docname="notebooks/03_2_1"))
    document = page(setup, chapter)
    chapter_head.arrange(app, document)
    assert document.children == [chapter]
    assert chapter.children[1:] == [*lines, setup, picture, later]
    assert [line["classes"] for line in lines] == [["chapter-head"]] * 2
    assert later["classes"] == []


def test_figures_are_numbered_by_chapter():
    titles = {"a": "3.2.1 Scaled Dot-Product Attention", "b": "Glossary"}
    numbers = {"a": {"figure": {"x": (7,), "y": (8,)}}, "b": {"figure": {"z": (9,)}}}
    env = SimpleNamespace(
        titles={name: nodes.title("", text) for name, text in titles.items()},
        toc_fignumbers=numbers,
    )
    figure_numbers.by_chapter(None, env)
    assert numbers["a"]["figure"] == {"x": ("3.2.1-1",), "y": ("3.2.1-2",)}
    assert numbers["b"]["figure"] == {"z": ("1",)}


class Pair(NamedTuple):
    """Two numbers."""

    first: int
    second: int


Pair.second.__doc__ = "The larger one."


def test_a_named_tuples_field_is_shown_only_if_it_says_something():
    skipped = [
        docstrings.is_alias(None, "attribute", name, getattr(Pair, name), False, {})
        for name in Pair._fields
    ]
    assert skipped == [True, None]
