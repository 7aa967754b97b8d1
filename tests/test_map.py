"""The way from the paper to the code and back is complete."""

import re

from loading import ROOT, load

make_map = load("tools/make_map.py")
MODULES = {name: make_map.read_module(name) for name in make_map.module_names()}
WRITTEN = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def test_a_module_names_a_section_of_the_paper_chapters_and_tests_that_exist():
    assert {"transformer_lite.model", "transformer_lite_course.parts"} <= set(MODULES)
    wrong = {
        (name, part)
        for name, module in MODULES.items()
        for part, is_right in (
            (module.paper, bool(re.search(r"§\d|Table \d|Fig|–", module.paper))),
            *((path, (ROOT / path).is_file()) for path in module.tests),
            *((chapter, chapter in WRITTEN) for chapter in module.chapters),
        )
        if not is_right
    }
    assert not wrong


def test_every_chapter_is_named_by_a_module():
    assert WRITTEN <= {chapter for m in MODULES.values() for chapter in m.chapters}


def test_map_is_what_the_modules_say():
    assert text("book/map.md") == make_map.render(), "run: book/tools/make_map.py"


def test_front_page_and_table_of_contents_hold_every_chapter():
    linked = re.findall(r"\.\./notebooks/(\w+)\.ipynb", text("book/intro.md"))
    assert set(linked) == WRITTEN
    assert set(re.findall(r"file: notebooks/(\w+)", text("book/_toc.yml"))) == WRITTEN


def test_api_reference_documents_every_module():
    pattern = r"automodule:: ([\w.]+)"
    assert sorted(re.findall(pattern, text("book/api.md"))) == sorted(MODULES)
