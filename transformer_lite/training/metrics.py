"""What a run measures and says: records, TensorBoard, its first and last words.

Paper: §5.2, Table 2
Chapter: the_multi_gpu_trainer
Tests: tests/training/test_metrics.py
"""

import json
import math
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.tensorboard import SummaryWriter

from transformer_lite.batching import batches_per_step
from transformer_lite.config import ModelConfig, Recipe
from transformer_lite.files import write_whole
from transformer_lite.model import Transformer
from transformer_lite.optimizer import noam_rate
from transformer_lite.training.distributed import Processes
from transformer_lite.training.folder import RunFolder
from transformer_lite.training.hardware import choose_precision

LARGEST_RATE = 1.0
"""Above this product of learning rate and d_model a run's start warns.

The paper's base model peaks at 0.36, its big one at 0.5. On the toy grammar two layers,
64 or 128 wide, learn best near 0.25 and slowly at 1; at 2 they learn no more than how
frequent each word is.
"""
SECONDS_BETWEEN_WRITES = 1.0


class Metrics:
    """A run's metrics.jsonl, and the same as events in its folder tensorboard/.

    Use it as a context manager, which at its end writes what waits to be written. Small
    models take hundreds of steps a second: those of a second are written together.

    Args:
        run: The run's folder; what is needed in it is made with the first record.
    """

    def __init__(self, run: Path) -> None:
        folder = RunFolder(run)
        self.path, self._events_folder = folder.metrics, folder.events
        self._events: SummaryWriter | None = None
        self._waiting: list[str] = []
        self._written_at = -math.inf

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None:
        self.write()
        if self._events:
            self._events.close()
            self._events = None

    def add(self, step: int, **values: Any) -> None:
        """Append a record of one step; it is written within a second or so."""
        record = json.dumps({"step": step, **values}, ensure_ascii=False)
        self._waiting.append(record + "\n")
        if time.monotonic() - self._written_at > SECONDS_BETWEEN_WRITES:
            self.write()
        if self._events is None:
            # What an interrupted run wrote about this step and later ones is purged.
            self._events = SummaryWriter(self._events_folder, purge_step=step)
        for name, value in values.items():
            if isinstance(value, int | float):
                self._events.add_scalar(name, value, step)
            elif isinstance(value, list):
                self._events.add_text(name, "\n\n".join(map(str, value)), step)

    def write(self) -> None:
        """Write the records that wait for it."""
        if self._waiting:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(self._waiting)
            self._waiting.clear()
        self._written_at = time.monotonic()

    def read(self) -> list[dict[str, Any]]:
        """All records, the oldest first.

        A line that a killed process left unfinished is not a record.

        Raises:
            ValueError: A line is damaged.
        """
        self.write()
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
    """Floating-point operations of a training step per target token (Table 2).

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


def announcement(
    recipe: Recipe,
    model: nn.Module,
    pairs: int,
    mean_length: float,
    processes: Processes,
) -> str:
    """What is about to run, and on what.

    Args:
        recipe: The run's recipe.
        model: Its model.
        pairs: Number of training pairs.
        mean_length: Mean number of target tokens of a training pair.
        processes: This process among all.
    """
    train = recipe.train
    precision = choose_precision(train.precision, processes.device)
    chosen = "chosen for this device" if train.precision == "auto" else "as asked"
    batches = batches_per_step(train, processes.world_size)
    tokens = batches * train.batch_tokens
    length = min(math.ceil(mean_length), recipe.model.max_len)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    work = ""
    if isinstance(model, Transformer):
        flops = tokens * flops_per_token(recipe.model, length)
        work = f"; {flops:.2e} floating-point operations"
    each = batches // processes.world_size
    return "\n".join(
        [
            f"model      {parameters:,} parameters",
            f"data       {pairs:,} pairs, {mean_length:.1f} target tokens each",
            f"devices    {processes.world_size} × {_device(processes.device)}",
            f"precision  {precision} ({chosen})"
            + (", compiled" if train.compile else ""),
            f"step       {batches} × {train.batch_tokens:,} tokens at most, "
            f"{each} on each device{work}",
            *_rate_lines(recipe),
            f"run        {train.max_steps:,} steps, "
            f"about {train.max_steps * tokens / (pairs * mean_length):.1f} epochs",
        ]
    )


def _rate_lines(recipe: Recipe) -> list[str]:
    """The highest learning rate, and a warning where none has learned at it."""
    width, train = recipe.model.d_model, recipe.train
    step = min(train.warmup_steps, train.max_steps)
    rate = train.rate_scale * noam_rate(step, width, train.warmup_steps)
    lines = [f"rate       {rate:.1e} at its highest, in step {step:,}"]
    if rate * width > LARGEST_RATE:
        lines.append(
            f"warning    post-norm models {width} wide have learned nothing above "
            f"a rate of {LARGEST_RATE / width:.1e}; give a smaller train.rate_scale "
            "or more train.warmup_steps"
        )
    return lines


def run_summary(recipe: Recipe, metrics: Metrics) -> str:
    """What a finished run measured, as far as it is on record, for a report."""
    records = metrics.read()
    steps = [record for record in records if "train_loss" in record]
    validations = [record for record in records if "valid_loss" in record]
    lines = [
        *(_step_lines(steps) if steps else [f"steps      none in {metrics.path}"]),
        *(_validation_lines(validations) if validations else []),
        f"average    of the last checkpoints, {recipe.train.average_checkpoints} at "
        "most, for translate and evaluate",
    ]
    return "\n".join(lines)


def _step_lines(steps: list[dict[str, Any]]) -> list[str]:
    """What the records of steps add up to."""
    tokens = sum(record["tokens"] for record in steps)
    seconds = sum(r["tokens"] / max(r["tokens_per_second"], 1) for r in steps)
    lines = [
        f"steps      {len(steps):,}, {tokens:,} target tokens",
        f"training   {timedelta(seconds=round(seconds))}, "
        f"{tokens / seconds:,.0f} target tokens a second",
    ]
    if skipped := steps[-1]["skipped_steps"]:
        lines.append(f"skipped    {skipped} steps, for fp16's range")
    return lines


def _validation_lines(validations: list[dict[str, Any]]) -> list[str]:
    """The best validation's perplexity, the last one's BLEU or F1."""
    best = min(validations, key=lambda record: record["valid_loss"])
    lines = [
        f"validation perplexity {best['valid_perplexity']:.2f} "
        f"at step {best['step']:,} (the best)"
    ]
    if "valid_f1" in validations[-1]:
        trees = validations[-1]["valid_well_formed"]
        lines.append(
            f"           bracket F1 {validations[-1]['valid_f1']:.1f} at the end, "
            f"{trees:.0f} % of outputs are trees (greedy, first sentences; `evaluate` "
            "gives the real one)"
        )
    if "valid_bleu" in validations[-1]:
        bleu = validations[-1]["valid_bleu"]
        lines.append(
            f"           BLEU {bleu:.1f} at the end (greedy, first sentences; "
            "`evaluate` gives the real one)"
        )
        if bleu < 1:
            lines.append(
                "warning    this model does not translate yet; give it more "
                "--train.max-steps, or begin another run with a smaller "
                "--train.rate-scale or more --train.warmup-steps"
            )
    return lines


def _device(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'s' if threads > 1 else ''}"
