"""Fill in what a page says about chapters, from the chapters themselves.

{reading-time}`row` gives the reading time of all chapters linked in the same row of a
table, {exercises}`row` the titles of their exercises. `section` and `page` do the same
for a section or a page.
"""

import re
import sys
from pathlib import Path

import nbformat
from docutils import nodes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import notebooks

# Does not break at the end of a line.
SPACE = "\N{NO-BREAK SPACE}"
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
        place.replace_self(nodes.Text(as_time(total)))
    for place in list(doctree.findall(Exercises)):
        titles = [title for stem in linked(place) for title in exercises(stem)]
        place.replace_self(nodes.Text(f"{SPACE}· ".join(titles)))


def linked(place):
    """Return the stems of the chapters that the place's range links to, each once."""
    around = place.parent
    while not isinstance(around, RANGES[place.astext()]):
        around = around.parent
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


def as_time(total):
    """Return minutes as words, from two hours on in full hours."""
    number, unit = (total, "minutes") if total < 120 else (total / 60, "hours")
    return f"{number:.0f}{SPACE}{unit}"


def setup(app):
    app.add_generic_role("reading-time", ReadingTime)
    app.add_generic_role("exercises", Exercises)
    app.connect("doctree-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
