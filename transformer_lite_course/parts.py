"""The parts of a Transformer that a reader writes, and how they are loaded.

Paper: §3, 5.1, 5.3–5.4, 6.1
Chapter: 03_model_architecture
Tests: tests/course/test_grading.py
"""

import ast
import importlib
import shutil
import sys
import traceback
from collections.abc import Collection
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from types import ModuleType

from transformer_lite.runs.files import renamed_when_whole

SKELETON = Path(__file__).with_name("my_transformer")
"""Every part with signatures and docstrings, and no body."""

BOOK = "https://transformer-lite.github.io/transformer-lite/notebooks"

PACKAGE = "my_transformer"
"""Under this name the reader's files are imported, wherever they lie."""


@dataclass(frozen=True)
class Part:
    """A file for the reader to write."""

    name: str
    """Of the file, without .py."""
    chapter: str
    """The chapter that builds it."""

    @property
    def link(self) -> str:
        """Address of the chapter."""
        return f"{BOOK}/{self.chapter}.html"


PARTS = {
    part.name: part
    for part in (
        Part("attention", "03_2_1_scaled_dot_product_attention"),
        Part("masks", "03_2_3_applications_of_attention_in_our_model"),
        Part("heads", "03_2_2_multi_head_attention"),
        Part("layers", "03_1_encoder_and_decoder_stacks"),
        Part("embeddings", "03_4_embeddings_and_softmax"),
        Part("positions", "03_5_positional_encoding"),
        Part("model", "03_model_architecture"),
        Part("loss", "05_4_regularization"),
        Part("schedule", "05_3_optimizer"),
        Part("batching", "05_1_training_data_and_batching"),
        Part("search", "06_1_machine_translation"),
    )
}
"""In the order in which each can use those before it."""


def write_skeleton(folder: Path) -> None:
    """Write the files to fill in.

    Raises:
        ValueError: The folder exists.
    """
    with renamed_when_whole(folder) as new:
        for file in ("__init__", *PARTS):
            shutil.copyfile(SKELETON / f"{file}.py", new / f"{file}.py")


def is_written(file: Path) -> bool:
    """Return whether a part is more than what `write_skeleton` wrote.

    Comments, docstrings and imports above the code do not count.

    Raises:
        ValueError: There is no such file, or it is no Python.
    """
    return _statements(file) != _statements(SKELETON / file.name)


def _statements(file: Path) -> list[str]:
    try:
        tree = ast.parse(file.read_bytes())
    except OSError:
        raise ValueError(
            f"{file}: no such file; `transformer-lite exercise` writes all parts into "
            "a new folder"
        ) from None
    except (SyntaxError, ValueError) as error:  # the latter for a zero byte
        line = getattr(error, "lineno", None)
        place = f"{file}, line {line}" if line else str(file)
        raise ValueError(
            f"{place}: not Python ({getattr(error, 'msg', error)})"
        ) from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            del node.body[: ast.get_docstring(node) is not None]
    imports = ast.Import | ast.ImportFrom
    code = dropwhile(lambda statement: isinstance(statement, imports), tree.body)
    return [ast.dump(statement) for statement in code]


def load_parts(folder: Path, written: Collection[str]) -> dict[str, ModuleType]:
    """Import the reader's parts; the book's stand in for all others.

    Args:
        folder: The reader's files.
        written: The names of the parts that are the reader's.
    """
    from transformer_lite_course import reference  # slow: it loads PyTorch

    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
    package = ModuleType(PACKAGE)
    package.__path__ = [str(folder)]
    sys.modules[PACKAGE] = package
    for name in PARTS:
        if name not in written:
            sys.modules[f"{PACKAGE}.{name}"] = reference
    importlib.invalidate_caches()
    return {name: importlib.import_module(f"{PACKAGE}.{name}") for name in PARTS}


def place_of(error: Exception, folder: Path) -> str:
    """Return the last line of the reader's code that an error came through."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.parent.resolve() == folder.resolve():
            return f"{file.name}, line {frame.lineno}"
    return "Called by the check"
