"""What a run measured: one JSON object a line, and TensorBoard events.

Paper: §6
Chapter: the_multi_gpu_trainer
Tests: tests/test_metrics.py
"""

import json
import re
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from transformer_lite.checkpoint import write_whole


class Metrics:
    """A run's metrics.jsonl, and the same as events in its folder tensorboard/.

    Use it as a context manager, which closes the events' file.

    Args:
        run: The run's folder; what is needed in it is made with the first record.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / "metrics.jsonl"
        self._events_folder = run / "tensorboard"
        self._events: SummaryWriter | None = None

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None:
        if self._events:
            self._events.close()
            self._events = None

    def add(self, step: int, **values: Any) -> None:
        """Append a record of one step."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, **values}, ensure_ascii=False) + "\n")
        if self._events is None:
            # What an interrupted run wrote about this step and later ones is purged.
            self._events = SummaryWriter(self._events_folder, purge_step=step)
        for name, value in values.items():
            tag = re.sub("^(train|valid)_", r"\1/", name)
            if isinstance(value, int | float):
                self._events.add_scalar(tag, value, step)
            elif isinstance(value, list):
                self._events.add_text(tag, "\n\n".join(map(str, value)), step)

    def read(self) -> list[dict[str, Any]]:
        """All records, the oldest first.

        A line that a killed process left unfinished is not a record.

        Raises:
            ValueError: A line is damaged.
        """
        if not self.path.exists():
            return []
        lines = self.path.read_bytes().split(b"\n")[:-1]
        return [self._record(number, line) for number, line in enumerate(lines, 1)]

    def _record(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line)
            record["step"] + 0  # a record has a step, and that is a number
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(
                f"{self.path}, line {number}: not a record; delete this line"
            ) from error
        return record

    def forget_after(self, step: int) -> None:
        """Drop the records of later steps, which are about to be taken again."""
        kept = [record for record in self.read() if record["step"] <= step]
        text = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in kept)
        write_whole(self.path, lambda partial: partial.write_text(text, "utf-8"))
