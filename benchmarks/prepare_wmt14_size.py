"""Time and memory of preparing as many sentence pairs as WMT 2014 German–English has.

The pairs are generated: two languages of a million words each, made of syllables and
drawn by Zipf's law, in sentences of about 27 words. `prepare` runs as a process of
its own, so that its peak is not mixed with the generator's.

    python benchmarks/prepare_wmt14_size.py --pairs 4500000
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from transformer_lite.data.store import OFFSETS, SIDES

TYPES = 1_000_000
CHUNK = 10_000
VOCAB_SIZE = 37_000
EPOCH = """
import sys, time
from pathlib import Path
from transformer_lite.batching import BatchStream
from transformer_lite.data.store import PreparedCorpus
start = time.perf_counter()
sides = PreparedCorpus(Path(sys.argv[1])).ids("train")
loaded = time.perf_counter()
batches = len(BatchStream(*sides, 25_000, seed=1).epoch(0))
print(loaded - start, time.perf_counter() - loaded, batches)
"""


def make_words(generator: np.random.Generator) -> np.ndarray:
    """Words, the most frequent first; rare ones are long, as in real languages."""
    onsets, vowels = "b d f g h k l m n p r s t v z st tr sch".split(), "aeiou"
    codas = ["", "", "", "n", "r", "s", "t", "l", "nd", "ng"]
    syllables = np.array([o + v + c for o in onsets for v in vowels for c in codas])
    # Some syllables are much more frequent than others, which is what BPE lives on.
    weights = 1 / np.arange(10, 10 + len(syllables))
    drawn = generator.choice(
        generator.permutation(syllables), (TYPES, 5), p=weights / weights.sum()
    )
    counts = np.minimum(5, 1 + np.log10(1 + np.arange(TYPES)).astype(int))
    return np.array(
        ["".join(row[:count]) for row, count in zip(drawn, counts, strict=True)],
        dtype=object,
    )


def write_corpus(stem: Path, pairs: int, seed: int) -> None:
    """Two files of so many lines; a pair's lengths are close to each other."""
    generator = np.random.default_rng(seed)
    cumulated = np.cumsum((2.7 + np.arange(TYPES)) ** -1.1)
    words = [make_words(generator) for _ in SIDES]
    files = [Path(f"{stem}.{language}").open("w") for language in SIDES]
    for start in range(0, pairs, CHUNK):
        size = min(CHUNK, pairs - start)
        lengths = generator.lognormal(3.12, 0.6, size)  # mean 27, median 23
        for side, file in enumerate(files):
            own = (lengths * generator.normal(1, 0.1, size)).clip(1, 100).astype(int)
            ranks = np.searchsorted(
                cumulated, generator.random(own.sum()) * cumulated[-1]
            )
            text = words[side][ranks].tolist()
            ends = np.cumsum(own).tolist()
            for begin, end in zip([0, *ends], ends, strict=False):
                file.write(" ".join(text[begin:end]) + ".\n")
    for file in files:
        file.close()


def measured(command: list[str], milestone: Path | None = None) -> dict:
    """A command's wall and processor time, its peak memory, and what it printed.

    Args:
        command: What to run.
        milestone: A file whose appearance ends the first phase.
    """
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, stdout=output)
        first, processes = None, 1
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if first is None and milestone and milestone.exists():
                first = time.perf_counter() - begin
            try:
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
                processes = max(processes, 1 + len(children.read_text().split()))
            except OSError:
                pass
            time.sleep(0.1)
        wall = time.perf_counter() - begin
        if status:
            sys.exit(f"failed: {command}")
        output.seek(0)
        printed = output.read()
    return {
        "wall_seconds": round(wall, 1),
        "first_phase_seconds": first and round(first, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_resident_mb": round(usage.ru_maxrss / 1024),
        "processes": processes,
        "printed": printed.strip(),
    }


def main() -> None:
    """Generate, prepare, read one epoch's batches, and write what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=4_500_000)
    parser.add_argument("--folder", type=Path, help="for about 5 GB of files")
    parser.add_argument(
        "--json", type=Path, default=Path(__file__).with_suffix(".json")
    )
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=arguments.folder))
    try:
        write_corpus(folder / "train", arguments.pairs, seed=1)
        write_corpus(folder / "valid", 1000, seed=1)
        out = folder / "out"
        files = [
            [f"--{split}", *(str(folder / f"{split}.{name}") for name in SIDES)]
            for split in ("train", "valid")
        ]
        command = [sys.executable, "-m", "transformer_lite", "prepare", "files"]
        options = ["--vocab-size", str(VOCAB_SIZE), "--max-length", "1000"]
        options += ["--out", str(out)]
        prepared = measured(
            [*command, *files[0], *files[1], *options],
            folder / "out.partial" / "journal.json",
        )
        epoch = measured([sys.executable, "-c", EPOCH, str(out)])
        load, buckets, batches = epoch.pop("printed").split()
        offsets = [
            np.fromfile(out / f"train.{name}.offsets", OFFSETS) for name in SIDES
        ]
        text = [folder / f"train.{name}" for name in SIDES]
        results = {
            "pairs": arguments.pairs,
            "pairs_kept": len(offsets[0]) - 1,
            "text_mb": round(sum(path.stat().st_size for path in text) / 2**20),
            "tokens_per_sentence": [
                round(float(o[-1] / (len(o) - 1)), 1) for o in offsets
            ],
            "vocab_size": VOCAB_SIZE,
            "prepare": prepared,
            "epoch": epoch
            | {
                "load_seconds": round(float(load), 2),
                "token_buckets_seconds": round(float(buckets), 2),
                "batches": int(batches),
            },
            "cores": len(os.sched_getaffinity(0)),
            "load_average_after": os.getloadavg()[1],
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            "versions": {
                name: version(name) for name in ("numpy", "sentencepiece", "torch")
            },
        }
        prepared.pop("printed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
