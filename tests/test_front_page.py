"""The front page: the drawing of the model, the cards of the chapters, the hours."""

import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from docutils import nodes
from docutils.utils import new_document
from loading import ROOT, load

from transformer_lite import Translator

PAGE = (ROOT / "book" / "intro.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "book" / "how_to_read.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")

front_page = load("_ext/front_page.py")
draw_model, make_map = front_page.draw_model, front_page.make_map
WRITTEN = sorted(path.stem for path in make_map.NOTEBOOKS.glob("*.ipynb"))


def links():
    """The links of the drawing, which are its boxes."""
    return ElementTree.fromstring(draw_model.render()).findall(".//{*}a")


def test_drawing_is_what_the_chapters_say():
    stored = draw_model.DRAWING.read_text(encoding="utf-8")
    assert stored == draw_model.render(), (
        "run: make notebooks (book/tools/draw_model.py)"
    )


def test_every_link_of_the_drawing_leads_to_a_chapter_that_is_written():
    addresses = {link.get("href") for link in links()}
    pages = {f"../notebooks/{stem}.html" for stem in WRITTEN}
    assert addresses <= pages
    assert {f"../notebooks/{name}.html" for name in WRITTEN if "03_" in name} <= (
        addresses
    )


def test_boxes_lie_in_the_drawing_and_hold_their_words():
    for box in links():
        rect = box.find("{*}rect")
        x, y, width, height = (int(rect.get(n)) for n in ("x", "y", "width", "height"))
        assert x >= 0
        assert y >= 0
        assert x + width <= draw_model.WIDTH
        assert y + height <= draw_model.HEIGHT
        # At 14 px a letter of Helvetica is 7 px wide, a little less on average.
        letters = sum(len(text.text) for text in box.findall("{*}text"))
        assert 7 * letters <= width


def entry(title, text):
    paragraph = nodes.paragraph()
    paragraph += [nodes.reference("", title), nodes.Text(f": {text}")]
    return nodes.list_item("", paragraph)


def arranged(*items):
    document = new_document("page")
    section = nodes.section("", ids=["the-chapters"])
    section += nodes.bullet_list("", *items)
    document += [nodes.image(uri="_static/model.svg"), section]
    config = SimpleNamespace(root_doc="book/intro")
    app = SimpleNamespace(config=config, env=SimpleNamespace(docname="book/intro"))
    front_page.arrange(app, document)
    return document


def test_the_picture_becomes_the_drawing():
    first = arranged().children[0]
    assert isinstance(first, nodes.raw)
    assert first.astext() == draw_model.render()


def test_an_entry_of_the_list_becomes_a_card():
    title = "3.5 Positional Encoding"
    page = arranged(entry(title, "what: came."))
    card = next(page.findall(nodes.list_item))
    head, text, time = (part.astext() for part in card.children)
    assert card["classes"] == ["chapter-card"]
    assert (head, text) == (title, "What: came.")
    assert list(card.findall(nodes.reference))
    assert re.fullmatch(r"\d+\sminutes", time)


def test_the_hours_it_takes_are_those_of_the_chapters():
    minutes = [front_page.chapter_facts.minutes(stem) for stem in WRITTEN]
    hours = int(re.search(r"about\s(\d+)\s+hours", README)[1])
    assert abs(sum(minutes) / 60 - hours) <= 1


def test_the_course_has_every_chapter_once_in_the_books_order():
    contents = (ROOT / "book" / "_toc.yml").read_text(encoding="utf-8")
    course = GUIDE.partition("## A course of ten weeks\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \|.+?notebooks/(\w+)\.ipynb", course, re.M)
    weeks, chapters = zip(*rows, strict=True)
    assert list(chapters) == re.findall(r"file: notebooks/(\w+)", contents)
    assert list(dict.fromkeys(weeks)) == [str(week) for week in range(1, 11)]


@pytest.mark.parametrize("name", ["multi30k_en_de", "tatoeba_en_de_wide"])
def test_models_of_the_package_give_the_translations_that_are_shown(name):
    table = PAGE.partition(f"| You write | `{name}` translates |\n")[2]
    rows = re.findall(
        r"^\| ([^|]+\.) \| ([^|]+\.) \|$", table.partition("\n\n")[0], re.M
    )
    shown = re.search(rf'echo "(.+)" \| .+translate {name}\n# (.+)\n', README)
    sources, translations = zip(*rows, shown.groups(), strict=True)
    assert len(sources) == 3
    model = Translator.load(name)
    assert model.translate(sources) == list(translations)
