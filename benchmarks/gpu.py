"""What a GPU makes of the package, in nine minutes and without a network.

`make gpu` calls this. Its sections are in the order of their worth, and each runs in a
process of its own. What is measured is written to gpu.json at once, so that an early
end loses little. Without a GPU, or with `--tiny`, it is a trial of everything at a tiny
size.
"""

import argparse
import datetime
import gc
import json
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402 - only now does Python find the package
from gpu_speed import Part, search_speed, training_speed  # noqa: E402
from gpu_tables import chapters_tables  # noqa: E402
from gpu_trace import trace_of_a_step  # noqa: E402
from gpu_training import prepare_corpus, train_for_real  # noqa: E402
from gpu_workload import Setup, tiny_setup  # noqa: E402

from results.provenance import processor, recorded_commit, versions  # noqa: E402

BUDGET = 540
"""Seconds for everything."""
PACKAGES = "torch triton numpy transformers".split()


@dataclass(frozen=True)
class Section:
    """A group of measurements."""

    name: str
    seconds: float
    """What it is planned to take; it gets more where there is more than enough."""
    parts: Callable[[Setup, float], Iterable[Part]]
    """Yields the parts, given the seconds that it has."""


def run_tests(setup: Setup, seconds: float) -> dict:
    """Run all tests that want a GPU.

    Raises:
        ModuleNotFoundError: There is no pytest here.
    """
    import pytest  # noqa: F401 - in a process of its own, below

    marked = [
        str(path)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "mark.gpu" in path.read_text(encoding="utf-8")
    ]
    # Types are checked, and warnings are errors, in the package's own environment.
    options = ["-o", "addopts=", "-W", "default", "-p", "no:cacheprovider", "-v"]
    command = [sys.executable, "-m", "pytest", "-m", "gpu", *options, *marked]
    path = filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    log, ended = setup.out / "pytest.txt", None
    with log.open("w") as file, suppress(subprocess.TimeoutExpired):
        ended = subprocess.run(
            command,
            cwd=ROOT,
            stdout=file,
            stderr=file,
            env=environment,
            timeout=0.9 * seconds,
        ).returncode
    text = log.read_text(encoding="utf-8")
    return {
        "exit_code": ended,  # None where not all have ended in time
        "summary": "".join(text.splitlines()[-1:]),
        "end": "" if ended == 0 else text[-6_000:],
    }


SECTIONS = (
    Section("tests", 80, lambda *given: [("pytest", partial(run_tests, *given))]),
    Section("training speed", 170, lambda setup, _: training_speed(setup)),
    Section("chapters' tables", 80, lambda setup, _: chapters_tables(setup)),
    Section("trace", 25, lambda setup, _: trace_of_a_step(setup)),
    Section(
        "training for real",
        150,
        lambda *given: [("Multi30k", partial(train_for_real, *given))],
    ),
    Section("search", 35, lambda setup, _: search_speed(setup)),
)


def run_all(
    sections: Sequence[Section],
    run: Callable[[Section, float], Iterator[tuple[str, dict]]],
    budget: float,
    write: Callable[[dict], object],
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Run the sections in their order, and write what is there after each part.

    A section gets what it is planned to take, and what later ones do not need. Where
    less is left, it gets that; where less than a quarter is left, it is left out.

    Args:
        sections: All of them.
        run: Runs one for so many seconds, and yields the names and results of parts.
        budget: Seconds for everything.
        write: Gets the results so far.
        clock: Tells the time in seconds.
    """
    end, results = clock() + budget, {}
    for number, section in enumerate(sections, start=1):
        begin = clock()
        later = sum(other.seconds for other in sections[number:])
        left = end - begin
        allowed = min(left, max(section.seconds, left - later))
        found = results[section.name] = {"allowed_seconds": round(allowed, 1)}
        if allowed < section.seconds / 4:
            found["left_out"] = f"only {left:.0f} of {budget:.0f} seconds were left"
            write(results)
            continue
        for name, part in run(section, allowed):
            found[name] = part
            write(results)
        found["took_seconds"] = round(clock() - begin, 1)
        write(results)


def run_apart(
    setup: Setup, section: Section, seconds: float
) -> Iterator[tuple[str, dict]]:
    """Run a section in a process of its own, which is killed at the end of its time.

    A crash of one section, or memory that it does not give back, leaves the others.
    """
    end = time.monotonic() + seconds
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(
        target=run_section, args=(section.name, setup, seconds, there)
    )
    process.start()
    there.close()
    try:
        while here.poll(max(0.0, end - time.monotonic())):
            yield here.recv()
        yield "stopped", {"left_out": f"the rest: {seconds:.0f} seconds were over"}
    except EOFError:
        process.join()
        if process.exitcode:
            yield "stopped", {"error": f"exit code {process.exitcode}"}
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()  # one that has no group of its own yet
        process.join()


def run_section(name: str, setup: Setup, seconds: float, parent: Connection) -> None:
    """Measure the parts of a section, and send each one as soon as it is there."""
    os.setpgid(0, 0)  # whatever it starts is killed with it
    (section,) = (section for section in SECTIONS if section.name == name)
    for part, measure in section.parts(setup, seconds):
        begin = time.perf_counter()
        try:
            found = measure()
        except ModuleNotFoundError as error:
            found = {"left_out": str(error)}
        except Exception as error:  # one part's failure leaves the others
            found = {"error": f"{type(error).__name__}: {error}"[:2_000]}
            traceback.print_exc()
        took = round(time.perf_counter() - begin, 1)
        parent.send((part, found | {"took_seconds": took}))
        gc.collect()
        torch.cuda.empty_cache()


def described(setup: Setup) -> dict:
    """Say when, on what and of what the results are."""
    on_gpu = setup.device.type == "cuda"
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": recorded_commit(),
        "is_tiny": setup.is_tiny,
        "processor": processor(),
        "device": torch.cuda.get_device_name(0) if on_gpu else "cpu",
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "versions": versions(PACKAGES),
    }


def main() -> None:
    """Run all sections, or those that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tiny", action="store_true", help="a trial at a tiny size")
    parser.add_argument("--out", type=Path, default=HERE / "gpu", help="a folder")
    parser.add_argument("--only", default="", help="sections that begin with this")
    parser.add_argument("--seconds", type=float, default=BUDGET, help="for everything")
    parser.add_argument(
        "--carried", type=Path, default=ROOT / "carried", help="prepared corpora"
    )
    parser.add_argument("--prepare", type=Path, help="only make such a folder")
    arguments = parser.parse_args()
    if arguments.prepare:
        prepare_corpus(arguments.prepare)
        return
    tiny = arguments.tiny or not torch.cuda.is_available()
    setup = (tiny_setup if tiny else Setup)(arguments.out, arguments.carried)
    setup.out.mkdir(parents=True, exist_ok=True)
    conditions = described(setup)

    def write(results: dict) -> None:
        whole = {"conditions": conditions, **results}
        text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
        (setup.out / "gpu.json").write_text(text, "utf-8")

    def run(section: Section, seconds: float) -> Iterator[tuple[str, dict]]:
        for name, found in run_apart(setup, section, seconds):
            short = {n: v for n, v in found.items() if not isinstance(v, dict | list)}
            print(f"{section.name}: {name}", json.dumps(short), flush=True)
            yield name, found

    sections = [one for one in SECTIONS if one.name.startswith(arguments.only)]
    run_all(sections, run, arguments.seconds, write)


if __name__ == "__main__":
    main()
