"""A training run put together: recipe, data, model, trainer and samples.

Paper: §5
Chapter: the_multi_gpu_trainer
Tests: tests/test_cli.py
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from tqdm import tqdm

from transformer_lite import checkpoint
from transformer_lite.batching import BatchStream, batches_per_step, fixed_batches
from transformer_lite.config import ModelConfig
from transformer_lite.distributed import join_processes
from transformer_lite.model import Transformer
from transformer_lite.preparation import PreparedCorpus
from transformer_lite.recipe import Recipe
from transformer_lite.run_report import announcement, run_summary
from transformer_lite.trainer import Trainer
from transformer_lite.translator import Translator, read_run, score

SCORED = 200
"""Validation sentences that are translated at each validation."""
SHOWN = 3
"""How many of these translations are shown."""
CHANGEABLE = (
    "max_steps",
    "average_checkpoints",
    "checkpoint_every",
    "checkpoint_minutes",
    "validate_every",
)
"""Settings that may differ when a run is gone on with."""


def train_recipe(recipe: Recipe, out: Path) -> bool:
    """Train by a recipe in the folder `out`; False if a signal ended it early.

    A run that is in `out` already is gone on with.

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
        samples = _Samples(Translator(model, corpus.tokenizer, recipe.search), corpus)
        trainer = Trainer(
            model, stream, validation, recipe.train, out, processes, samples.translate
        )
        if processes.rank != 0:
            return trainer.train()
        with _only_run(out):
            _open_run(recipe, out, corpus)
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


@contextmanager
def _only_run(out: Path) -> Iterator[None]:
    """Keep a second run out of the folder; a killed run leaves it open.

    Raises:
        ValueError: A run is going on there, or `out` is no folder.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out}: is a file; give another --out")
    out.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(out / ".lock", timeout=0):
            yield
    except Timeout:
        raise ValueError(
            f"{out}: another process is training in this folder; wait for its end, or "
            "give another --out"
        ) from None


class _Samples:
    """The first validation sentences, translated again at every validation."""

    def __init__(self, translator: Translator, corpus: PreparedCorpus) -> None:
        sources, references = corpus.text("valid")
        self.translator = translator
        self.sources, self.references = sources[:SCORED], references[:SCORED]
        # Greedy search is several times faster, and enough to watch a run.
        self.search = replace(translator.search, beam_size=1)

    def translate(self) -> dict[str, Any]:
        """Show some translations; what is returned goes into the metrics."""
        translations = self.translator.translate(self.sources, self.search)
        samples = zip(self.sources, self.references, translations, strict=True)
        for source, reference, translation in islice(samples, SHOWN):
            tqdm.write(f"  source       {source}", file=sys.stderr)
            tqdm.write(f"  reference    {reference}", file=sys.stderr)
            tqdm.write(f"  translation  {translation}", file=sys.stderr)
        return {
            "valid_bleu": score(translations, self.references).bleu,
            "translations": translations[:SHOWN],
        }


def _open_run(recipe: Recipe, out: Path, corpus: PreparedCorpus) -> None:
    """Make the run's folder, or see that it holds the same run."""
    path = out / "config.json"
    if path.exists():
        _compare(read_run(out), recipe, out)
    vocabulary = (corpus.folder / "tokenizer.model").read_bytes()
    copy = out / "tokenizer.model"
    if copy.exists() and copy.read_bytes() != vocabulary:
        raise ValueError(
            f"{out}: holds a run with another vocabulary than {corpus.folder}; "
            "give another --out, or the data that it began with"
        )
    data = {"corpus": corpus.name, "pairs": corpus.sizes["train"]}
    data["fingerprint"] = corpus.fingerprint()
    record = out / "corpus.json"
    if record.exists() and json.loads(record.read_text(encoding="utf-8")) != data:
        raise ValueError(
            f"{out}: holds a run on other training data than {corpus.folder} has now; "
            "give another --out, or the data that it began with"
        )
    checkpoint.write_whole(copy, lambda partial: partial.write_bytes(vocabulary))
    checkpoint.write_whole(record, lambda partial: partial.write_text(_to_json(data)))
    settings = _to_json(asdict(recipe))
    checkpoint.write_whole(path, lambda partial: partial.write_text(settings))


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
