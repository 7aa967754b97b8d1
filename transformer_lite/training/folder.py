"""The layout of a run's folder: what lies where, and which weights are its own.

Paper: §6.1
Chapter: the_multi_gpu_trainer
Tests: tests/training/test_folder.py
"""

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from transformer_lite.config import Recipe, recipe_from_dict

STOPPED = ".stopped"
"""Mark in the name of a checkpoint that a signal caused."""

PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""The folders of small trained models that come with the package."""


def find_run(run: str | Path) -> Path:
    """The folder of a run, which may be a trained model of the package, by its name.

    Args:
        run: A folder that `train` wrote, or the name of one of `PRETRAINED`. What
            exists under this name in the working directory comes first.
    """
    trained = PRETRAINED / run
    return trained if trained.is_dir() and not Path(run).exists() else Path(run)


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
        """The same for TensorBoard."""
        self.lock = path / ".lock"
        """Held by the process that trains."""
        self.checkpoints = path / "checkpoints"
        """Weights, and what training needs to resume."""
        self.average = self.checkpoints / "average.safetensors"
        """The mean of the last checkpoints."""
        self.best = self.checkpoints / "best.safetensors"
        """The weights with the lowest validation loss."""

    def weights_after(self, step: int, stopped: bool = False) -> Path:
        """Where the weights after a step lie.

        Args:
            step: Number of steps taken.
            stopped: Whether a signal stopped the run there, between two checkpoints.
        """
        mark = STOPPED if stopped else ""
        return self.checkpoints / f"step-{step:08d}{mark}.safetensors"

    def step_checkpoints(self) -> list[Path]:
        """The weights of every regular checkpoint, the oldest first."""
        return self._glob("")

    def resumable_checkpoints(self) -> list[Path]:
        """The same with the one that a signal caused, which no average includes."""
        return sorted([*self._glob(""), *self._glob(STOPPED)])

    def _glob(self, mark: str) -> list[Path]:
        return sorted(self.checkpoints.glob(f"step-{'[0-9]' * 8}{mark}.safetensors"))

    def recipe(self) -> Recipe:
        """The recipe that the run was trained by.

        Raises:
            ValueError: The folder holds no run.
        """
        try:
            tables = json.loads(self.config.read_text(encoding="utf-8"))
            if not isinstance(tables, dict):
                raise ValueError("no table of settings")
            return recipe_from_dict(tables)
        except NotADirectoryError:
            raise ValueError(
                f"{self.path}: a file; the folder of a run comes first, and a "
                "checkpoint of it after --weights"
            ) from None
        except FileNotFoundError:
            names = sorted(path.name for path in PRETRAINED.glob("*"))
            close = get_close_matches(str(self.path), names, n=1)
            raise ValueError(
                f"{self.config}: no such file; give the folder of a run, or the name "
                f"of a trained model ({', '.join(names)})"
                + (f": did you mean {close[0]}?" if close else "")
            ) from None
        except ValueError as error:
            raise ValueError(
                f"{self.config}: not a run's configuration ({error}); "
                "restore it, or begin another run"
            ) from error

    def training_data(self) -> dict[str, Any]:
        """What is on record of the corpus; no languages where they are not known.

        Raises:
            ValueError: The record is damaged.
        """
        try:
            record = json.loads(self.corpus.read_text(encoding="utf-8"))
            record["languages"] = tuple(record.get("languages", ("", "")))
            return record
        except FileNotFoundError:
            return {"languages": ("", "")}
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{self.corpus}: not a record of a run's training data ({error}); "
                "restore it, or begin another run"
            ) from error

    def languages(self) -> tuple[str, str]:
        """Codes of the source's and the target's language; empty if unknown.

        Raises:
            ValueError: The file that names them is damaged.
        """
        source, target = self.training_data()["languages"]
        return source, target

    def default_weights(self) -> Path:
        """The checkpoint to translate with: the average, the best or the newest.

        Raises:
            ValueError: There is none, or no such run.
        """
        if not self.path.is_dir():
            raise ValueError(f"{self.path}: no such folder; give the folder of a run")
        named = [path for path in (self.average, self.best) if path.exists()]
        candidates = [*named, *reversed(self.resumable_checkpoints())]
        if not candidates:
            raise ValueError(
                f"{self.checkpoints}: no checkpoint yet; run `train` first"
            )
        return candidates[0]


def training_path(weights: Path) -> Path:
    """Where what training needs to resume lies, beside a checkpoint's weights."""
    return weights.with_suffix(".training.pt")
