"""What the book's tools make of the chapters."""

import os
import re
import sys
import tomllib

import nbformat
import pytest
import yaml
from loading import ROOT, load

tool = load("tools/notebooks.py")
limits = load("tools/limits.py")
glossary = load("tools/link_glossary.py")


def test_setup_cell_names_the_repository_and_every_dependency_but_torch_and_ipython():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = project["dependencies"] + project["optional-dependencies"]["book"]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in needed}
    assert set(tool.setup_dependencies()) == names - {"torch", "ipython"}
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    assert f'"{config["repository"]["url"]}"' in tool.setup_source()


@pytest.mark.parametrize("is_there", [True, False])
def test_setup_cell_installs_the_package_where_it_is_missing(monkeypatch, is_there):
    started = []
    monkeypatch.setattr("subprocess.run", lambda command, **_: started.append(command))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: is_there or None)
    monkeypatch.setenv("TRANSFORMER_LITE_GIT", "file:///elsewhere")
    exec(tool.setup_source(), {})
    assert bool(started) is not is_there
    if started:
        package, others = started
        assert package[-2:] == ["--no-deps", "git+file:///elsewhere"]
        assert others[-2:] == tool.setup_dependencies()[-2:]


def test_setup_cell_takes_the_package_of_the_clone_it_lies_in(monkeypatch):
    monkeypatch.setattr("subprocess.run", None)  # nothing is installed
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.chdir(ROOT / "notebooks")
    exec(tool.setup_source(), {})
    assert [os.environ["PYTHONPATH"]] == sys.path == [str(ROOT)]


def cell_of(kind, source, tags=(), outputs=()):
    made = getattr(nbformat.v4, f"new_{kind}_cell")(source)
    made.metadata["tags"] = list(tags)
    if kind == "code":
        made.outputs = list(outputs)
    return made


def test_reading_time_counts_words_lines_and_figures_of_the_story():
    def shows(**data):
        return nbformat.v4.new_output("display_data", data)

    picture = cell_of(
        "code", "draw()", ["hide-input"], [shows(**{"image/png": "AAAA"})]
    )
    picture.metadata["mystnb"] = {"figure": {"caption": "two words"}}
    block = {"text/markdown": "```python\na\nb\n```"}
    source = cell_of("code", "show()", ["remove-input"], [shows(**block)])
    head = "# Title\n\n[Open in Colab](x) · never counted"
    cells = [
        cell_of("markdown", f"{head}\n\none [two](address) $a + b$"),  # 4 words
        picture,  # 2 words, a figure
        cell_of("code", "a\nb\nc"),  # 3 open lines
        source,  # 2 lines
        cell_of("code", "hidden()", ["hide-cell"]),
    ]
    evidence = [cell_of("markdown", "## Evidence\n\nmore"), cell_of("code", "d")]
    notebook = nbformat.v4.new_notebook(cells=cells + evidence)
    story, rest = limits.parts(notebook)
    assert (len(story), len(rest)) == (5, 2)
    assert limits.measure(story) == limits.Size(6, 1, 3, 3, 2, 1)
    assert limits.Size(150, 1, 10, 10, 20, 4).minutes == 1 + 5.5 + 5 + 0.5
    assert limits.Size(75, 1, 10, 10, 20, 4).minutes == 0.5 + 5.5 + 5
    assert tool.reading_minutes(notebook) == limits.measure(story).minutes


def test_the_glossary_names_only_chapters_that_there_are():
    with pytest.raises(ValueError, match="no chapter '9 Nothing'"):
        glossary.render("Paper: 4 · Chapter: 9 Nothing")
