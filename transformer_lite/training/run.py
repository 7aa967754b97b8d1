"""A training run put together: recipe, data, model and trainer.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/package/training/test_run.py, tests/package/test_cli.py
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transformer_lite.batching import BatchStream, batches_per_step, fixed_batches
from transformer_lite.config import ModelConfig, Recipe, SearchConfig, TrainConfig
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.model import Transformer
from transformer_lite.optimizer import peak_step
from transformer_lite.precision import memory_error_on_full_gpu
from transformer_lite.runs.console import tell
from transformer_lite.runs.files import (
    delete_partial,
    only_process,
    sha256_of,
    write_whole,
)
from transformer_lite.runs.folder import RunFolder, find_run
from transformer_lite.runs.metrics import Metrics
from transformer_lite.runs.weights import load_weights
from transformer_lite.training.checkpoint import newest_complete
from transformer_lite.training.distributed import join_processes
from transformer_lite.training.memory import memory_of, require_memory, step_memory
from transformer_lite.training.trainer import OnValidation, Trainer

CHANGEABLE = (
    "model.attention",
    "train.max_steps",
    "train.cooldown_steps",
    "train.average_checkpoints",
    "train.checkpoint_every",
    "train.checkpoint_minutes",
    "train.validate_every",
    "train.precision",
    "train.compile",
)
"""Settings that may differ when a run is resumed."""

LARGEST_RATE = 1.0
"""Largest product of learning rate and d_model that a run begins without a warning.

The paper's base model peaks at 0.36, its big one at 0.5. On the toy grammar two layers,
64 or 128 wide, learn best near 0.25 and at 2 no more than how frequent each word is.
"""

Samples = Callable[[nn.Module, PreparedCorpus, SearchConfig], OnValidation]
"""Returns the function to call after each validation of a model in training."""


def train_recipe(
    recipe: Recipe,
    out: Path,
    samples: Samples | None = None,
    new_model: Callable[[ModelConfig], nn.Module] = Transformer,
) -> bool:
    """Train by a recipe in the folder `out`; return False if a signal ended it early.

    If `out` holds this run already, it resumes.

    Args:
        samples: `parsing.evaluation.validation_samples` shows and scores translations;
            without it a validation computes the loss alone.
        new_model: Makes the model, or another with its interface to compare it with.

    Raises:
        ValueError: The data is missing, or `out` holds another run or something else.
        OSError: A file cannot be written.
        FloatingPointError: The loss is no longer a finite number.
        MemoryError: A batch does not fit into the GPU's memory.
        ConnectionError: Another process of the run is lost.
    """
    # Unlock the folder last, so that the report of a lost process comes at once.
    with (
        memory_error_on_full_gpu(_no_room(recipe.train)),
        ExitStack() as lock,
        join_processes() as processes,
    ):
        with processes.all_or_none():
            corpus = PreparedCorpus(recipe.data)
            recipe = replace(recipe, model=_with_vocabulary_of(corpus, recipe.model))
            config = recipe.train
            stream = BatchStream(
                *corpus.ids("train"),
                config.batch_tokens,
                config.seed,
                batches_per_step(config),
                processes.rank,
                processes.world_size,
            )
            _require_room(recipe, corpus)
            with torch.device("meta"):  # where tensors have a shape and no numbers
                require_memory(new_model(recipe.model), processes.device)
            validation = fixed_batches(*corpus.ids("valid"), config.batch_tokens)
            folder, initial = RunFolder(out), None
            if recipe.begin_with is not None and not folder.steps_taken():
                initial = _initial_weights(recipe, corpus)
            if processes.rank == 0:
                lock.enter_context(_locked(folder))
                _open_run(recipe, folder, corpus, initial)
            torch.manual_seed(config.seed)
            model = new_model(recipe.model)
            if initial:
                load_weights(model, initial)
            model.to(processes.device)
            on_validation = samples(model, corpus, recipe.search) if samples else dict
        trainer = Trainer(
            model, stream, validation, config, out, processes, on_validation
        )
        if processes.rank == 0:
            tell(_announcement(recipe, corpus, trainer))
        return trainer.train()


def _no_room(config: TrainConfig) -> str:
    batch = config.batch_tokens
    return (
        f"the GPU's memory has no room for train.batch_tokens = {batch}; halve the "
        f"batches and keep the step with --train.batch-tokens {batch // 2} "
        f"--train.global-batch-tokens {config.global_batch_tokens or batch}, in "
        "another --out if this one has checkpoints"
    )


def _locked(folder: RunFolder) -> AbstractContextManager[None]:
    """Keep other runs out of the folder, which must be new or a run's."""
    # A killed run may have left half a file.
    files = (path for path in folder.path.glob("*") if path.suffix != ".partial")
    if set(files) - {folder.lock}:
        if not folder.config.exists():
            raise ValueError(
                f"{folder.path}: is neither empty nor the folder of a run; give a new "
                "one as --out"
            )
        folder.recipe()
    busy = (
        f"{folder.path}: another process is training in this folder; wait for its end, "
        "or give another --out"
    )
    return only_process(folder.lock, busy)


def _with_vocabulary_of(corpus: PreparedCorpus, config: ModelConfig) -> ModelConfig:
    """Give the model the vocabulary's size, unless it has another one already."""
    size = corpus.tokenizer.vocab_size
    if config.vocab_size not in (size, ModelConfig().vocab_size):
        raise ValueError(
            f"model.vocab_size = {config.vocab_size} is not the {size} of "
            f"{corpus.folder}; remove the setting, or prepare with that --vocab-size"
        )
    return replace(config, vocab_size=size)


def _initial_weights(recipe: Recipe, corpus: PreparedCorpus) -> Path:
    """Return the weights of the run that the recipe begins with, if they fit it."""
    run = find_run(recipe.begin_with)
    theirs, ours = map(_decisive, (run.recipe().model, recipe.model))
    corpus.require_vocabulary_of(run)
    if changes := [
        f"--model.{name.replace('_', '-')} {value}"
        for name, value in sorted(theirs.items())
        if ours.get(name) != value
    ]:
        raise ValueError(
            f"{run.path}: has weights of another model than the recipe; give "
            + " ".join(changes)
        )
    return run.default_weights()


def _decisive(config: ModelConfig) -> dict[str, Any]:
    """Return the settings that decide whether weights fit, and what they compute."""
    width = config.d_model // config.num_heads
    config = replace(config, d_k=config.d_k or width, d_v=config.d_v or width)
    free = {"dropout", "attention", *["max_len"] * (config.positions != "learned")}
    return {name: value for name, value in asdict(config).items() if name not in free}


def _open_run(
    recipe: Recipe, folder: RunFolder, corpus: PreparedCorpus, initial: Path | None
) -> None:
    """Write what a run's folder says of the run, or check that it is the same run."""
    record = _record_of(recipe, corpus, initial)
    if newest_complete(folder) or Metrics(folder.path).read():
        _require_same_run(recipe, folder, corpus)
        record = folder.training_data() | record
    contents = {
        folder.config: _to_json(asdict(recipe)),
        folder.tokenizer: corpus.vocabulary.read_bytes(),
        folder.corpus: _to_json(record),
    }
    # An average that is being written now is of no use either: the run replaces it.
    delete_partial(folder.checkpoints, "step-*", "best.*", "average.*")
    own = [folder.metrics, folder.checksums, *contents]
    delete_partial(folder.path, *(path.name for path in own))
    for path, content in contents.items():
        write_whole(path, partial(Path.write_bytes, data=content))


def _record_of(
    recipe: Recipe, corpus: PreparedCorpus, initial: Path | None
) -> dict[str, Any]:
    """Return what a run's folder says of its data and of its initial weights."""
    # A sentence of about 40 letters, which the run's page opens with.
    example = min(corpus.text("valid")[0], key=lambda text: abs(len(text) - 40))
    record = _data_of(corpus) | {"languages": corpus.languages, "example": example}
    record["tokenizer_sha256"] = corpus.sha256[corpus.vocabulary.name]
    if initial:
        name = recipe.begin_with
        record["begin_with"] = {"run": name, "sha256": sha256_of(initial)}
    return record


def _data_of(corpus: PreparedCorpus) -> dict[str, Any]:
    """Return what must not change in the data of a run."""
    pairs, fingerprint = corpus.sizes["train"], corpus.fingerprint
    sums = corpus.sha256.items()
    valid = {name: sum_ for name, sum_ in sums if name.startswith("valid.")}
    data = {"corpus": corpus.name, "pairs": pairs, "fingerprint": fingerprint}
    return data | {"valid_sha256": valid}


def _require_same_run(
    recipe: Recipe, folder: RunFolder, corpus: PreparedCorpus
) -> None:
    """Refuse to go on with other data, initial weights or settings than a run has."""
    before = folder.training_data()
    if not _data_of(corpus).items() <= before.items():
        raise ValueError(
            f"{folder.path}: holds a run on other data than {corpus.folder} has now; "
            "give another --out, or the data that it began with"
        )
    corpus.require_vocabulary_of(folder)
    match before.get("begin_with"):
        case {"run": str(began_with)}:
            pass
        case _:
            began_with = None
    if (began_with and Path(began_with).resolve()) != (
        recipe.begin_with and Path(recipe.begin_with).resolve()
    ):
        remedy = "give no --begin-with"
        if began_with:
            remedy = f"give --begin-with {began_with}, which may be gone by now"
        raise ValueError(
            f"{folder.path}: began with {began_with or 'weights of its own'}; "
            f"{remedy}, or another --out"
        )
    if recipe.train.max_steps < folder.steps_taken():
        raise ValueError(
            f"train.max_steps = {recipe.train.max_steps} is less than the "
            f"{folder.steps_taken()} steps that {folder.path} has; give more"
        )
    _require_same_settings(folder.recipe(), recipe, folder.path)


def _require_same_settings(old: Recipe, new: Recipe, out: Path) -> None:
    """Refuse a resumed run with other settings; print those that may change."""
    changed = []
    for part in ("model", "train", "search"):
        before, now = asdict(getattr(old, part)), asdict(getattr(new, part))
        for name, value in now.items():
            if before[name] == value:
                continue
            if part != "search" and f"{part}.{name}" not in CHANGEABLE:
                raise ValueError(
                    f"{out}: holds a run with {part}.{name} = {before[name]!r}, now it "
                    f"is {value!r}; give another --out, or the old value"
                )
            changed.append(f"{part}.{name} is now {value!r}, before {before[name]!r}")
    for line in changed:
        tell(line)


def _require_room(recipe: Recipe, corpus: PreparedCorpus) -> None:
    """Check that every sentence fits, before hours of training depend on it."""
    max_len, max_extra = recipe.model.max_len, recipe.search.max_extra
    batch = recipe.train.batch_tokens
    for split in ("train", "valid"):
        longest = 1 + max(int(side.lengths.max()) for side in corpus.ids(split))
        for name, room in (("model.max_len", max_len), ("train.batch_tokens", batch)):
            if longest > room:
                raise ValueError(
                    f"{corpus.folder}: {split} has a sentence of {longest} tokens, "
                    f"longer than {name} = {room}; give a larger one"
                )
    longest = 1 + int(corpus.ids("valid")[0].lengths.max())
    if longest > max_len - max_extra:
        raise ValueError(
            f"model.max_len = {max_len} leaves no room to translate valid's {longest} "
            f"tokens with search.max_extra = {max_extra}; give a larger model.max_len"
        )
    sides, step = corpus.ids("train"), recipe.train.global_batch_tokens
    epoch = batch + max(int(side.lengths.sum()) + len(side) for side in sides)
    if step and step > epoch:
        raise ValueError(
            f"train.global_batch_tokens = {step} is more than all the text of "
            f"{corpus.folder}; give at most {epoch}"
        )


def _announcement(recipe: Recipe, corpus: PreparedCorpus, trainer: Trainer) -> str:
    train = recipe.train
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    factor = trainer.state.schedule.lr_lambdas[0]
    lengths = (train.warmup_steps, train.max_steps, train.cooldown_steps)
    done = peak_step(factor, *lengths)
    rate = train.rate_scale * factor(done)
    lines = [
        f"{parameters:,} parameters, {corpus.sizes['train']:,} pairs, "
        f"{train.max_steps:,} steps",
        *_how_steps_are_shared(train, trainer),
        f"learning rate {rate:.1e} at its highest, in step {done + 1:,}",
    ]
    if train.cooldown_steps:
        lines[-1] += f"; falls to 0 over the last {train.cooldown_steps:,}"
    if rate * recipe.model.d_model > LARGEST_RATE:
        lines.append(
            f"warning: this rate times d_model is {rate * recipe.model.d_model:.1f}, "
            "and at most 0.5 in the paper; small models learned slowly at 1 and next "
            "to nothing at 2; give a smaller train.rate_scale or more "
            "train.warmup_steps"
        )
    return "\n".join(lines)


def _how_steps_are_shared(train: TrainConfig, trainer: Trainer) -> Iterator[str]:
    """Yield lines on what each process computes, and on the memory that it needs."""
    number, device = trainer.processes.world_size, trainer.processes.device
    batches, parts = batches_per_step(train), trainer.stream.parts
    batch_tokens = trainer.stream.batch_tokens
    is_cuda = device.type == "cuda"
    name = torch.cuda.get_device_name(device) if is_cuda else device.type
    cut = f" / {parts}" if parts > 1 else ""
    yield (
        f"{number} × {name}, {trainer.precision}; on each a step has "
        f"{batches * parts // number} × {batch_tokens:,}{cut} tokens at most"
    )
    if parts > 1:
        yield (
            f"each batch is cut in {parts}; the steps are those of one process, but "
            "for what dropout drops"
        )
    sentences = int(batches * batch_tokens / max(trainer.stream.mean_lengths()))
    if number > sentences:
        yield (
            f"warning: a step has about {sentences} sentences, so some of {number} "
            f"processes have nothing to do; start at most {sentences}"
        )
    tokens = -(-batch_tokens // parts)  # rounded up
    needed = step_memory(trainer.model, tokens, trainer.precision, device.type)
    if needed:
        free, _ = memory_of(device)
        yield f"memory of a step, in MB on each: {needed}"
        if sum(needed) - needed.weights > free:  # the weights are there already
            yield (
                f"warning: {free / 1e6:,.1f} MB are free; give less than "
                f"train.batch_tokens = {train.batch_tokens:,}, and "
                "train.global_batch_tokens to keep the step"
            )


def _to_json(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=2, default=str) + "\n").encode()
