"""Bring what book/glossary.md says of itself and of the chapters up to date.

The glossary names each chapter by its title, which becomes a link. The index by letter
is made from the headings of the terms. ``make notebooks`` runs it, and
tests/test_glossary.py compares the page with it.
"""

import re
import sys
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import make_map

PAGE = make_map.ROOT / "book" / "glossary.md"
CHAPTER = re.compile(r"(?<= · Chapter: )(?:\[([^\]]+)\]\([^)]+\)|(.+))$", re.M)
BEGIN = "<!-- index, made by book/tools/link_glossary.py -->"
END = "<!-- end of index -->"
INDEX = re.compile(f"(?<={BEGIN}\n).*?(?={END})", re.S)
TERM = re.compile(r"^### (.+)$", re.M)


def render(page: str) -> str:
    """Return the page with its index, and a link to every chapter.

    Raises:
        ValueError: There is no chapter of that title.
    """
    page = CHAPTER.sub(lambda match: chapter(match[1] or match[2]), page)
    return INDEX.sub(lambda _: index(TERM.findall(page)), page)


def chapter(title: str) -> str:
    """Return a chapter's title, as a link."""
    stems = {name: stem for stem, name in make_map.chapter_titles().items()}
    if title not in stems:
        raise ValueError(f"book/glossary.md: there is no chapter {title!r}")
    return f"[{title}](../notebooks/{stems[title]}.ipynb)"


def index(terms: list[str]) -> str:
    """Return a line for each letter, with a link to every term that begins with it."""
    terms = sorted(terms, key=str.casefold)
    lines = [
        f"**{letter}** " + " · ".join(f"[{term}](#{anchor(term)})" for term in group)
        for letter, group in groupby(terms, key=lambda term: term[0].upper())
    ]
    return "\n" + "\n\n".join(lines) + "\n\n"


def anchor(heading: str) -> str:
    """Return the anchor that GitHub and the book make of a heading."""
    return re.sub(r"[^\w\s-]", "", heading.lower()).replace(" ", "-")


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
