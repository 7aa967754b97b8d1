"""A training run put together: recipe, data, model and trainer.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/training/test_run.py, tests/test_cli.py
"""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from transformer_lite.batching import BatchStream, batches_per_step, fixed_batches
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
)
"""Settings that may differ when a run is resumed."""


Samples = Callable[[Transformer, PreparedCorpus, SearchConfig], OnValidation]
"""Makes, for a model in training, what is called after each validation."""


def train_recipe(recipe: Recipe, out: Path, samples: Samples | None = None) -> bool:
    """Train by a recipe in the folder `out`; return False if a signal ended it early.

    A run that is in `out` already is resumed.

    Args:
        recipe: What to train, on what, and how.
        out: The run's folder.
        samples: Watches the translations; `inference.scores.ValidationSamples` does.

    Raises:
        ValueError: The data is missing, or `out` holds another run.
        ConnectionError: Another process of the run is lost.
    """
    corpus = PreparedCorpus(recipe.data)
    recipe = replace(recipe, model=_with_vocabulary_of(corpus, recipe.model))
    with join_processes() as processes:
        torch.manual_seed(recipe.train.seed)
        model = Transformer(recipe.model).to(processes.device)
        src, tgt = corpus.ids("train")
        stream = BatchStream(
            src,
            tgt,
            recipe.train.batch_tokens,
            recipe.train.seed,
            batches_per_step(recipe.train, processes.world_size),
            processes.rank,
            processes.world_size,
        )
        validation = fixed_batches(*corpus.ids("valid"), recipe.train.batch_tokens)
        _require_room(recipe, corpus)
        watch = samples(model, corpus, recipe.search) if samples else dict
        trainer = Trainer(
            model, stream, validation, recipe.train, out, processes, watch
        )
        if processes.rank != 0:
            return trainer.train()
        folder = RunFolder(out)
        if out.exists() and not out.is_dir():
            raise ValueError(f"{out}: is a file; give another --out")
        busy = (
            f"{out}: another process is training in this folder; wait for its end, or "
            "give another --out"
        )
        with only_process(folder.lock, busy):
            _open_run(recipe, folder, corpus)
            length = float(tgt.lengths.mean()) + 1  # with EOS
            print(
                announcement(recipe, model, len(src), length, processes),
                file=sys.stderr,
            )
            finished = trainer.train()
            if finished:
                print(run_summary(recipe, trainer.metrics), file=sys.stderr)
            return finished


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
    if folder.config.exists():
        _compare(folder.recipe(), recipe, out)
    vocabulary = (corpus.folder / "tokenizer.model").read_bytes()
    if folder.tokenizer.exists() and folder.tokenizer.read_bytes() != vocabulary:
        raise ValueError(
            f"{out}: holds a run with another vocabulary than {corpus.folder}; "
            "give another --out, or the data that it began with"
        )
    data = {"corpus": corpus.name, "pairs": corpus.sizes["train"]}
    data["fingerprint"] = corpus.fingerprint()
    if folder.corpus.exists() and json.loads(folder.corpus.read_text("utf-8")) != data:
        raise ValueError(
            f"{out}: holds a run on other training data than {corpus.folder} has now; "
            "give another --out, or the data that it began with"
        )
    write_whole(folder.tokenizer, lambda partial: partial.write_bytes(vocabulary))
    write_whole(folder.corpus, lambda partial: partial.write_text(_to_json(data)))
    settings = _to_json(asdict(recipe))
    write_whole(folder.config, lambda partial: partial.write_text(settings))


def _require_room(recipe: Recipe, corpus: PreparedCorpus) -> None:
    """See that every sentence fits into the model before hours have gone by."""
    max_len, max_extra = recipe.model.max_len, recipe.search.max_extra
    for split in ("train", "valid"):
        longest = 1 + max(int(side.lengths.max()) for side in corpus.ids(split))
        if longest > max_len:
            raise ValueError(
                f"{corpus.folder}: {split} has a sentence of {longest} tokens, longer "
                f"than model.max_len = {max_len}; give a larger one"
            )
    longest = 1 + int(corpus.ids("valid")[0].lengths.max())
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
