"""Write book/map.md: from every module to its section, chapter and tests, and back.

What it says comes from the last lines of each module's docstring (``Paper:``,
``Chapter:``, ``Tests:``) and from the layers in pyproject.toml.
``make notebooks`` runs it, and tests/lint.py compares the page with it.
"""

import ast
import json
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "transformer_lite"
BUILDINGS = (PACKAGE, "transformer_lite_course", "transformer_lite_book")
NOTEBOOKS = ROOT / "notebooks"
PAGE = ROOT / "book" / "map.md"

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LAYERS: list[str] = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
"""From the top down; modules and folders of one layer are parted by bars."""
REPOSITORY: str = PROJECT["project"]["urls"]["Repository"]


class ModuleEntry(NamedTuple):
    """What a module's docstring says about it."""

    name: str
    summary: str
    paper: str
    chapters: list[str]
    tests: list[str]


def module_names() -> list[str]:
    """Return the names of all modules of the three packages.

    The files that the course gives to readers are none of the book's.
    """
    paths = (path for name in BUILDINGS for path in (ROOT / name).rglob("*.py"))
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in paths
        if not path.stem.startswith("__") and path.parent.name != "my_transformer"
    )


def module_path(name: str) -> Path:
    """Return where a module lies."""
    return ROOT.joinpath(*name.split(".")).with_suffix(".py")


def rooms() -> dict[str, list[str]]:
    """Return the modules that build the paper, and those of each folder, from below."""
    names = module_names()
    found: dict[str, list[str]] = {PACKAGE: []}
    for layer in reversed(LAYERS):
        for entry in layer.split(" | "):
            room = f"{PACKAGE}.{entry}"
            if room in names:
                found[PACKAGE].append(room)
            else:
                found[room] = [name for name in names if name.startswith(f"{room}.")]
    for building in BUILDINGS[1:]:
        found[building] = [name for name in names if name.startswith(f"{building}.")]
    return found


def short_name(name: str) -> str:
    """Return a module's name without `transformer_lite.` before it."""
    return name.removeprefix(f"{PACKAGE}.")


def read_module(name: str) -> ModuleEntry:
    """Return the map's entry of one module.

    Raises:
        ValueError: One of the three lines is missing.
    """
    source = module_path(name).read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(source)) or ""
    fields = {}
    for field in ("Paper", "Chapter", "Tests"):
        prefix = f"{field}: "
        found = [line for line in docstring.splitlines() if line.startswith(prefix)]
        if len(found) != 1:
            raise ValueError(
                f"{name}: its docstring has {len(found)} lines "
                f"{prefix!r}; it needs exactly one"
            )
        fields[field] = found[0].removeprefix(prefix)
    return ModuleEntry(
        name=name,
        summary=docstring.splitlines()[0],
        paper=fields["Paper"],
        chapters=fields["Chapter"].split(", "),
        tests=fields["Tests"].split(", "),
    )


@cache
def chapter_titles() -> dict[str, str]:
    """Return the title of every chapter by its notebook's stem."""
    return {
        path.stem: notebook_title(path) for path in sorted(NOTEBOOKS.glob("*.ipynb"))
    }


def notebook_title(path: Path) -> str:
    """Return the first heading of a notebook.

    Raises:
        ValueError: The notebook has none.
    """
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        first_line = "".join(cell["source"]).partition("\n")[0]
        if cell["cell_type"] == "markdown" and first_line.startswith("# "):
            return first_line.removeprefix("# ").strip()
    raise ValueError(f"notebooks/{path.name}: no cell begins with a heading '# …'")


def chapter_link(stem: str, *, is_short: bool = False) -> str:
    """Return Markdown that links a chapter, if short by its number where it has one."""
    title = chapter_titles().get(stem, stem)
    if is_short and title[0].isdigit():
        title = title.partition(" ")[0]
    return f"[{title}](../notebooks/{stem}.ipynb)"


def module_link(name: str) -> str:
    """Return Markdown that links a module to its page of the API reference."""
    return f"{{py:mod}}`{short_name(name)} <{name}>`"


def source_link(name: str) -> str:
    """Return Markdown that links a module's file in the repository."""
    path = module_path(name).relative_to(ROOT)
    return f"[{short_name(name)}]({REPOSITORY}/blob/main/{path})"


def test_link(path: str) -> str:
    """Return Markdown that links a test file in the repository."""
    return f"[{Path(path).stem}]({REPOSITORY}/blob/main/{path})"


def row(entry: ModuleEntry) -> str:
    """Return a module's line in the table."""
    chapters = ", ".join(chapter_link(stem, is_short=True) for stem in entry.chapters)
    return (
        f"| {module_link(entry.name)} | {entry.summary} | {entry.paper} | {chapters} "
        f"| {', '.join(map(test_link, entry.tests))} |"
    )


HEAD = """\
| Module | What it is | Paper | Chapters | Tests |
|---|---|---|---|---|"""


def render() -> str:
    """Return the whole text of book/map.md."""
    entries = {name: read_module(name) for names in rooms().values() for name in names}
    layers = "\n".join(
        f"| {number} | {layer.replace(' | ', ', ')} |"
        for number, layer in enumerate(reversed(LAYERS))
    )
    modules = "\n\n".join(
        f"### {room.replace('.', '/')}/\n\n{HEAD}\n"
        + "\n".join(row(entries[name]) for name in names)
        for room, names in rooms().items()
    )
    chapters = "\n".join(
        f"| {chapter_link(stem)} "
        f"| {', '.join(module_link(name) for name in names) or '–'} |"
        for stem in chapter_titles()
        for names in [[e.name for e in entries.values() if stem in e.chapters]]
    )
    return TEMPLATE.format(layers=layers, modules=modules, chapters=chapters)


TEMPLATE = """\
<!-- Generated by book/tools/make_map.py from the modules' docstrings: edit those. -->

# Map

Every module names the section of the paper that it builds, the chapter that explains it
and the tests that hold it to both. This page is made of those names, and a test follows
each of them. Chapters stand in the order of the book, where Section 3, the whole model,
comes after its parts.

## From the paper to the code

| Chapter | Modules |
|---|---|
{chapters}

## From the code to the paper

The modules that build the paper lie at the top of `transformer_lite`; what carries them
lies in folders beside them. Two packages stand on it: the course, whose parts readers
write, and what the chapters of the book draw and record.

{modules}

## What may import what

A module imports only from the layers below its own, so the package can be read from the
top of this table to its end without meeting a name that is not yet explained.

| Layer | Modules |
|---|---|
{layers}
"""


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
