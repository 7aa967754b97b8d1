"""Run the benchmarks on two cores, system by system in turn, and write what they gave.

A recording replaces the one before it on the same processor, and no other.

`make bench` calls this. `make bench ONLY=decoding` repeats one part.
"""

import argparse
import datetime
import json
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
CORES = 2
PACKAGES = "torch transformer-lite-book transformers ctranslate2 numpy".split()

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
os.environ["OMP_NUM_THREADS"] = str(CORES)
os.environ.setdefault("GOMP_SPINCOUNT", "10000")  # as transformer_lite/__main__.py
sys.path.insert(0, str(HERE.parent))

with suppress(ModuleNotFoundError):
    import ctranslate2  # noqa: F401 - before torch: then each has its own OpenMP

import decoding  # noqa: E402 - only now, with the number of threads set
import report  # noqa: E402
import training  # noqa: E402

from results.provenance import commit, processor, versions  # noqa: E402

PARTS = {"training": (training.measure, 4), "decoding": (decoding.measure, 5)}
"""What measures each part, and in how many passes."""


def main() -> None:
    """Measure, and write results.json and the tables of README.md."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("only", nargs="*", choices=[[], *PARTS])
    parser.add_argument(
        "--folder", type=Path, default=HERE.parent / "data" / "bench_multi30k"
    )
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    at = commit(["transformer_lite", "benchmarks/*.py"])
    for name, (measure, passes) in PARTS.items():
        if arguments.only and name not in arguments.only:
            continue
        results.setdefault(processor(), {})[name] = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "data": "Multi30k English–German",
            "commit": at,
            "cores": CORES,
            "load_average": os.getloadavg()[1],
            "python": platform.python_version(),
            "versions": versions(PACKAGES),
            **measure(arguments.folder, passes),
        }
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
        report.write(results)


if __name__ == "__main__":
    main()
