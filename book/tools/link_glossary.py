"""Bring the chapter links of book/glossary.md up to date.

The glossary names each chapter by its title. A chapter that is written becomes a link;
one that is planned says so. ``make notebooks`` runs it after a chapter was added, and
tests/test_glossary.py compares the page with it.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import make_map

PAGE = make_map.ROOT / "book" / "glossary.md"
CHAPTER = re.compile(
    r"(?<= · Chapter: )(?:\[([^\]]+)\]\([^)]+\)|(.+) \(planned\))$", re.M
)


def render(page: str) -> str:
    """The page with a link to every chapter that is written.

    Raises:
        ValueError: There is no chapter of that title, written or planned.
    """
    return CHAPTER.sub(lambda match: chapter(match[1] or match[2]), page)


def chapter(title: str) -> str:
    """A chapter's title, as a link if it is written."""
    stems = {name: stem for stem, name in make_map.chapter_titles().items()}
    if title not in stems:
        raise ValueError(f"book/glossary.md: there is no chapter {title!r}")
    notebook = make_map.NOTEBOOKS / f"{stems[title]}.ipynb"
    if not notebook.exists():
        return f"{title} (planned)"
    return f"[{title}](../notebooks/{notebook.name})"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
