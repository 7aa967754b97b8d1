"""Score a finished run and write down everything that the number depends on.

    python results/record.py RUN SPLIT OUT.json

The file holds the configuration, the seed, the commit, the versions, the hardware,
the validation curve and the scores: greedy and beam search, each with the averaged
and with the last checkpoint.
"""

import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

import torch

from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.scores import score
from transformer_lite.inference.translator import Translator
from transformer_lite.training.folder import RunFolder
from transformer_lite.training.metrics import Metrics

PACKAGES = ("torch", "sentencepiece", "sacrebleu", "numpy")
ROOT = Path(__file__).resolve().parents[1]


def processor() -> str:
    """The processor's name, where Linux tells it, else its architecture."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()


def commit() -> str:
    """The commit of this repository, marked if files were changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.strip()


def scores(run: Path, split: str) -> dict[str, dict]:
    """Greedy and beam search, with the average and with the last checkpoint."""
    sources, references = PreparedCorpus(RunFolder(run).recipe().data).text(split)
    folder = RunFolder(run)
    weights = {"average": folder.average, "last": folder.step_checkpoints()[-1]}
    found = {}
    for name, path in weights.items():
        translator = Translator.load(run, path)
        for beam_size in (1, translator.search.beam_size):
            search = replace(translator.search, beam_size=beam_size)
            translations = translator.translate(sources, search)
            found[f"{name}, beam {beam_size}"] = asdict(score(translations, references))
    return found


def record(run: Path, split: str) -> dict:
    """All that belongs to the run's result."""
    recipe = RunFolder(run).recipe()
    records = Metrics(run).read()
    steps = [entry for entry in records if "train_loss" in entry]
    return {
        "run": run.name,
        "split": split,
        "scores": scores(run, split),
        "configuration": json.loads(json.dumps(asdict(recipe), default=str)),
        "commit": commit(),
        "versions": {name: version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "hardware": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
        "training": {
            "steps": len(steps),
            "target_tokens": sum(entry["tokens"] for entry in steps),
            "minutes_in_steps": round(
                sum(e["tokens"] / e["tokens_per_second"] for e in steps) / 60, 1
            ),
        },
        "curve": [
            {"step": entry["step"], "valid_loss": round(entry["valid_loss"], 4)}
            for entry in records
            if "valid_loss" in entry
        ],
    }


if __name__ == "__main__":
    run_folder, split_name, out = sys.argv[1:]
    text = json.dumps(record(Path(run_folder), split_name), indent=2) + "\n"
    Path(out).write_text(text, encoding="utf-8")
