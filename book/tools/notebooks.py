"""Run the chapters from clean kernels and store their outputs.

    python book/tools/notebooks.py                      all chapters
    python book/tools/notebooks.py NAME [NAME …]        these, by stem or path
    python book/tools/notebooks.py --setup-only [NAME …]  renew what is made here alone

Every notebook begins with the same setup cell, and below its title stands a line that
leads to Colab, the paper, the module and its tests and says how long the chapter takes
(limits.py has the formula); both are made here and nowhere else. A chapter's own
imports follow in the setup cell. A live figure has the current style and script around
its stored data. A cell whose first line is one of a few titles
(``# @title Solution``) is closed, with words that say what opens.

A notebook is executed in its own folder, stripped of everything that differs from run
to run, and replaced only when it ran to its end. Its pictures get palettes.
"""

import argparse
import hashlib
import math
import os
import re
import sys
import textwrap
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbformat import NotebookNode

sys.path.insert(0, str(Path(__file__).parent))
import limits
import make_map
from palettes import with_palette

from transformer_lite.runs.files import write_whole
from transformer_lite_book.live_figures import renewed
from transformer_lite_course.parts import PARTS

ROOT = make_map.ROOT
NOTEBOOKS = make_map.NOTEBOOKS
COLAB = "https://colab.research.google.com/github"
ARTICLE = "https://arxiv.org/abs/1706.03762"
CELL_TIMEOUT = 300
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
UNNUMBERED = {
    "attention_visualizations": "Figures 3–5",
    "the_multi_gpu_trainer": "the whole",
    "why_eight_gpus_are_not_eight_times_faster": "Section 5.2",
}
"""What in the paper the chapters without a section's number belong to."""
EXERCISES = "## Exercises\n\n"
COURSE = "You can also write this whole part yourself:"
BESIDE = ("transformer_lite_course", "transformer_lite_book", "transformer_lite.page")
"""Modules that a chapter uses and does not build."""

SETUP = "Setup: run this first (in Colab it installs the package)"
# Cells whose first line is one of these titles are closed in Colab and in JupyterLab,
# which show the title, and in the book, which shows the words. Of a cell tagged
# hide-input the output stays.
CLOSED = {
    SETUP: ("Show the setup cell", ["hide-input", "nbval-ignore-output"]),
    "How this is drawn": ("How this is drawn", ["hide-input"]),
    "How this is counted": ("How this is counted", ["hide-input"]),
    "Checked": ("Checked", ["hide-input"]),
    "The package's source": ("Show the package's source", ["hide-cell"]),
    "Check your answer": ("How the answer is checked", ["hide-cell"]),
    "Solution": ("Show a solution", ["hide-cell"]),
}
TITLE = "# @title "
OWN_PART = "# What this chapter uses"
SETUP_SOURCE = '''\
# @title Setup: run this first (in Colab it installs the package)
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

clone = Path.cwd().parent
if (clone / "transformer_lite").is_dir():
    # This notebook lies in a clone of the repository: use the package beside it, here
    # and in the processes that a cell starts.
    sys.path.insert(0, str(clone))
    os.environ["PYTHONPATH"] = str(clone)
elif importlib.util.find_spec("transformer_lite") is None:
    package_url = "{repository}"
    package_url = os.environ.get("TRANSFORMER_LITE_GIT", package_url)
    needed = """
{needed}
    """
    # The package without its dependencies, so that this machine's torch stays as it
    # is; then those of the others that are missing.
    install = [sys.executable, "-m", "pip", "install", "--quiet"]
    subprocess.run([*install, "--no-deps", f"git+{{package_url}}"], check=True)
    subprocess.run([*install, *needed.split()], check=True)
    importlib.invalidate_caches()'''

# Whoever runs the cell has these already.
PRESENT = {"torch", "ipython"}


def setup_source() -> str:
    """Return the setup cell's code, with names from pyproject.toml."""
    names = textwrap.wrap(" ".join(setup_dependencies()), 80)
    return SETUP_SOURCE.format(
        repository=make_map.REPOSITORY,
        needed=textwrap.indent("\n".join(names), 8 * " "),
    )


def setup_dependencies() -> list[str]:
    """Return the names of the package's dependencies that the setup cell installs."""
    project = make_map.PROJECT["project"]
    requirements = project["dependencies"] + project["optional-dependencies"]["book"]
    names = [re.match(r"[\w-]+", requirement).group() for requirement in requirements]
    return [name for name in names if name not in PRESENT]


def with_setup_cell(notebook: NotebookNode) -> NotebookNode:
    """Put the current setup cell first, in the place of an older one."""
    setup = nbformat.v4.new_code_cell(setup_source())
    cells = notebook.cells
    if cells and cells[0].source.startswith(f"{TITLE}Setup:"):
        # The outputs below may be kept, and with them their numbering from this cell.
        setup.execution_count = cells[0].execution_count
        _, marker, own = cells[0].source.partition(OWN_PART)
        setup.source += f"\n\n{marker}{own}" if marker else ""
        cells = cells[1:]
    notebook.cells = [setup, *cells]
    return notebook


def with_closed_cells(notebook: NotebookNode) -> NotebookNode:
    """Close every titled cell, as its title says.

    Raises:
        ValueError: A title is not one of those that are known.
    """
    for cell in notebook.cells:
        first_line = cell.source.partition("\n")[0]
        if cell.cell_type == "code" and first_line.startswith(TITLE):
            title = first_line.removeprefix(TITLE)
            if title not in CLOSED:
                raise ValueError(
                    f"a cell is titled {title!r}; the titles are {', '.join(CLOSED)}"
                )
            words, tags = CLOSED[title]
            others = [tag for tag in cell.metadata.get("tags", []) if tag not in tags]
            cell.metadata["cellView"] = "form"
            cell.metadata["jupyter"] = {"source_hidden": True}
            if title == "Solution":
                cell.metadata["jupyter"]["outputs_hidden"] = True
            cell.metadata["tags"] = sorted([*tags, *others])
            book = cell.metadata.setdefault("mystnb", NotebookNode())
            book["code_prompt_show"] = words
    return notebook


def with_live_figures(notebook: NotebookNode) -> NotebookNode:
    """Give each stored live figure the current style and script around its own data."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                output.data["text/html"] = renewed(output.data["text/html"])
    return notebook


def with_head(notebook: NotebookNode, stem: str) -> NotebookNode:
    """Put the current line below the title."""
    cell = notebook.cells[1]
    title, *rest = cell.source.split("\n\n")
    if rest and rest[0].startswith("[Open in Colab]"):
        rest = rest[1:]
    cell.source = "\n\n".join([title, head(notebook, stem), *rest])
    return notebook


def with_course(notebook: NotebookNode, stem: str) -> NotebookNode:
    """Begin the exercises with the part of the course that is the chapter's own."""
    names = [part.name for part in PARTS.values() if part.chapter == stem]
    line = (
        f"{COURSE} `transformer-lite grade my_transformer {' '.join(names)}` "
        "checks it ([how](../book/write_it_yourself.md))."
    )
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and EXERCISES in cell.source:
            text = re.sub(rf"{re.escape(COURSE)}.*\n\n", "", cell.source)
            if names:
                text = text.replace(EXERCISES, f"{EXERCISES}{line}\n\n")
            cell.source = text
    return notebook


def head(notebook: NotebookNode, stem: str) -> str:
    """Say where a chapter stands, how long it takes, what it builds, what checks it."""
    titles = make_map.chapter_titles()
    colab = make_map.REPOSITORY.replace("https://github.com", COLAB)
    section = re.match(r"[\d.]+(?= )", titles[stem])
    paper = f"Section {section.group()}" if section else UNNUMBERED[stem]
    modules = [
        entry
        for entry in map(make_map.read_module, make_map.module_names())
        if stem in entry.chapters and not entry.name.startswith(BESIDE)
    ]
    tests = dict.fromkeys(path for entry in modules for path in entry.tests)
    parts = [
        f"[Open in Colab]({colab}/blob/main/notebooks/{stem}.ipynb)",
        f"Chapter {sorted(titles).index(stem) + 1} of {len(titles)}",
        f"{reading_minutes(notebook)} minutes without the exercises",
        f"Paper: [{paper}]({ARTICLE})",
    ]
    if len(modules) > 3:  # a line of links that nobody would read
        parts.append("Modules and tests: [in the map](../book/map.md)")
    elif modules:
        links = [make_map.source_link(entry.name) for entry in modules]
        parts.append(f"Module: {', '.join(links)}")
        parts.append(f"Tests: {', '.join(map(make_map.test_link, tests))}")
    if any(part.chapter == stem for part in PARTS.values()):
        parts.append("[Write it yourself](../book/write_it_yourself.md)")
    return " · ".join(parts)


def reading_minutes(notebook: NotebookNode) -> int:
    """Return how long a chapter's story takes."""
    return limits.measure(limits.parts(notebook)[0]).minutes


def execute(notebook: NotebookNode, folder: Path) -> float:
    """Run all cells in place in a clean kernel and return its seconds of a processor.

    With one thread these are the seconds on an idle machine; a busy one takes longer.
    """
    # As under `make test`: sums in another order differ in their last digits.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=CELL_TIMEOUT,
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    start = os.times()
    client.execute()
    return sum(os.times()[2:4]) - sum(start[2:4])  # of processes that have ended


def settle(notebook: NotebookNode, seconds: float | None = None) -> NotebookNode:
    """Remove what changes from run to run or from machine to machine."""
    previous = notebook.metadata.get("transformer_lite", {}).get("seconds")
    measured = previous if seconds is None else math.ceil(seconds)
    notebook.metadata = NotebookNode(
        kernelspec=KERNEL, language_info={"name": "python"}
    )
    if measured is not None:
        notebook.metadata["transformer_lite"] = {"seconds": measured}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        cell["id"] = stable_id(cell, seen)
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = with_palette(output.data["image/png"])
    return notebook


def stable_id(cell: NotebookNode, seen: dict[str, int]) -> str:
    """Return an id that follows from a cell's text, and so stays when it moves."""
    digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
    seen[digest] = seen.get(digest, 0) + 1
    return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def write(notebook: NotebookNode, path: Path) -> None:
    """Replace a notebook's file in one step, once the new one is whole."""
    nbformat.validate(notebook)
    write_whole(path, lambda partial: partial.write_text(as_text(notebook), "utf-8"))


def as_text(notebook: NotebookNode) -> str:
    """Return what a notebook's file holds."""
    return nbformat.writes(notebook, indent=1) + "\n"


def generated(notebook: NotebookNode, stem: str) -> NotebookNode:
    """Bring all that is made here up to date, and no output."""
    notebook = with_live_figures(with_closed_cells(with_setup_cell(notebook)))
    return with_head(with_course(notebook, stem), stem)


def refresh(path: Path, *, run: bool = True) -> float | None:
    """Give a notebook its setup cell and, if it is to run, new outputs."""
    notebook = generated(nbformat.read(path, as_version=4), path.stem)
    seconds = execute(notebook, path.parent) if run else None
    # Once more, because the reading time counts the figures.
    write(settle(generated(notebook, path.stem), seconds), path)
    return seconds


def notebook_path(name: str) -> Path:
    """Return the path of the notebook with this name.

    Raises:
        ArgumentTypeError: There is none.
    """
    path = NOTEBOOKS / f"{Path(name).stem}.ipynb"
    if not path.exists():
        known = ", ".join(make_map.chapter_titles())
        raise argparse.ArgumentTypeError(f"no notebook {path.stem}; there are: {known}")
    return path


def main() -> int:
    """Refresh the notebooks named on the command line and say how each went."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "paths", nargs="*", type=notebook_path, help="stems or paths; by default all"
    )
    parser.add_argument(
        "--setup-only", action="store_true", help="run nothing, keep the outputs"
    )
    arguments = parser.parse_args()
    paths = arguments.paths or sorted(NOTEBOOKS.glob("*.ipynb"))
    failed = 0
    for path in paths:
        try:
            seconds = refresh(path, run=not arguments.setup_only)
        except (CellControlSignal, DeadKernelError, ValueError) as error:
            failed += 1
            print(f"{path.name}: left as it was\n{error}", file=sys.stderr)
        else:
            note = "generated parts" if seconds is None else f"{seconds:.1f} s"
            print(f"{path.name}: {note}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
