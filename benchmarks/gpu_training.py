"""Train Multi30k's better recipe for real on a GPU: three seeds at once.

A model of this size leaves most of a GPU idle, so its processes share one. They take as
many steps as the time allows, at most the recipe's. Ids and vocabulary are prepared
beforehand, where there is a network: `python benchmarks/gpu.py --prepare FOLDER`.
"""

import multiprocessing
import os
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

from gpu_workload import Setup

from results import records
from results.provenance import recorded_commit
from results.runs import CORPORA, RUNS, Run
from results.storage import read_json
from transformer_lite.config import TrainConfig
from transformer_lite.data.corpora import Corpus, SentencePair
from transformer_lite.data.prepare import prepare
from transformer_lite.data.toy import generate_pairs
from transformer_lite.parsing.evaluation import validation_samples
from transformer_lite.runs.metrics import Metrics
from transformer_lite.training.run import train_recipe

TRIAL_STEPS = 200
"""Steps that show how long one takes; the first half warms up."""
SCORING_SECONDS = 40
"""Kept for the translation of two splits and for their scores."""


def prepare_corpus(folder: Path) -> None:
    """Make the corpora that travel along, unless they are there."""
    run = run_of(seed=1, is_tiny=False)
    if not (folder / run.corpus).exists():
        words = [*CORPORA[run.corpus].split(), "--out", str(folder / run.corpus)]
        command = [sys.executable, "-m", "transformer_lite", "prepare", *words]
        subprocess.run(command, check=True)


def prepare_tiny_corpus(folder: Path) -> None:
    """Make a corpus that is hardly any, in the place of the toy corpus."""
    pairs = generate_pairs(seed=1)
    splits = {
        split: [SentencePair(p.source, p.target) for p in islice(pairs, 50)]
        for split in ("train", "valid", "test")
    }
    prepare(Corpus("toy", splits), folder / "toy", 150, 100, skip_unusable=False)


def run_of(seed: int, is_tiny: bool) -> Run:
    """Return the better recipe's run, or hardly any of the toy corpus."""
    runs = {run.name: run for run in RUNS}
    if is_tiny:
        return replace(
            runs["toy-1"],
            name=f"gpu/toy-{seed}",
            seed=seed,
            changes={"train": {"max_steps": 4, "checkpoint_every": 2}},
        )
    return replace(
        runs["search/wide-1"],
        name=f"gpu/multi30k_en_de_wide-{seed}",
        purpose="Translation, English to German, twice as wide, on a GPU",
        seed=seed,
        splits=("valid", "test_2016_flickr"),
    )


def shortened(train: TrainConfig, steps: int) -> dict[str, int]:
    """Return what changes in a recipe that is cut to so many steps."""
    cooldown = train.cooldown_steps * steps // train.max_steps
    return {"max_steps": steps, "cooldown_steps": cooldown}


def train_for_real(setup: Setup, seconds: float) -> dict:
    """Train all seeds side by side; return results as results/make.py writes them.

    They are also in results.tar.gz, with the translations.

    Raises:
        FileNotFoundError: No corpus has travelled along.
        ValueError: There is no time for more than the warm-up.
    """
    end = time.monotonic() + seconds
    seeds = (1,) if setup.is_tiny else (1, 2, 3)
    runs = {seed: run_of(seed, setup.is_tiny) for seed in seeds}
    corpus = (setup.carried / runs[1].corpus).resolve()
    with TemporaryDirectory() as name:
        root = Path(name)
        data = root / runs[1].data
        data.parent.mkdir(parents=True)
        if setup.is_tiny:
            prepare_tiny_corpus(data.parent)
        elif corpus.exists():
            data.symlink_to(corpus)
        else:
            raise FileNotFoundError(
                f"{corpus}: make it with python benchmarks/gpu.py --prepare "
                f"{setup.carried}"
            )
        processes = []
        context = multiprocessing.get_context("spawn")
        for seed in seeds:
            here, there = context.Pipe()
            arguments = (root, seed, setup.is_tiny, there)
            context.Process(target=train_one, args=arguments, daemon=True).start()
            there.close()
            processes.append(here)
        pace = max(process.recv() for process in processes)
        train = runs[1].settings().train
        left = end - time.monotonic() - SCORING_SECONDS
        steps = min(train.max_steps, int(0.9 * left / pace))
        if steps < min(train.max_steps, 2 * train.warmup_steps):
            raise ValueError(f"a step takes {pace:.3f} s; only {steps} would fit")
        for process in processes:
            process.send(steps)
        for process in processes:
            process.recv()
        with tarfile.open(setup.out / "results.tar.gz", "w:gz") as archive:
            archive.add(root / "results", "results")
        return {
            "seconds_per_step_in_the_trial": pace,
            "steps": steps,
            "steps_of_the_recipe": train.max_steps,
            "results": [read_json(root / run.result) for run in runs.values()],
        }


def train_one(root: Path, seed: int, is_tiny: bool, parent: Connection) -> None:
    """Say how long a step takes, hear how many there are to be, train, score."""
    os.chdir(root)
    run = run_of(seed, is_tiny)
    train = run.settings().train
    few = shortened(train, min(TRIAL_STEPS, train.max_steps))
    recipe = replace(run.settings(), train=replace(train, **few))
    trial = Path("trials", str(seed))
    train_recipe(recipe, trial)
    entries = [e for e in Metrics(trial).read() if "train_loss" in e]
    entries = entries[len(entries) // 2 :]
    took = sum(entry["tokens"] / entry["tokens_per_second"] for entry in entries)
    parent.send(took / len(entries))
    few = shortened(train, parent.recv())
    run = replace(run, changes={**run.changes, "train": run.changes["train"] | few})
    at = recorded_commit()
    with records.session(run, at):
        train_recipe(run.settings(), run.folder, validation_samples)
    records.record(run, at)
    parent.send("done")
