"""Every term of the glossary is complete, and every link to one arrives."""

import re

import nbformat
import pytest
from loading import ROOT, load

tool = load("tools/link_glossary.py")
PAGE = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
ENTRY = re.compile(
    r"### (?P<term>.+)\n\n"
    r'<span lang="ko">(?P<korean>[^<]*[\uac00-\ud7a3][^<]*)</span> · '
    r'<span lang="zh-Hans">(?P<chinese>[^<]*[\u4e00-\u9fff][^<]*|Transformer)</span>'
    r"\n\n"
    r"(?P<sentence>[^.!?\n]+(?:\.\d[^.!?\n]*)*\.)\n\n"
    r"Paper: (?:[1-7](?:\.[1-5]){0,2}|Attention Visualizations|not in the paper) · "
    r"Chapter: \[.+\]\(\.\./notebooks/\w+\.ipynb\)\n"
)
TERMS = re.findall(r"^### (.+)$", PAGE, re.M)


def test_every_term_has_translations_a_sentence_a_section_and_a_chapter():
    complete = {entry["term"] for entry in ENTRY.finditer(PAGE)}
    assert [term for term in TERMS if term not in complete] == []
    assert len(TERMS) >= 60


@pytest.mark.parametrize("field", ["term", "korean", "chinese"])
def test_no_name_stands_for_two_terms(field):
    names = [entry[field] for entry in ENTRY.finditer(PAGE)]
    assert {name for name in names if names.count(name) > 1} == set()


def test_index_and_links_to_chapters_are_current():
    assert tool.render(PAGE) == PAGE, "run: python book/tools/link_glossary.py"
    with pytest.raises(ValueError, match="no chapter '9 Nothing'"):
        tool.render("Paper: 4 · Chapter: 9 Nothing")


def test_every_link_to_a_term_arrives():
    texts = {
        path.name: path.read_text("utf-8") for path in (ROOT / "book").glob("*.md")
    }
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = nbformat.read(path, as_version=4).cells
        texts[path.name] = "\n".join(cell.source for cell in cells)
    headings = re.findall(r"^#{1,3} (.+)$", PAGE, re.M)
    anchors = set(map(tool.anchor, headings))
    link = re.compile(r"\]\((?:\.\./book/)?glossary\.md#([^)\s]+)\)")
    found = {(name, target) for name in texts for target in link.findall(texts[name])}
    found |= {("index", target) for target in re.findall(r"\]\(#([^)\s]+)\)", PAGE)}
    assert {(name, target) for name, target in found if target not in anchors} == set()
    assert len(found) >= 100
