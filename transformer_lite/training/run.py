"""A training run put together: recipe, data, model and trainer.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/training/test_run.py, tests/test_cli.py
"""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transformer_lite.batching import (
    BatchStream,
    Sequences,
    batches_per_step,
    fixed_batches,
)
from transformer_lite.config import ModelConfig, Recipe, SearchConfig
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.files import only_process, write_whole
from transformer_lite.model import Transformer
from transformer_lite.training.distributed import join_processes
from transformer_lite.training.folder import RunFolder
from transformer_lite.training.metrics import announcement, run_summary
from transformer_lite.training.trainer import OnValidation, Trainer

CHANGEABLE = (
    "max_steps",
    "average_checkpoints",
    "checkpoint_every",
    "checkpoint_minutes",
    "validate_every",
    "precision",
)
"""Settings that may differ when a run is resumed."""


Samples = Callable[[nn.Module, PreparedCorpus, SearchConfig], OnValidation]
"""Makes, for a model in training, what is called after each validation."""


def train_recipe(
    recipe: Recipe,
    out: Path,
    samples: Samples | None = None,
    new_model: Callable[[ModelConfig], nn.Module] = Transformer,
) -> bool:
    """Train by a recipe in the folder `out`; return False if a signal ended it early.

    A run that is in `out` already is resumed.

    Args:
        recipe: What to train, on what, and how.
        out: The run's folder.
        samples: Watches the translations; `inference.scores.ValidationSamples` does.
        new_model: Makes the model, or another with its interface to compare it with.

    Raises:
        ValueError: The data is missing, or `out` holds another run.
        MemoryError: A batch does not fit into the GPU's memory.
        ConnectionError: Another process of the run is lost.
    """
    try:
        return _train_recipe(recipe, out, samples, new_model)
    except torch.OutOfMemoryError as error:
        batch = recipe.train.batch_tokens
        step = recipe.train.global_batch_tokens or batch
        raise MemoryError(
            f"the GPU's memory has no room for train.batch_tokens = {batch}; halve the "
            f"batches and keep the step with --train.batch-tokens {batch // 2} "
            f"--train.global-batch-tokens {step}, in another --out if this one has "
            f"checkpoints ({str(error).splitlines()[0]})"
        ) from error


def _train_recipe(
    recipe: Recipe,
    out: Path,
    samples: Samples | None,
    new_model: Callable[[ModelConfig], nn.Module],
) -> bool:
    corpus = PreparedCorpus(recipe.data)
    recipe = replace(recipe, model=_with_vocabulary_of(corpus, recipe.model))
    # The folder is let go last, so that nothing delays the word of a lost process.
    with ExitStack() as held, join_processes() as processes:
        torch.manual_seed(recipe.train.seed)
        model = new_model(recipe.model).to(processes.device)
        src, tgt = corpus.ids("train")
        valid = corpus.ids("valid")
        stream = BatchStream(
            src,
            tgt,
            recipe.train.batch_tokens,
            recipe.train.seed,
            batches_per_step(recipe.train, processes.world_size),
            processes.rank,
            processes.world_size,
        )
        _require_room(recipe, {"train": (src, tgt), "valid": valid}, corpus.folder)
        validation = fixed_batches(*valid, recipe.train.batch_tokens)
        watch = samples(model, corpus, recipe.search) if samples else dict
        trainer = Trainer(
            model, stream, validation, recipe.train, out, processes, watch
        )
        with processes.all_or_none():
            if processes.rank == 0:
                held.enter_context(_only_run(out))
                _open_run(recipe, RunFolder(out), corpus)
                length = float(tgt.lengths.mean()) + 1  # with EOS
                told = announcement(recipe, model, len(src), length, processes)
                print(told, file=sys.stderr)
        finished = trainer.train()
        if finished and processes.rank == 0:
            print(run_summary(recipe, trainer.metrics), file=sys.stderr)
        return finished


def _only_run(out: Path) -> AbstractContextManager[None]:
    """Keep other runs out of the folder."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: is a file; give another --out")
    busy = (
        f"{out}: another process is training in this folder; wait for its end, or give "
        "another --out"
    )
    return only_process(RunFolder(out).lock, busy)


def _with_vocabulary_of(corpus: PreparedCorpus, config: ModelConfig) -> ModelConfig:
    """The model's configuration; one that leaves the default takes the data's size."""
    size = corpus.tokenizer.vocab_size
    if config.vocab_size not in (size, ModelConfig().vocab_size):
        raise ValueError(
            f"model.vocab_size = {config.vocab_size} is not the {size} of "
            f"{corpus.folder}; leave it out, or prepare with that --vocab-size"
        )
    return replace(config, vocab_size=size)


def _open_run(recipe: Recipe, folder: RunFolder, corpus: PreparedCorpus) -> None:
    """Make the run's folder, or see that it holds the same run."""
    out = folder.path
    if folder.corpus.exists() and not folder.config.exists():
        raise ValueError(f"{out}: a prepared corpus; give the run another --out")
    # Without weights there is nothing that another run could spoil.
    begun = any(folder.checkpoints.glob("*.safetensors"))
    if begun:
        _compare(folder.recipe(), recipe, out)
    vocabulary = (corpus.folder / "tokenizer.model").read_bytes()
    if begun and folder.tokenizer.read_bytes() != vocabulary:
        raise ValueError(
            f"{out}: holds a run with another vocabulary than {corpus.folder}; "
            "give another --out, or the data that it began with"
        )
    data = {"corpus": corpus.name, "pairs": corpus.sizes["train"]}
    data["fingerprint"] = corpus.fingerprint()
    if begun:
        before = folder.training_data()
        if {name: before.get(name) for name in data} != data:
            raise ValueError(
                f"{out}: holds a run on other training data than {corpus.folder} has "
                "now; give another --out, or the data that it began with"
            )
    data["languages"] = corpus.languages
    # First what no prepared corpus has: a process killed here leaves a run.
    settings = _to_json(asdict(recipe))
    write_whole(folder.config, lambda partial: partial.write_text(settings))
    write_whole(folder.tokenizer, lambda partial: partial.write_bytes(vocabulary))
    write_whole(folder.corpus, lambda partial: partial.write_text(_to_json(data)))


def _require_room(
    recipe: Recipe, splits: Mapping[str, tuple[Sequences, Sequences]], data: Path
) -> None:
    """See that every sentence fits, before hours have gone by."""
    max_len, max_extra = recipe.model.max_len, recipe.search.max_extra
    batch = recipe.train.batch_tokens
    for split, sides in splits.items():
        longest = 1 + max(int(side.lengths.max()) for side in sides)
        if longest > max_len:
            raise ValueError(
                f"{data}: {split} has a sentence of {longest} tokens, longer "
                f"than model.max_len = {max_len}; give a larger one"
            )
        if longest > batch:
            raise ValueError(
                f"{data}: {split} has a sentence of {longest} tokens, for which "
                f"train.batch_tokens = {batch} has no room; give a larger one"
            )
    longest = 1 + int(splits["valid"][0].lengths.max())
    if longest > max_len - max_extra:
        raise ValueError(
            f"model.max_len = {max_len} leaves no room to translate valid's {longest} "
            f"tokens with search.max_extra = {max_extra}; give a larger model.max_len"
        )


def _to_json(values: dict[str, Any]) -> str:
    return json.dumps(values, indent=2, default=str) + "\n"


def _compare(old: Recipe, new: Recipe, out: Path) -> None:
    for part in ("model", "train"):
        before, now = asdict(getattr(old, part)), asdict(getattr(new, part))
        for name, value in now.items():
            if name not in CHANGEABLE and before[name] != value:
                raise ValueError(
                    f"{out}: holds a run with {part}.{name} = {before[name]!r}, now it "
                    f"is {value!r}; give another --out, or the old value"
                )
