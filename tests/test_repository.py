"""The repository keeps the promises that its files make to each other."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from pybtex.database import parse_file

import transformer_lite
from transformer_lite.config import load_recipe

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MODULES = sorted((ROOT / "transformer_lite").rglob("*.py"))
RECIPES = sorted((ROOT / "transformer_lite" / "recipes").glob("*.toml"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND_LINE = (ROOT / "book" / "command_line.md").read_text(encoding="utf-8")
FOLDERS = (
    "transformer_lite tests book notebooks results benchmarks examples .github .ci"
)
TEXT_SUFFIXES = {
    *(".py", ".md", ".toml", ".yml", ".txt", ".cff", ".css", ".json"),
    *(".bib", ".js", ".html", ""),
}
# Written with a class so that this line does not find itself.
FORBIDDEN = re.compile(
    r"[/](?:home|root|Users|opt|mnt|tmp|work)/\w|T[O]DO|F[I]XME|X[X]X"
)

every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)


def pinned():
    """Version of each requirement of requirements.txt by its normalized name."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    lines = [line.partition("#")[0].strip() for line in lines]
    pins = [re.fullmatch(r"([\w.-]+)==([\w.]+)", line) for line in lines if line]
    assert all(pins), "requirements.txt pins exactly, one package a line"
    return {canonicalize_name(pin[1]): pin[2] for pin in pins}


def ranges():
    """Every requirement of pyproject.toml, all extras included."""
    project = PROJECT["project"]
    texts = sum(project["optional-dependencies"].values(), project["dependencies"])
    return [Requirement(text) for text in texts]


# The tests use a stand-in for it: it is large, and needs a network to be of use.
NOT_PINNED = {"datasets"}


@pytest.mark.parametrize(
    "requirement",
    [item for item in ranges() if item.name not in NOT_PINNED],
    ids=lambda item: item.name,
)
def test_pin_lies_in_the_range(requirement):
    version = pinned()[canonicalize_name(requirement.name)]
    assert version in requirement.specifier


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("torch", "2.11.0"),
        ("numpy", "2.1.3"),
        ("matplotlib", "3.10.0"),
        ("seaborn", "0.13.2"),
        ("sentencepiece", "0.2.2"),
        ("ipython", "7.34.0"),
    ],
)
def test_colab_has_a_version_that_the_package_accepts(name, version):
    accepted = {item.name: item.specifier for item in ranges()}
    assert version in accepted[name]


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_python_version_is_accepted(version):
    assert version in SpecifierSet(PROJECT["project"]["requires-python"])


def public_definitions(path):
    """Public functions, classes and methods of a module, with their dotted names."""

    def walk(node, prefix):
        for child in node.body:
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                is_overload = "overload" in map(ast.unparse, child.decorator_list)
                if not child.name.startswith("_") and not is_overload:
                    yield f"{prefix}{child.name}", child
                    if isinstance(child, ast.ClassDef):
                        yield from walk(child, f"{prefix}{child.name}.")

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), "")


def test_there_are_modules_definitions_and_recipes_to_check():
    assert len(MODULES) >= 30
    assert sum(len(list(public_definitions(path))) for path in MODULES) >= 50
    assert len(RECIPES) >= 2


@every_module
def test_public_definitions_have_docstrings(path):
    without = [
        name for name, node in public_definitions(path) if not ast.get_docstring(node)
    ]
    assert not without


@every_module
def test_first_lines_of_docstrings_are_short(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    definitions = [("module", tree), *public_definitions(path)]
    first_lines = {
        name: (ast.get_docstring(node) or "").partition("\n")[0]
        for name, node in definitions
    }
    assert not {name for name, line in first_lines.items() if len(line) > 80}


@every_module
def test_module_has_at_most_400_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@every_module
def test_functions_have_at_most_50_lines_besides_their_docstrings(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    lengths = {node.name: lines_of_code(node) for node in functions}
    assert not {name: length for name, length in lengths.items() if length > 50}


def lines_of_code(function):
    """Lines from a function's `def` to its end, its docstring not counted."""
    total = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function):
        docstring = function.body[0]
        total -= docstring.end_lineno - docstring.lineno + 1
    return total


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_recipe_is_a_configuration(path):
    load_recipe(path)


def test_readme_names_only_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, re.M))
    named = set(re.findall(r"^(?:\$ )?make ([a-z]+)", README, re.M))
    named |= set(re.findall(r"`make ([a-z]+)", README))
    assert {"test", "book"} <= named <= targets


@pytest.mark.parametrize("page", [README, COMMAND_LINE], ids=["README", "page"])
def test_only_verbs_of_the_command_line_are_named(page):
    named = set(re.findall(r"^(?:\$ )?transformer-lite ([a-z]+)", page, re.M))
    shown = subprocess.run(
        [sys.executable, "-m", "transformer_lite", "--help"],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    ).stdout
    assert len(named) >= 4
    assert not {verb for verb in named if not re.search(rf"\b{verb}\b", shown)}


def test_readme_names_only_files_that_exist():
    named = set(re.findall(r"[\w./-]*recipes/[\w./-]+\.toml", README))
    named |= set(re.findall(r"\]\((?!https?:|#)([^)#]+)", README))
    named |= set(re.findall(r"src=\"(?!https?:)([^\"]+)\"", README))
    assert len(named) >= 3
    assert not {name for name in named if not (ROOT / name).exists()}


def test_readme_leads_only_to_pages_that_github_shows_well():
    pages = set(re.findall(r"\]\((?!https?:)([^)#]+\.md)", README))
    myst = re.compile(r"^:{3,}|^`{3,}\{|\{[\w:]+\}`", re.M)
    assert len(pages) >= 5
    assert myst.search((ROOT / "book" / "map.md").read_text(encoding="utf-8"))
    assert not {
        page for page in pages if myst.search((ROOT / page).read_text(encoding="utf-8"))
    }


def text_files():
    """Every text file that belongs to the repository."""
    # In a second work tree .git is a file.
    found = [path for path in ROOT.iterdir() if path.is_file() and path.stem != ".git"]
    for folder in FOLDERS.split():
        found += (path for path in (ROOT / folder).rglob("*") if path.is_file())
    return [
        path
        for path in found
        if path.suffix in TEXT_SUFFIXES and "__pycache__" not in path.parts
    ]


def test_no_file_names_a_place_of_one_machine_or_leaves_work_undone():
    files = text_files()
    hits = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in files
        for match in [FORBIDDEN.search(path.read_text(encoding="utf-8"))]
        if match
    ]
    assert len(files) >= 50
    assert not hits


# Split so that this line does not find itself.
STRANGER = re.compile(r"(?:pip|uv|pipx) [^\n`]*" + r"transformer-" + r"lite(?![-/.\w])")


def test_no_text_installs_the_package_of_somebody_else():
    assert STRANGER.search("pip install 'transformer-" + "lite[wmt14]'")
    assert not STRANGER.search("pip install git+https://x/transformer-" + "lite.git")
    hits = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in [*text_files(), *(ROOT / "notebooks").glob("*.ipynb")]
        for match in [STRANGER.search(path.read_text(encoding="utf-8"))]
        if match
    ]
    assert not hits


def test_licences_of_code_and_text_are_present():
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
    assert "CC BY 4.0" in (ROOT / "LICENSE-TEXT.md").read_text(encoding="utf-8")


def test_version_is_the_same_everywhere():
    version = PROJECT["project"]["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {version}\n" in citation
    assert f"\n## [{version}]" in changelog
    assert transformer_lite.__version__ == version


def test_the_bibliography_can_be_read():
    bibliography = parse_file(ROOT / "book" / "references.bib")
    assert "vaswani2017attention" in bibliography.entries
