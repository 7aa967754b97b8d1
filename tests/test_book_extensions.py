"""What the book's own Sphinx extensions make of a page."""

import re
from collections import namedtuple
from types import SimpleNamespace

import nbformat
import pytest
from docutils import nodes
from docutils.utils import new_document
from loading import load

chapter_facts = load("_ext/chapter_facts.py")
chapters = load("_ext/chapters.py")
corrections = load("_ext/corrections.py")
reference = load("_ext/reference.py")
ENV = SimpleNamespace(docname="book/intro", metadata={"book/intro": {}})


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
    chapters.raise_voices(None, document)
    (admonition,) = document.children
    title, text = admonition.children
    assert isinstance(admonition, nodes.admonition)
    assert title.astext() == "Spot the bug"
    assert text.astext() == "Look here."
    assert admonition["classes"] == ["voice", "spot-the-bug"]


def test_an_admonition_keeps_what_follows_the_first_paragraph():
    below = nodes.paragraph("", "And this.")
    document = page(quotation(bold("In short."), below=[below]))
    chapters.raise_voices(None, document)
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
    chapters.raise_voices(None, document)
    assert isinstance(document.children[0], nodes.block_quote)


@pytest.mark.parametrize(
    ("behind", "kept", "rest"),
    [
        (". Then", ".", " Then"),
        ("), so", "),", " so"),
        (".", ".", ""),
        ("로 나눕니다.", "로", " 나눕니다."),
        ("，记作", "，", "记作"),
    ],
)
def test_a_formula_stays_with_the_punctuation_behind_it(behind, kept, rest):
    formula = nodes.math("", "x^2")
    paragraph = nodes.paragraph("", "", nodes.Text("Of "), formula, nodes.Text(behind))
    chapters.join_punctuation(None, page(paragraph))
    before, together, after = paragraph.children
    assert together["classes"] == ["unbroken"]
    assert together.children == [formula, kept]
    assert (before, after) == ("Of ", rest)


@pytest.mark.parametrize("behind", [[], [nodes.Text(" is")], [nodes.emphasis("", ".")]])
def test_other_formulas_stay_as_they_are(behind):
    formula = nodes.math("", "x^2")
    paragraph = nodes.paragraph("", "", formula, *behind)
    chapters.join_punctuation(None, page(paragraph))
    assert paragraph.children == [formula, *behind]


def test_setup_cell_comes_below_the_lines_under_the_title():
    setup, picture = nodes.container(ids=["setup"]), nodes.container(ids=["picture"])
    lines = [nodes.paragraph("", "Chapter 4"), nodes.paragraph("", "You need")]
    later = nodes.paragraph("", "A word often needs …")
    chapter = nodes.section("", nodes.title("", "3.2.1"), *lines, picture, later)
    app = SimpleNamespace(env=SimpleNamespace(docname="notebooks/03_2_1"))
    document = page(setup, chapter)
    chapters.begin_with_title(app, document)
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
    chapters.number_figures(None, env)
    assert numbers["a"]["figure"] == {"x": ("3.2.1-1",), "y": ("3.2.1-2",)}
    assert numbers["b"]["figure"] == {"z": ("1",)}


def row(*cells):
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", c)) for c in cells))


def chapter_link(stem):
    return nodes.reference("", stem, refuri=f"../notebooks/{stem}.ipynb")


def test_a_row_says_how_long_its_chapters_take_and_what_they_ask(monkeypatch):
    ask = [nbformat.v4.new_markdown_cell("> **Exercise 1, to think about. Why?** …")]
    notebook = nbformat.v4.new_notebook(cells=ask)
    times = {"a": 20, "b": 95}
    monkeypatch.setattr(chapter_facts, "read", lambda stem: notebook)
    monkeypatch.setattr(chapter_facts, "minutes", times.get)
    document = page(
        row(chapter_link("a"), chapter_facts.ReadingTime("", "row")),
        row(chapter_link("b"), chapter_facts.Exercises("", "row")),
        nodes.paragraph("", "", chapter_facts.ReadingTime("", "page")),
    )
    chapter_facts.fill(SimpleNamespace(env=ENV), document)
    first, second, total = (child.children[-1].astext() for child in document.children)
    assert first.split() == ["20", "minutes"]
    assert second.split() == ["1", "Why?"]
    assert total.split() == ["115", "minutes"]
    assert chapter_facts.as_time(ENV, 215).split() == ["4", "hours"]


def entry(title, text):
    paragraph = nodes.paragraph()
    link = nodes.reference(
        "", title, refuri="../notebooks/03_5_positional_encoding.ipynb"
    )
    paragraph += [link, nodes.Text(f": {text}")]
    return nodes.list_item("", paragraph)


def front_page(*items):
    document = page(nodes.image(uri="_static/model.svg"))
    section = nodes.section("", ids=["the-chapters"])
    section += nodes.bullet_list("", *items)
    document += section
    config = SimpleNamespace(root_doc="book/intro")
    app = SimpleNamespace(config=config, env=ENV)
    chapter_facts.arrange_front_page(app, document)
    return document


def test_the_picture_of_the_front_page_becomes_the_drawing():
    first = front_page().children[0]
    assert isinstance(first, nodes.raw)
    assert first.astext() == chapter_facts.DRAWING.read_text(encoding="utf-8")


def test_an_entry_of_the_front_pages_list_becomes_a_card():
    title = "3.5 위치 인코딩"  # of any edition: the link says which chapter it is
    card = next(front_page(entry(title, "what: came.")).findall(nodes.list_item))
    head, text, time = (part.astext() for part in card.children)
    assert card["classes"] == ["chapter-card"]
    assert (head, text) == (title, "What: came.")
    assert list(card.findall(nodes.reference))
    assert re.fullmatch(r"\d+\sminutes", time)


@pytest.mark.parametrize(
    ("written", "corrected"),
    [
        ('<summary aria-label="Toggle hidden content">', "<summary>"),
        ('<div id="id1" role="doc-biblioentry">', '<div id="id1" role="listitem">'),
        (
            "<dl>\n<dd><em>x</em>,</dd>\n<dd><em>y</em></dd>\n</dl>",
            '<ul class="parameters">\n<li><em>x</em>,</li>\n<li><em>y</em></li>\n</ul>',
        ),
        ('<dl class="py">\n<dd>x</dd>\n</dl>', '<dl class="py">\n<dd>x</dd>\n</dl>'),
    ],
)
def test_generated_html_is_corrected(written, corrected):
    context = {"body": written}
    corrections.correct(None, "page", "page.html", context, None)
    assert context["body"] == corrected


def test_a_named_tuples_field_is_shown_only_if_it_says_something():
    pair = namedtuple("pair", "smaller larger")
    pair.larger.__doc__ = "The larger one."
    skipped = [
        reference.is_alias(None, "attribute", name, getattr(pair, name), False, {})
        for name in pair._fields
    ]
    assert skipped == [True, None]
