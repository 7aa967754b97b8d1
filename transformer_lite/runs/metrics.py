"""A run's metrics: what every step and every validation measured.

Paper: –
Chapter: the_multi_gpu_trainer
Tests: tests/package/runs/test_metrics.py
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformer_lite.runs.console import tell
from transformer_lite.runs.files import write_whole
from transformer_lite.runs.folder import RunFolder


class Metrics:
    """A run's metrics.jsonl, and the same for TensorBoard where that is installed.

    Use it as a context manager: it closes TensorBoard's file at the end.

    Args:
        run: The run's folder; the first record makes it.
    """

    def __init__(self, run: Path) -> None:
        folder = RunFolder(run)
        self.path, self._events_folder = folder.metrics, folder.events
        self._is_begun, self._events = False, None

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None:
        with self._optional():
            if self._events is not None:
                self._events.close()
        self._is_begun, self._events = False, None

    def add(self, step: int, **values: Any) -> None:
        """Append a record of one step; a number that is not finite becomes null.

        Raises:
            OSError: The disk is full, or the folder is gone.
        """
        try:
            if not self._is_begun:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line({"step": step, **values}))
        except OSError as error:
            raise OSError(
                f"{self.path}: cannot be written ({error.strerror}); free some disk "
                "space, or bring the folder back; the same command resumes the run "
                "from its last checkpoint"
            ) from error
        if not self._is_begun:
            self._is_begun = True
            with self._optional():
                self._events = _tensorboard(self._events_folder, step)
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
            tell(f"TensorBoard failed ({problem}); the run goes on without it")
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
