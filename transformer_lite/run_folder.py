"""The folder of a run: what lies where in it.

It holds the run's configuration, its tokenizer, its metrics and its checkpoints.

Paper: §6.1
Chapter: the_multi_gpu_trainer
Tests: tests/test_run_folder.py
"""

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from transformer_lite.config import Recipe, recipe_from_dict

STOPPED = ".stopped"
"""Mark in the name of a checkpoint that a signal caused."""

PRETRAINED = Path(__file__).with_name("pretrained")
"""The folders of small trained models that come with the package."""


def find_run(run: str | Path) -> "RunFolder":
    """Return the folder of a run, or of a trained model of the package.

    Args:
        run: A folder that `train` wrote, or the name of one of `PRETRAINED`. A folder
            of this name in the working directory comes first.
    """
    trained = PRETRAINED / run
    is_name = trained.is_dir() and not Path(run).exists()
    return RunFolder(trained if is_name else Path(run))


class RunFolder:
    """The folder of a run, by the names of what it holds.

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
        self.average = self.checkpoints / "average.safetensors"
        """The mean of the last checkpoints."""
        self.best = self.checkpoints / "best.safetensors"
        """The weights with the lowest validation loss."""

    def weights_after(self, step: int, stopped: bool = False) -> Path:
        """Return where the weights after a step lie.

        Args:
            step: Number of steps taken.
            stopped: Whether a signal stopped the run there, between two checkpoints.
        """
        mark = STOPPED if stopped else ""
        return self.checkpoints / f"step-{step:08d}{mark}.safetensors"

    def step_checkpoints(self) -> list[Path]:
        """List the weights of every regular checkpoint, the oldest first."""
        return self._glob("")

    def resumable_checkpoints(self) -> list[Path]:
        """List the same and the one that a signal caused, which no average includes."""
        return sorted([*self._glob(""), *self._glob(STOPPED)])

    def _glob(self, mark: str) -> list[Path]:
        return sorted(self.checkpoints.glob(f"step-{'[0-9]' * 8}{mark}.safetensors"))

    def recipe(self) -> Recipe:
        """Read the recipe that the run was trained by.

        Raises:
            ValueError: The folder holds no run, or its configuration is damaged.
        """
        try:
            return recipe_from_dict(json.loads(self.config.read_text("utf-8")))
        except FileNotFoundError:
            names = sorted(path.name for path in PRETRAINED.glob("*"))
            close = get_close_matches(str(self.path), names, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(
                f"{self.path}: holds no run; give a folder that `train` wrote, or the "
                f"name of a trained model ({', '.join(names)}){hint}"
            ) from None
        except NotADirectoryError:
            raise ValueError(
                f"{self.path}: a file; the folder of a run comes first, and a "
                "checkpoint of it after --weights"
            ) from None
        except (ValueError, TypeError) as error:
            raise ValueError(
                f"{self.config}: not a run's configuration ({error}); "
                "restore it, or begin another run"
            ) from error

    def training_data(self) -> dict[str, Any]:
        """Read the record of the training data; `languages` are empty if not known.

        Raises:
            ValueError: The record is damaged.
        """
        if not self.corpus.exists():
            return {"languages": ("", "")}
        try:
            record = json.loads(self.corpus.read_text(encoding="utf-8"))
            source, target = record["languages"]
            return {**record, "languages": (source, target)}
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{self.corpus}: not a record of a run's training data ({error}); "
                "restore it, or begin another run"
            ) from error

    def default_weights(self) -> Path:
        """Return the checkpoint to translate with: the average, the best or the newest.

        Raises:
            ValueError: There is none.
        """
        named = [path for path in (self.average, self.best) if path.exists()]
        candidates = [*named, *reversed(self.resumable_checkpoints())]
        if not candidates:
            raise ValueError(
                f"{self.checkpoints}: no checkpoint yet; run `train` first"
            )
        return candidates[0]


def training_path(weights: Path) -> Path:
    """Return where the rest of a checkpoint lies, which only training needs."""
    return weights.with_suffix(".training.pt")
