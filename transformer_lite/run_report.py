"""What a run says about itself at its start and at its end.

Paper: §5.2, Table 2
Chapter: the_multi_gpu_trainer
Tests: tests/test_run_report.py
"""

import math
from dataclasses import replace
from datetime import timedelta

import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_lite.batching import batches_per_step
from transformer_lite.config import ModelConfig
from transformer_lite.distributed import Processes
from transformer_lite.metrics import Metrics
from transformer_lite.model import Transformer
from transformer_lite.precision import choose_precision
from transformer_lite.recipe import Recipe


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
    model: Transformer,
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
    chosen = "found by detection" if train.precision == "auto" else "as asked"
    batches = batches_per_step(train, processes.world_size)
    tokens = batches * train.batch_tokens
    length = min(math.ceil(mean_length), recipe.model.max_len)
    flops = tokens * flops_per_token(recipe.model, length)
    each = batches // processes.world_size
    return "\n".join(
        [
            f"model      {model.num_parameters():,} parameters",
            f"data       {pairs:,} pairs, {mean_length:.1f} target tokens each",
            f"devices    {processes.world_size} × {_device(processes.device)}",
            f"precision  {precision} ({chosen})"
            + (", compiled" if train.compile else ""),
            f"step       {batches} × {train.batch_tokens:,} tokens at most, "
            f"{each} on each device; {flops:.2e} floating-point operations",
            f"run        {train.max_steps:,} steps, "
            f"about {train.max_steps * tokens / (pairs * mean_length):.1f} epochs",
        ]
    )


def run_summary(recipe: Recipe, metrics: Metrics) -> str:
    """What a finished run measured, to be pasted into a report."""
    records = metrics.read()
    steps = [record for record in records if "train_loss" in record]
    validations = [record for record in records if "valid_loss" in record]
    tokens = sum(record["tokens"] for record in steps)
    seconds = sum(r["tokens"] / max(r["tokens_per_second"], 1) for r in steps)
    best = min(validations, key=lambda record: record["valid_loss"])
    lines = [
        f"steps      {len(steps):,}, {tokens:,} target tokens",
        f"training   {timedelta(seconds=round(seconds))}, "
        f"{tokens / seconds:,.0f} target tokens a second",
        f"validation perplexity {best['valid_perplexity']:.2f} "
        f"at step {best['step']:,} (the best)",
    ]
    if "valid_bleu" in validations[-1]:
        lines.append(
            f"           BLEU {validations[-1]['valid_bleu']:.1f} at the end (greedy, "
            "first sentences; `evaluate` gives the real one)"
        )
    if steps[-1]["skipped_steps"]:
        lines.append(f"skipped    {steps[-1]['skipped_steps']} steps, for fp16's range")
    lines.append(
        f"average    of the last checkpoints, {recipe.train.average_checkpoints} at "
        "most, for translate and evaluate"
    )
    return "\n".join(lines)


def _device(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type}, {torch.get_num_threads()} threads"
