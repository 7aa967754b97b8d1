"""Time and memory of preparing as many sentence pairs as WMT 2014 German–English has.

The pairs are generated: two languages of a million words each, made of syllables and
drawn by Zipf's law, in sentences of about 27 words. `prepare` runs as a process of
its own, so that its peak is not mixed with the generator's.

    python benchmarks/prepare_wmt14_size.py --pairs 4500000
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from results.conditions import conditions
from transformer_lite.data.store import SIDES, PreparedCorpus

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
print(f"{loaded - start:.2f} {time.perf_counter() - loaded:.2f} {batches}")
"""


def make_words(generator: np.random.Generator) -> np.ndarray:
    """Make words, the most frequent first; rare ones are long, as in real text."""
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
    """Write two files of so many lines; a pair's lengths are close to each other."""
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


def measured(command: list[str]) -> tuple[dict, str]:
    """Return a command's wall and processor time, its peak memory, and its output."""
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
    if status:
        sys.exit(f"failed: {command}")
    return {
        "wall_seconds": round(time.perf_counter() - begin, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_resident_mb": round(usage.ru_maxrss / 1024),
    }, printed


def main() -> None:
    """Generate, prepare, read one epoch's batches, and write what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=4_500_000)
    parser.add_argument("--folder", type=Path, help="for about 5 GB of files")
    parser.add_argument(
        "--json", type=Path, default=Path(__file__).with_suffix(".json")
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        write_corpus(folder / "train", arguments.pairs, seed=1)
        write_corpus(folder / "valid", 1000, seed=1)
        command = [sys.executable, "-m", "transformer_lite", "prepare-files"]
        command += ["--source", "en", "--target", "de", "--out", str(folder / "out")]
        command += ["--vocab-size", str(VOCAB_SIZE), "--max-length", "1000"]
        for split in ("train", "valid"):
            command += [f"--{split}", *(str(folder / f"{split}.{s}") for s in SIDES)]
        begun = time.time()
        prepared, _ = measured(command)
        vocabulary = folder / "out" / "tokenizer.model"
        prepared["first_phase_seconds"] = round(vocabulary.stat().st_mtime - begun, 1)
        epoch, printed = measured([sys.executable, "-c", EPOCH, str(folder / "out")])
        load, buckets, batches = map(float, printed.split())
        epoch["load_seconds"], epoch["token_buckets_seconds"] = load, buckets
        sides = PreparedCorpus(folder / "out").ids("train")
        text = [folder / f"train.{side}" for side in SIDES]
        results = {
            "pairs": arguments.pairs,
            "pairs_kept": len(sides[0]),
            "text_mb": round(sum(path.stat().st_size for path in text) / 2**20),
            "tokens_per_sentence": [
                round(float(side.lengths.mean()), 1) for side in sides
            ],
            "vocab_size": VOCAB_SIZE,
            "prepare": prepared,
            "epoch": epoch | {"batches": int(batches)},
            "load_average_after": os.getloadavg()[1],
            **conditions(),
        }
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
