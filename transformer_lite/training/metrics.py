"""What a run measures: a record of each step, and the work of a step.

Paper: §5.2, Table 2
Chapter: 05_1_training_data_and_batching, the_multi_gpu_trainer
Tests: tests/training/test_metrics.py
"""

import json
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_lite.config import ModelConfig
from transformer_lite.files import write_whole
from transformer_lite.model import Transformer
from transformer_lite.run_folder import RunFolder

try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError:  # an extra: pip install 'transformer-lite-book[tensorboard]'
    SummaryWriter = None


class Metrics:
    """A run's metrics.jsonl, and the same for TensorBoard where that is installed.

    Use it as a context manager: it closes its files at the end.

    Args:
        run: The run's folder; it is made with the first record.
    """

    def __init__(self, run: Path) -> None:
        folder = RunFolder(run)
        self.path, self._events_folder = folder.metrics, folder.events
        self._file: TextIOWrapper | None = None
        self._events: Any = None

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._file, self._events):
            if file is not None:
                file.close()
        self._file = self._events = None

    def add(self, step: int, **values: Any) -> None:
        """Append a record of one step."""
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a", encoding="utf-8")
            if SummaryWriter is not None:
                # It purges what an interrupted run wrote about this and later steps.
                self._events = SummaryWriter(self._events_folder, purge_step=step)
        record = json.dumps({"step": step, **values}, ensure_ascii=False)
        self._file.write(record + "\n")
        self._file.flush()
        if self._events is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._events.add_scalar(name, value, step)

    def read(self) -> list[dict[str, Any]]:
        """Read all records, the oldest first.

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


def flops_per_token(config: ModelConfig, length: int) -> float:
    """Count the floating-point operations of a step per target token (Table 2).

    PyTorch counts those of the forward pass on a pair of sentences that are each
    `length` tokens long; the backward pass takes twice as many.
    """
    with torch.device("meta"):
        # The explicit attention is counted everywhere, the fused one is not.
        model = Transformer(replace(config, attention="explicit"))
        ids = torch.empty(1, length, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(ids, ids)
    return 3 * counter.get_total_flops() / length
