"""Fill in what a page says about chapters, from the chapters themselves.

{reading-time}`row` gives the reading time of all chapters linked in the same row of a
table, {exercises}`row` the titles of their exercises. `section` and `page` do the same
for a section or a page. The front page, in plain Markdown a picture and a list, gets
the drawing of the model with its links, and a card for each chapter.
"""

import re
import sys
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.locale import _

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import make_map
import translations

import notebooks

# Does not break at the end of a line.
SPACE = "\N{NO-BREAK SPACE}"
DRAWING = make_map.ROOT / "book" / "_static" / "model.svg"
RANGES = {"row": nodes.row, "section": nodes.section, "page": nodes.document}
EXERCISE = re.compile(r"\*\*Exercise (\d+)[^.]*\. (.+?)\.?\*\*")


class ReadingTime(nodes.inline):
    """Where the time stands that the chapters of a range take."""


class Exercises(nodes.inline):
    """Where the exercises stand of the chapters of a range."""


def fill(app, doctree):
    """Replace each place by what it asks for."""
    for place in list(doctree.findall(ReadingTime)):
        total = sum(minutes(stem) for stem in linked(place))
        place.replace_self(nodes.Text(as_time(app.env, total)))
    for place in list(doctree.findall(Exercises)):
        titles = [title for stem in linked(place) for title in exercises(stem)]
        place.replace_self(nodes.Text(f"{SPACE}· ".join(titles)))


def linked(place):
    """Return the stems of the chapters that the place's range links to, each once."""
    around = place.parent
    while not isinstance(around, RANGES[place.astext()]):
        around = around.parent
    return linked_in(around)


def linked_in(around):
    """Return the stems of the chapters that a part of a page links to, each once."""
    targets = [
        link.get("reftarget") or link.get("refuri", "")
        for link in around.findall(nodes.Element)
    ]
    found = re.findall(r"notebooks/(\w+)(?:\.ipynb)?$", "\n".join(targets), re.M)
    return list(dict.fromkeys(found))


def read(stem):
    """Return a chapter's notebook."""
    return nbformat.read(notebooks.NOTEBOOKS / f"{stem}.ipynb", as_version=4)


def minutes(stem):
    """Return how long a chapter takes to read."""
    return notebooks.reading_minutes(read(stem))


def exercises(stem):
    """Return the numbers and titles of a chapter's exercises."""
    cells = [cell.source for cell in read(stem).cells if cell.cell_type == "markdown"]
    return [SPACE.join(found) for found in sorted(EXERCISE.findall("\n".join(cells)))]


def as_time(env, total):
    """Return minutes as the page says them, from two hours on in full hours."""
    is_english = env.metadata[env.docname].get("lacks") == translations.NOT_YET
    number, unit = (total, "%s minutes")
    if total >= 120:
        number, unit = (round(total / 60), "%s hours")
    return ((unit if is_english else _(unit)) % number).replace(" ", SPACE)


def arrange_front_page(app, doctree):
    """Replace the picture by the drawing itself, and make cards of the chapters."""
    if app.env.docname != app.config.root_doc:
        return
    for image in list(doctree.findall(nodes.image)):
        if image["uri"].endswith("model.svg"):
            drawing = DRAWING.read_text(encoding="utf-8")
            image.replace_self(nodes.raw("", drawing, format="html"))
    for section in doctree.findall(nodes.section):
        if "the-chapters" in section["ids"]:
            for chapters in section.findall(nodes.bullet_list):
                chapters["classes"].append("chapter-cards")
                for item in chapters.children:
                    make_card(app.env, item)


def make_card(env, item):
    """Split an entry of the list into title and text, and say how long it takes."""
    (stem,) = linked_in(item)
    paragraph = item.children[0]
    link, text = paragraph.children[0], paragraph.astext()
    _title, _colon, rest = text.partition(":")
    rest = re.sub(r"^\w", lambda first: first[0].upper(), rest.strip())
    item["classes"].append("chapter-card")
    item.children.clear()
    item += nodes.paragraph("", "", link, classes=["card-title"])
    item += nodes.paragraph("", rest)
    time = as_time(env, minutes(stem))
    item += nodes.paragraph("", time, classes=["card-time"])


def setup(app):
    app.add_generic_role("reading-time", ReadingTime)
    app.add_generic_role("exercises", Exercises)
    app.connect("doctree-read", fill)
    # Before the picture is collected, which nothing then shows.
    app.connect("doctree-read", arrange_front_page, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
