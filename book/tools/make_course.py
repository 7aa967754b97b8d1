"""Write examples/write_it_yourself.ipynb: the course with cells instead of files.

Every part's cell holds the file that `transformer-lite exercise` writes.
tests/test_examples.py compares the notebook with what this makes.
"""

import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from transformer_lite_course.parts import PARTS, SKELETON

sys.path.insert(0, str(Path(__file__).parent))
import notebooks

PATH = notebooks.ROOT / "examples" / "write_it_yourself.ipynb"
BEGINNING = """\
# Write it yourself

Every part of a Transformer has a cell with signatures, shapes and docstrings. Write
the bodies and run the cell: it saves the file `my_transformer/NAME.py`. The cell below
it grades the part and names a mistake. All other parts are then the book's, so begin
anywhere."""
END = """\
## Train

Your Transformer learns to translate the toy grammar. The book's parts stand in for
those that are not written."""


def course() -> NotebookNode:
    """Return the notebook, without outputs."""
    cells = [
        new_markdown_cell(BEGINNING),
        new_code_cell(notebooks.setup_source()),
        new_code_cell("!transformer-lite exercise my_transformer"),
    ]
    for name, part in PARTS.items():
        source = (SKELETON / f"{name}.py").read_text("utf-8").strip()
        cells += [
            new_markdown_cell(f"## {name}\n\n[The chapter]({part.link})"),
            new_code_cell(f"%%writefile my_transformer/{name}.py\n{source}"),
            new_code_cell(f"!transformer-lite grade my_transformer {name}"),
        ]
    train = "!transformer-lite train-parts my_transformer"
    cells += [new_markdown_cell(END), new_code_cell(train)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return new_notebook(cells=cells, metadata={"kernelspec": notebooks.KERNEL})


if __name__ == "__main__":
    nbformat.write(course(), PATH)
    print(f"wrote {PATH.relative_to(notebooks.ROOT)}")
