"""The folder of a run: what lies where in it, and what it says of the run.

Paper: §6.1
Chapter: the_multi_gpu_trainer
Tests: tests/package/runs/test_folder.py
"""

import os
import re
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from transformer_lite.config import Recipe, recipe_from_dict
from transformer_lite.runs.files import read_json

EXTRA = ".extra"
"""Mark in the name of a checkpoint between the regular ones, which is in no average."""
CHECKPOINT = re.compile(rf"step-([0-9]+)(?:{re.escape(EXTRA)})?\.safetensors")

PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""The folders of small trained models that come with the package."""
MODEL_NAMES = sorted(path.name for path in PRETRAINED.glob("*"))


def require_folder(data: Path) -> None:
    """Raise a ValueError if there is no folder of data; what it holds is not read."""
    if not data.exists():
        here = "" if data.is_absolute() else f" in {Path.cwd()}"
        raise ValueError(
            f"{data}: no such folder{here}; make it with `transformer-lite prepare "
            f"CORPUS --out {data}`, or name another one with --data"
        )


def find_run(run: str | Path) -> "RunFolder":
    """Return the folder of a run, or of the package's model if only that is there."""
    trained = PRETRAINED / run
    is_name = trained.is_dir() and not Path(run).exists()
    return RunFolder(trained if is_name else Path(run))


class RunFolder:
    """The paths of the files in a run's folder.

    Args:
        path: The folder, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        """The recipe that the run was last started with."""
        self.tokenizer = path / "tokenizer.model"
        """The vocabulary."""
        self.corpus = path / "corpus.json"
        """Which training data it was."""
        self.metrics = path / "metrics.jsonl"
        """What every step and every validation measured."""
        self.events = path / "tensorboard"
        """The same for TensorBoard, if that is installed."""
        self.lock = path / ".lock"
        """Held by the process that trains."""
        self.checkpoints = path / "checkpoints"
        """Weights, and what training needs to resume."""
        self.checksums = path / "checkpoints.json"
        """What the checkpoints' files were when they were saved."""
        self.average = self.checkpoints / "average.safetensors"
        """The mean of the last checkpoints."""
        self.best = self.checkpoints / "best.safetensors"
        """The weights with the lowest validation loss."""

    def weights_after(self, step: int, extra: bool = False) -> Path:
        """Return where the weights after a step lie, in an extra checkpoint or not."""
        mark = EXTRA if extra else ""
        return self.checkpoints / f"step-{step:08d}{mark}.safetensors"

    def all_checkpoints(self) -> list[Path]:
        """List the weights of every checkpoint, also extra ones, the oldest first."""
        paths = self.checkpoints.glob("step-*")
        found = [path for path in paths if CHECKPOINT.fullmatch(path.name)]
        return sorted(found, key=lambda path: (step_of(path), path))

    def step_checkpoints(self) -> list[Path]:
        """List the weights of every regular checkpoint, the oldest first."""
        return [path for path in self.all_checkpoints() if EXTRA not in path.name]

    def steps_taken(self) -> int:
        """Return the step of the newest checkpoint; 0 without one."""
        paths = self.all_checkpoints()
        return step_of(paths[-1]) if paths else 0

    def recipe(self) -> Recipe:
        """Read the recipe that the run was trained by.

        Raises:
            ValueError: The folder holds no run, or its configuration is damaged.
        """
        try:
            return recipe_from_dict(read_json(self.config))
        except FileNotFoundError:
            close = get_close_matches(str(self.path), MODEL_NAMES, n=1)
            if RunFolder("runs" / self.path).config.exists():
                close = ["runs" / self.path]
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(
                f"{self.path}: holds no run; give a folder that `train` wrote, or the "
                f"name of a trained model ({', '.join(MODEL_NAMES)}){hint}"
            ) from None
        except NotADirectoryError:
            raise ValueError(
                f"{self.path}: a file; give the folder of a run, or after --weights a "
                "checkpoint of it"
            ) from None
        except ValueError as error:
            raise ValueError(
                f"{self.config}: not a run's configuration ({error}); "
                "restore it, or begin another run"
            ) from error

    def training_data(self) -> dict[str, Any]:
        """Read the record of the training data; `languages` are empty if not known.

        Raises:
            ValueError: The record is damaged.
        """
        try:
            match record := read_json(self.corpus):
                case {"languages": [str(source), str(target)]}:
                    return {**record, "languages": (source, target)}
            raise ValueError("no two languages")
        except FileNotFoundError:
            return {"languages": ("", "")}
        except ValueError as error:
            raise ValueError(
                f"{self.corpus}: not a record of a run's training data ({error}); "
                "restore it, or begin another run"
            ) from error

    def default_weights(self) -> Path:
        """Return the checkpoint to translate with: the average, the best or the newest.

        Raises:
            ValueError: There is none.
        """
        newest_first = reversed(self.all_checkpoints())
        for path in (self.average, self.best, *newest_first):
            if os.path.lexists(path):  # a broken link is named, not passed over
                return path
        raise ValueError(f"{self.checkpoints}: no checkpoint yet; run `train` first")


def step_of(weights: Path) -> int:
    """Return the step after which a checkpoint was written."""
    return int(CHECKPOINT.fullmatch(weights.name)[1])


def training_path(weights: Path) -> Path:
    """Return where the rest of a checkpoint lies, which only training needs."""
    return weights.with_suffix(".training.pt")
