"""Run chapters as Colab does: from an empty folder, without the package.

    PYTHON book/tools/colab.py NOTEBOOK [NOTEBOOK …]

The chapters run in PYTHON's environment, which needs nbconvert; the setup cell of the
first one installs the package there, from $TRANSFORMER_LITE_GIT. What Colab brings has
to stay as it is.
"""

import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

KEPT = {"torch", "numpy", "ipython", "ipykernel", "matplotlib"}


def runs(notebook: Path) -> bool:
    """Return whether the notebook runs to its end, alone in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(notebook, folder)
        command = [sys.executable, "-m", "nbconvert", "--to=notebook", "--execute"]
        command += ["--ExecutePreprocessor.timeout=600", "--inplace", notebook.name]
        return subprocess.run(command, cwd=folder).returncode == 0


def versions() -> dict[str, str]:
    """Return the versions that the environment has of what Colab brings."""
    found = {package.name.lower(): package.version for package in distributions()}
    return {name: found[name] for name in KEPT}


def main() -> int:
    """Run the notebooks named on the command line and say which of them fail."""
    before = versions()
    failed = [path for path in sys.argv[1:] if not runs(Path(path))]
    for path in failed:
        print(f"{path} fails", file=sys.stderr)
    if versions() != before:
        print(f"{before} became {versions()}", file=sys.stderr)
    return bool(failed) or versions() != before


if __name__ == "__main__":
    sys.exit(main())
