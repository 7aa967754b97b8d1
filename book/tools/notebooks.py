"""Run the chapters from clean kernels and store their outputs.

    python book/tools/notebooks.py                      all chapters
    python book/tools/notebooks.py NAME [NAME …]        these, by stem or path
    python book/tools/notebooks.py --setup-only [NAME …]  refresh the setup cell alone

Every notebook begins with the same setup cell; its text is made here and nowhere else.
A notebook is executed in its own folder, stripped of everything that differs from run
to run, and replaced only when it ran to its end.
"""

import argparse
import hashlib
import math
import os
import re
import sys
import textwrap
import time
import tomllib
from pathlib import Path

import nbformat
import yaml
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"
CELL_TIMEOUT = 300

# Closed in Colab ("form") and in the book; in both a line of text remains.
SETUP_METADATA = {
    "cellView": "form",
    "mystnb": {"code_prompt_show": "Show the setup cell"},
    "tags": ["hide-input", "nbval-ignore-output"],
}
SETUP_SOURCE = '''\
# @title Setup: run this first (in Colab it installs the package)
import importlib.util
import os
import subprocess
import sys

if importlib.util.find_spec("transformer_lite") is None:
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
    """The setup cell's code, with the names from _config.yml and pyproject.toml."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    names = textwrap.wrap(" ".join(setup_dependencies()), 80)
    return SETUP_SOURCE.format(
        repository=config["repository"]["url"],
        needed=textwrap.indent("\n".join(names), 8 * " "),
    )


def setup_dependencies() -> list[str]:
    """Names of the package's dependencies that the setup cell sees to."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    requirements = project["dependencies"] + project["optional-dependencies"]["book"]
    names = [re.match(r"[\w-]+", requirement).group() for requirement in requirements]
    return [name for name in names if name not in PRESENT]


def with_setup_cell(notebook: NotebookNode) -> NotebookNode:
    """The notebook with the current setup cell as its first, whatever stood there."""
    setup = nbformat.v4.new_code_cell(setup_source(), metadata=SETUP_METADATA)
    cells = notebook.cells
    if cells and is_setup_cell(cells[0]):
        # The outputs below may be kept, and with them their numbering from this cell.
        setup.execution_count = cells[0].execution_count
        cells = cells[1:]
    notebook.cells = [setup, *cells]
    return notebook


def is_setup_cell(cell: NotebookNode) -> bool:
    """Whether a cell is a setup cell, of this version or of an older one."""
    return cell.cell_type == "code" and cell.source.startswith("# @title Setup:")


def execute(notebook: NotebookNode, folder: Path) -> float:
    """Run all cells in place in a clean kernel and return the seconds it took."""
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
    start = time.perf_counter()
    client.execute()
    return time.perf_counter() - start


def settle(notebook: NotebookNode, seconds: float | None = None) -> NotebookNode:
    """The notebook without what changes from run to run or from machine to machine."""
    previous = notebook.metadata.get("transformer_lite", {}).get("seconds")
    measured = previous if seconds is None else math.ceil(seconds)
    notebook.metadata = NotebookNode(
        kernelspec={
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        },
        language_info={"name": "python"},
    )
    if measured is not None:
        notebook.metadata["transformer_lite"] = {"seconds": measured}
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        cell["id"] = stable_id(cell, seen)
    return notebook


def stable_id(cell: NotebookNode, seen: dict[str, int]) -> str:
    """An id that follows from a cell's text, so that others' ids stay when it moves."""
    digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:8]
    seen[digest] = seen.get(digest, 0) + 1
    return digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"


def write(notebook: NotebookNode, path: Path) -> None:
    """Replace a notebook's file in one step, once the new one is whole."""
    nbformat.validate(notebook)
    beside = path.with_suffix(".ipynb.part")
    beside.write_text(nbformat.writes(notebook, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def refresh(path: Path, *, run: bool = True) -> float | None:
    """Give a notebook its setup cell and, if it is to run, new outputs."""
    notebook = with_setup_cell(nbformat.read(path, as_version=4))
    seconds = execute(notebook, path.parent) if run else None
    write(settle(notebook, seconds), path)
    return seconds


def chosen(names: list[str]) -> list[Path]:
    """Paths of the notebooks with these names, or of all.

    Raises:
        ValueError: There is no notebook of that name.
    """
    paths = [NOTEBOOKS / f"{Path(name).stem}.ipynb" for name in names]
    paths = paths or sorted(NOTEBOOKS.glob("*.ipynb"))
    for path in paths:
        if not path.exists():
            known = ", ".join(other.stem for other in sorted(NOTEBOOKS.glob("*.ipynb")))
            raise ValueError(f"no notebook {path.stem}; there are: {known}")
    return paths


def main() -> int:
    """Refresh the notebooks named on the command line and say how each went."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="stems or paths; all if none is given")
    parser.add_argument(
        "--setup-only", action="store_true", help="run nothing, keep the outputs"
    )
    arguments = parser.parse_args()
    try:
        paths = chosen(arguments.names)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    failed = 0
    for path in paths:
        try:
            seconds = refresh(path, run=not arguments.setup_only)
        except CellExecutionError as error:
            failed += 1
            print(f"{path.name}: left as it was\n{error}", file=sys.stderr)
        else:
            note = "setup cell" if seconds is None else f"{seconds:.1f} s"
            print(f"{path.name}: {note}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
