"""The folder of a run: what lies where in it, and the record of its metrics.

Paper: §6.1
Chapter: the_multi_gpu_trainer
Tests: tests/package/runs/test_folder.py
"""

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tqdm import tqdm

from transformer_lite.config import ModelConfig, Recipe, recipe_from_dict
from transformer_lite.runs.files import write_whole

STOPPED = ".stopped"
"""Mark in the name of a checkpoint that a signal caused."""

PRETRAINED = Path(__file__).parents[1] / "pretrained"
"""The folders of small trained models that come with the package."""
MODEL_NAMES = sorted(path.name for path in PRETRAINED.glob("*"))


def find_run(run: str | Path) -> "RunFolder":
    """Return the folder of a run; if there is none, of the package's model of this name."""
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
        self.average = self.checkpoints / "average.safetensors"
        """The mean of the last checkpoints."""
        self.best = self.checkpoints / "best.safetensors"
        """The weights with the lowest validation loss."""

    def weights_after(self, step: int, stopped: bool = False) -> Path:
        """Return where the weights after a step lie, at which a signal may have stopped."""
        mark = STOPPED if stopped else ""
        return self.checkpoints / f"step-{step:08d}{mark}.safetensors"

    def step_checkpoints(self) -> list[Path]:
        """List the weights of every regular checkpoint, the oldest first."""
        return self._glob("")

    def resumable_checkpoints(self) -> list[Path]:
        """List all checkpoints, also one that a signal caused, the oldest first."""
        return sorted([*self._glob(""), *self._glob(STOPPED)])

    def _glob(self, mark: str) -> list[Path]:
        return sorted(self.checkpoints.glob(f"step-{'[0-9]' * 8}{mark}.safetensors"))

    def steps_taken(self) -> int:
        """Return the step of the newest checkpoint; 0 without one."""
        paths = self.resumable_checkpoints()
        return int(paths[-1].name.removeprefix("step-")[:8]) if paths else 0

    def recipe(self) -> Recipe:
        """Read the recipe that the run was trained by.

        Raises:
            ValueError: The folder holds no run, or its configuration is damaged.
        """
        try:
            return recipe_from_dict(json.loads(self.config.read_text("utf-8")))
        except FileNotFoundError:
            close = get_close_matches(str(self.path), MODEL_NAMES, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ValueError(
                f"{self.path}: holds no run; give a folder that `train` wrote, or the "
                f"name of a trained model ({', '.join(MODEL_NAMES)}){hint}"
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
        newest_first = reversed(self.resumable_checkpoints())
        for path in (self.average, self.best, *newest_first):
            if path.exists():
                return path
        raise ValueError(f"{self.checkpoints}: no checkpoint yet; run `train` first")

    def initial_weights(self, model: ModelConfig, vocabulary: Path) -> Path:
        """Return the weights that another run begins with, if they fit it.

        Args:
            model: The other run's model.
            vocabulary: The tokenizer.model of its data.

        Raises:
            ValueError: The model is another, or the vocabulary.
        """
        theirs, ours = asdict(self.recipe().model), asdict(model)
        if self.tokenizer.read_bytes() != vocabulary.read_bytes():
            raise ValueError(
                f"{vocabulary}: not the vocabulary of {self.path}; prepare the text "
                f"with --vocabulary {self.path}"
            )
        if changes := [
            f"--model.{name.replace('_', '-')} {theirs[name]}"
            for name in sorted(theirs.keys() - {"dropout", "attention", "max_len"})
            if theirs[name] != ours[name]
        ]:
            raise ValueError(
                f"{self.path}: has weights of another model than the recipe; give "
                + " ".join(changes)
            )
        return self.default_weights()


def training_path(weights: Path) -> Path:
    """Return where the rest of a checkpoint lies, which only training needs."""
    return weights.with_suffix(".training.pt")


class Metrics:
    """A run's metrics.jsonl, and the same for TensorBoard where that is installed.

    Use it as a context manager: it closes its files at the end.

    Args:
        run: The run's folder; the first record makes it.
    """

    def __init__(self, run: Path) -> None:
        folder = RunFolder(run)
        self.path, self._events_folder = folder.metrics, folder.events
        self._file = self._events = None

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None:
        with self._optional():
            if self._events is not None:
                self._events.close()
        if self._file is not None:
            self._file.close()
        self._file = self._events = None

    def add(self, step: int, **values: Any) -> None:
        """Append a record of one step; a number that is not finite becomes null."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a", encoding="utf-8")
            with self._optional():
                self._events = _tensorboard(self._events_folder, step)
        self._file.write(_line({"step": step, **values}))
        self._file.flush()
        with self._optional():
            for name, value in values.items() if self._events is not None else ():
                if isinstance(value, int | float):
                    self._events.add_scalar(name, value, step)

    @contextmanager
    def _optional(self) -> Iterator[None]:
        """Do without TensorBoard after an error: not every installation is whole."""
        try:
            yield
        except Exception as error:
            problem = f"{type(error).__name__}: {error}".splitlines()[0]
            message = f"TensorBoard failed ({problem}); the run goes on without it"
            tqdm.write(message, file=sys.stderr)
            self._events = None

    def read(self) -> list[dict[str, Any]]:
        """Read all records, the oldest first.

        A line that a killed process left unfinished is not a record.

        Raises:
            ValueError: A line is damaged.
        """
        if not self.path.exists():
            return []
        records = []
        for number, line in enumerate(self.path.read_bytes().split(b"\n")[:-1], 1):
            try:
                records.append(json.loads(line))
                records[-1]["step"] + 0  # every record has a step, and it is a number
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(
                    f"{self.path}, line {number}: not a record; delete this line"
                ) from error
        return records

    def forget_after(self, step: int) -> None:
        """Delete the records of later steps, because the run repeats these steps."""
        text = "".join(_line(r) for r in self.read() if r["step"] <= step)
        write_whole(self.path, lambda partial: partial.write_text(text, "utf-8"))


def _line(record: dict[str, Any]) -> str:
    # JSON has no infinity, which is the norm of a gradient that fp16 cannot hold.
    values = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in record.items()
    }
    return json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n"


def _tensorboard(folder: Path, step: int) -> Any:
    """Return a writer of TensorBoard's events from a step on, if it is installed."""
    if find_spec("tensorboard") is None:
        return None  # an extra: pip install 'transformer-lite-book[tensorboard]'
    from torch.utils.tensorboard import SummaryWriter

    # It drops what an interrupted run wrote about this step and later ones.
    return SummaryWriter(folder, purge_step=step)
