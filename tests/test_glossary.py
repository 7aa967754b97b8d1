"""Every term of the glossary is complete, and every link to one arrives."""

import importlib.util
import re
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "book" / "tools"
PAGE = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES = sorted((ROOT / "book").glob("*.md"))

# The sections of the paper, from its table of contents.
SECTIONS = {
    *("1", "2", "3", "3.1", "3.2", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5"),
    *("4", "5", "5.1", "5.2", "5.3", "5.4", "6", "6.1", "6.2", "6.3", "7"),
    "Attention Visualizations",
}
ENTRY = re.compile(
    r"### (.+)\n\n"
    r'<span lang="ko">([^<]+)</span> · <span lang="zh-Hans">([^<]+)</span>\n\n'
    r"(.+)\n\n"
    r"Paper: (.+) · Chapter: (.+)\n"
)


class Entry(NamedTuple):
    """One term as the page gives it."""

    term: str
    korean: str
    chinese: str
    sentence: str
    section: str
    chapter: str


def entries():
    return [Entry(*match.groups()) for match in ENTRY.finditer(PAGE)]


ENTRIES = entries()
every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.term)


def load_tool():
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location(
            "book_tools_link_glossary", TOOLS / "link_glossary.py"
        )
        tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tool)
    finally:
        sys.path.remove(str(TOOLS))
    return tool


tool = load_tool()


def anchors():
    """The anchors of all headings of the page."""
    return {tool.anchor(text) for text in re.findall(r"^#{1,3} (.+)$", PAGE, re.M)}


def links(text):
    """The anchors of the glossary to which a text links."""
    return re.findall(r"\]\((?:\.\./book/)?glossary\.md#([^)\s]+)\)", text)


def test_every_heading_of_a_term_begins_a_complete_entry():
    headings = re.findall(r"^### (.+)$", PAGE, re.M)
    assert [entry.term for entry in ENTRIES] == headings
    assert len(headings) >= 60


def test_no_term_occurs_twice():
    terms = [tool.anchor(entry.term) for entry in ENTRIES]
    assert sorted(terms) == sorted(set(terms))


@pytest.mark.parametrize("language", ["korean", "chinese"])
def test_no_translation_stands_for_two_terms(language):
    words = [getattr(entry, language) for entry in ENTRIES]
    assert sorted(words) == sorted(set(words))


@every_entry
def test_term_has_its_two_translations(entry):
    hangul, han = re.compile("[\uac00-\ud7a3]"), re.compile("[\u4e00-\u9fff]")
    assert hangul.search(entry.korean)
    assert han.search(entry.chinese) or entry.chinese == "Transformer"
    assert not hangul.search(entry.chinese)


@every_entry
def test_explanation_is_one_sentence(entry):
    assert re.fullmatch(r"[^.!?]+(?:\.\d[^.!?]*)*\.", entry.sentence)
    assert len(entry.sentence.split()) <= 30


@every_entry
def test_section_exists_in_the_paper(entry):
    assert entry.section in SECTIONS | {"not in the paper"}


@every_entry
def test_chapter_is_one_of_the_book(entry):
    title = re.sub(r"^\[(.+)\]\(.+\)$", r"\1", entry.chapter)
    assert title in tool.make_map.chapter_titles().values()


def test_chapters_are_links():
    assert tool.render(PAGE) == PAGE, (
        "run: make notebooks (book/tools/link_glossary.py)"
    )


def test_index_leads_to_every_term_under_its_letter():
    found = re.findall(r"^\*\*(.)\*\* (.+)$", PAGE, re.M)
    terms = {
        letter: re.findall(r"\[([^\]]+)\]\(#([^)]+)\)", line) for letter, line in found
    }
    names = [name for line in terms.values() for name, _ in line]
    assert sorted(names) == sorted(entry.term for entry in ENTRIES)
    assert names == sorted(names, key=str.casefold)
    assert all(target in anchors() for line in terms.values() for _, target in line)
    assert all(
        name.upper().startswith(letter)
        for letter, line in terms.items()
        for name, _ in line
    )


def test_unknown_chapter_is_refused():
    with pytest.raises(ValueError, match="no chapter '9 Nothing'"):
        tool.render("Paper: 4 · Chapter: 9 Nothing")


@pytest.mark.parametrize("path", NOTEBOOKS + PAGES, ids=lambda path: path.name)
def test_every_link_to_a_term_arrives(path):
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = nbformat.reads(text, as_version=4).cells
        text = "\n".join(cell.source for cell in cells)
    assert set(links(text)) <= anchors()


def test_a_link_to_a_missing_term_is_seen():
    found = links("see [it](../book/glossary.md#no-such-term)")
    assert found == ["no-such-term"]
    assert not set(found) <= anchors()
