"""Bring what book/glossary.md says of itself and of the chapters up to date.

The glossary names each chapter by its title, which becomes a link. The index by letter
is made from the headings of the terms. ``make notebooks`` runs it, and
tests/lint.py compares the page with it.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator
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
ENTRY = re.compile(
    r"(?P<name>.+)\n\n"
    r'<span lang="ko">(?P<korean>[^<]*[\uac00-\ud7a3][^<]*|ReLU|Adam)</span> · '
    r'<span lang="zh-Hans">(?P<chinese>[^<]*[\u4e00-\u9fff][^<]*|Transformer|softmax'
    r"|Adam|FlashAttention|BLEU)</span>"
    r"\n\n(?P<sentence>[^.!?\n]+(?:\.\d[^.!?\n]*)*\.)\n\n"
    r"Paper: (?:[1-7](?:\.[1-5]){0,2}|Attention Visualizations|not in the paper) · "
    r"Chapter: \[.+\]\(\.\./notebooks/\w+\.ipynb\)\n"
)


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


def faults(page: str) -> Iterator[str]:
    """Yield the terms that are incomplete or stand for two, and whether it is old."""
    terms = page.split("\n### ")[1:]
    for name in (term.splitlines()[0] for term in terms if not ENTRY.match(term)):
        yield f"{name}: add Korean, Chinese, one sentence, section or chapter"
    for field in ("name", "korean", "chinese"):
        names = Counter(entry[field] for entry in map(ENTRY.match, terms) if entry)
        yield from (f"{name} names two terms" for name, n in names.items() if n > 1)
    if render(page) != page:
        yield "run python book/tools/link_glossary.py"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
