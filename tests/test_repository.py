"""The repository keeps the promises that its files make to each other."""

import re
import tomllib

from loading import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import transformer_lite
from transformer_lite import cli

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMAND_LINE = (ROOT / "book" / "command_line.md").read_text(encoding="utf-8")
PACKAGES = "transformer_lite transformer_lite_course transformer_lite_book "
FOLDERS = PACKAGES + "tests book notebooks results benchmarks examples .github .ci"
TEXT = "py md toml yml txt cff css json bib js html ipynb".split()


def ranges():
    """Every requirement of pyproject.toml, all extras included."""
    extras = PROJECT["optional-dependencies"].values()
    return [Requirement(text) for text in sum(extras, PROJECT["dependencies"])]


def test_every_requirement_is_pinned_to_a_version_that_it_accepts():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if re.match(r"\w", line)]
    pins = {canonicalize_name(name): v for name, v in (x.split("==") for x in lines)}
    # The tests use a stand-in for datasets: it is large, and needs a network.
    needed = [item for item in ranges() if item.name != "datasets"]
    missing = [
        x.name for x in needed if pins[canonicalize_name(x.name)] not in x.specifier
    ]
    assert not missing


def test_the_package_accepts_what_colab_has():
    colab = {"torch": "2.11.0", "numpy": "2.1.3", "matplotlib": "3.10.0"}
    colab |= {"seaborn": "0.13.2", "sentencepiece": "0.2.2", "ipython": "7.34.0"}
    refused = [x.name for x in ranges() if colab.get(x.name, "99") not in x.specifier]
    assert not set(refused) & set(colab)


def test_readme_names_only_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.M))
    assert {"test", "book"} <= named <= set(re.findall(r"^([a-z]+):", makefile, re.M))


def test_only_verbs_of_the_command_line_are_named():
    named = re.findall(
        r"(?:^|\| )transformer-lite ([a-z-]+)", README + COMMAND_LINE, re.M
    )
    assert {"prepare", "train", "evaluate", "translate"} <= set(named)
    assert set(named) <= set(cli.find_verbs())


def test_readme_names_only_files_that_exist_and_that_github_shows_well():
    named = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", README))
    named |= set(re.findall(r"src=\"(?!https?:)([^\"]+)\"", README))
    assert len(named) >= 10
    assert not {name for name in named if not (ROOT / name).exists()}
    myst = re.compile(r"^:{3,}|^`{3,}\{|\{[\w:]+\}`", re.M)
    pages = {
        name: (ROOT / name).read_text("utf-8") for name in named if name[-3:] == ".md"
    }
    assert not {name for name in pages if myst.search(pages[name])}


# Written so that these lines do not find themselves.
PLACE = r"(?<![\w.:/])[/](?:home|root|Users|opt|mnt|tmp|work|content)/\w"
UNDONE = r"(?<![\w+/])(?:T[O]DO|F[I]XME|X[X]X)"
STRANGER = r"(?:pip|uv|pipx) [^\n`]*transformer[-]lite(?![-/.\w])"


def test_no_file_names_one_machine_or_leaves_work_undone_or_installs_a_stranger():
    files = [path for path in ROOT.iterdir() if path.is_file()]
    files += [p for folder in FOLDERS.split() for p in (ROOT / folder).rglob("*")]
    files = [
        path for path in files if path.suffix[1:] in TEXT or path.name == "Makefile"
    ]
    wrong = re.compile(f"{PLACE}|{UNDONE}|{STRANGER}")
    assert wrong.search("pip install 'transformer-" + "lite[wmt14]'")
    assert len(files) >= 50
    found = ((path, wrong.search(path.read_text(encoding="utf-8"))) for path in files)
    assert not [
        f"{path.relative_to(ROOT)}: {match[0]}" for path, match in found if match
    ]


def test_version_is_the_same_everywhere():
    version = PROJECT["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert transformer_lite.__version__ == version
