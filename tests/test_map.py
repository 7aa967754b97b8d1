"""The way from the paper to the code and back is complete."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def load_tool(name):
    path = ROOT / "book" / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"book_tools_{name}", path)
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    return tool


make_map = load_tool("make_map")
MODULES = make_map.module_names()
WRITTEN = {path.stem for path in make_map.NOTEBOOKS.glob("*.ipynb")}


def test_there_are_modules_and_chapters_to_check():
    assert {"model", "training.step"} <= set(MODULES)
    assert len(WRITTEN) == 21


@pytest.mark.parametrize("name", MODULES)
def test_module_names_its_section_of_the_paper(name):
    assert re.search(r"§\d|Table \d|Fig|–", make_map.read_module(name).paper)


@pytest.mark.parametrize("name", MODULES)
def test_tests_named_by_a_module_exist(name):
    tests = make_map.read_module(name).tests
    missing = [path for path in tests if not (ROOT / path).is_file()]
    assert not missing


@pytest.mark.parametrize("name", MODULES)
def test_chapters_named_by_a_module_are_written(name):
    chapters = set(make_map.read_module(name).chapters)
    assert chapters <= WRITTEN


def test_every_notebook_is_named_by_a_module():
    named = {stem for name in MODULES for stem in make_map.read_module(name).chapters}
    assert named >= WRITTEN


def test_map_is_what_the_modules_say():
    page = make_map.PAGE.read_text(encoding="utf-8")
    assert page == make_map.render(), "run: make notebooks (or book/tools/make_map.py)"


def test_front_page_links_every_written_chapter():
    front = (ROOT / "book" / "intro.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\.\./notebooks/(\w+)\.ipynb", front)) == WRITTEN


def test_table_of_contents_holds_every_written_chapter():
    contents = (ROOT / "book" / "_toc.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"file: notebooks/(\w+)", contents)) == WRITTEN


def test_api_reference_documents_every_module():
    page = (ROOT / "book" / "api.md").read_text(encoding="utf-8")
    documented = re.findall(r"automodule:: transformer_lite\.([\w.]+)", page)
    assert sorted(documented) == MODULES
