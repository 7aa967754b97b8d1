"""Make the results that are missing: prepare, train, translate, score, write down.

    python -m results.make [--only PATTERN] [--gpu] [--jobs 2] [--show]

Every run can be stopped at any point, by Ctrl-C or by pulling the plug: the same
command takes it up at its last checkpoint. A run whose result lies in results/ is not
made again. To have it made anew, as after a change of its recipe, delete that file and
its folder under runs/results/.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import tyro
from tyro.conf import OmitArgPrefixes

from results import decoding, records, treebank_files
from results.models import MODELS
from results.provenance import ROOT, checksums, commit, require_clean
from results.r_drop import r_drop
from results.runs import CORPORA, GPU_RUNS, RUNS, Run
from results.storage import read_json
from transformer_lite import optimizer
from transformer_lite.config import Recipe
from transformer_lite.data import verbs as verbs_of_data
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.data.verbs import Preparation
from transformer_lite.optimizer import noam_rate
from transformer_lite.parsing.evaluation import validation_samples
from transformer_lite.parsing.treebank import corpus_of_trees
from transformer_lite.parsing.trees import TreeForm
from transformer_lite.runs.files import only_process, sha256_of
from transformer_lite.runs.folder import RunFolder, find_run
from transformer_lite.training.run import train_recipe

TREES = Preparation(max_length=2000)

STOPPED = 130
"""Exit status of a run that a signal stopped."""

STAGE = 2_500
"""So many steps a run takes before it is asked whether its perplexity is flat."""


def prepare_trees(
    *,
    out: Path,
    source: str,
    train: tuple[Path, ...],
    valid: tuple[Path, ...],
    test: tuple[Path, ...],
    leaves: Literal["tags", "words"] = "tags",
    plain_closing: bool = False,
    preparation: OmitArgPrefixes[Preparation] = TREES,
) -> None:
    """Prepare trees, also in forms that the command line does not offer."""
    given = {"train": train, "valid": valid, "test": test}
    form = TreeForm(leaves, closing_labels=not plain_closing)
    preparation.write(out, lambda: corpus_of_trees(given, source, form))


def prepare(corpus: str) -> None:
    """Make a corpus, unless it is there, perhaps carried from another machine.

    Raises:
        ValueError: It cannot be made, or is not the text of the stored results.
    """
    folder, command = Path("data/results", corpus), CORPORA[corpus]
    if not folder.exists():
        for name in treebank_files.TREEBANKS:
            trees = treebank_files.FOLDER / name
            if f"{trees}/" in command and not trees.exists():
                treebank_files.get(name, trees)
        words = [*command.split(), "--out", str(folder)]
        verbs = {"files": verbs_of_data.prepare_files, "trees": prepare_trees}
        if verb := verbs.get(words[0]):
            tyro.cli(verb, args=words[1:])
        else:
            tyro.cli(verbs_of_data.prepare, args=words)
    made = checksums(PreparedCorpus(folder)).items()
    for run in (*RUNS, *GPU_RUNS):
        if run.corpus == corpus and run.result.exists():
            # The first results do not have the tokenizer's.
            if not read_json(run.result)["corpus"]["sha256"].items() <= made:
                raise ValueError(
                    f"{folder}: is another text, or another vocabulary, than that of "
                    f"{run.result}; runs on both could not be compared. Get that text, "
                    "or delete the results on it to have all made anew"
                )


def make(run: Run) -> bool:
    """Make one run's result, if it is not there; return False if a signal stopped it.

    Raises:
        ValueError: Another process makes it, or its folder holds another run.
    """
    if run.result.exists():
        return True
    at = commit()  # while it trains, the repository may go on
    prepare(run.corpus)
    samples = validation_samples if run.splits else None
    diverged = False
    busy = f"{run.folder}: another process makes this run; wait for its end"
    with only_process(run.folder.with_suffix(".lock"), busy):
        if run.result.exists():
            return True  # another process has made it meanwhile
        _require_initial_weights(run)
        if run.begins_with and not run.folder.exists():
            _begin_with(run)
        with records.session(run, at), ramp(run.ramp), r_drop(run.r_drop):
            try:
                if not all(
                    train_recipe(recipe, run.folder, samples, MODELS[run.model])
                    for recipe in stages(run)
                ):
                    return False
            except FloatingPointError as error:  # and again, were it to be repeated
                print(f"{run.name} diverged: {error}", file=sys.stderr)
                diverged = True
        records.record(run, at, diverged)
    return True


@contextmanager
def ramp(steps: int | None) -> Iterator[None]:
    """Let the learning rate rise to its peak in so many steps, and wait there.

    From where that of Equation 3 falls, the two are equal. With None they always are.
    """

    def rate(step: int, d_model: int, warmup: int) -> float:
        rest = noam_rate(max(step, warmup), d_model, warmup)
        return rest * min(1.0, step / (steps or warmup))

    with patch.object(optimizer, "noam_rate", rate if steps else noam_rate):
        yield


def stages(run: Run) -> Iterator[Recipe]:
    """Yield the recipes by which a run is trained, one after another.

    Most have one. A run until its perplexity is flat has several of the same length
    without a cooldown, and a last one that is nothing else.
    """
    recipe = run.settings()
    if run.until_flat:
        while not (end := flat_after(records.curve_of(run))):
            steps = (RunFolder(run.folder).steps_taken() // STAGE + 1) * STAGE
            train = replace(recipe.train, max_steps=steps, cooldown_steps=0)
            yield replace(recipe, train=train)
        train = replace(recipe.train, max_steps=end + STAGE, cooldown_steps=STAGE)
        recipe = replace(recipe, train=train)
    yield recipe


def flat_after(curve: Sequence[Mapping[str, float]]) -> int | None:
    """Return after how many steps the validation perplexity has stopped falling.

    It has at the end of the first stage that lowers the lowest one by less than a
    hundredth. Before that the answer is None.
    """
    for end in range(2 * STAGE, (curve[-1]["step"] if curve else 0) + 1, STAGE):
        before = lowest_perplexity(curve, end - STAGE)
        if lowest_perplexity(curve, end) > 0.99 * before:
            return end
    return None


def lowest_perplexity(curve: Sequence[Mapping[str, float]], step: int) -> float:
    """Return what a run would have reached, had it been stopped after this step."""
    return min(point["valid_perplexity"] for point in curve if point["step"] <= step)


def _require_initial_weights(run: Run) -> None:
    """Check that a run that is to begin with weights gets those that the table names.

    Raises:
        ValueError: They are others.
    """
    if run.begin_with is None or RunFolder(run.folder).steps_taken():
        return
    weights = find_run(run.begin_with["run"]).default_weights()
    if sha256_of(weights) != run.begin_with["sha256"]:
        raise ValueError(
            f"{weights}: not the weights that {run.name} begins with, whose SHA-256 is "
            f"{run.begin_with['sha256']}; bring them back from an earlier commit"
        )


def _begin_with(run: Run) -> None:
    """Give a run the checkpoints and the record of the run that it goes on from.

    Raises:
        ValueError: That run is not trained on this machine.
    """
    earlier = next(other for other in RUNS if other.name == run.begins_with)
    if not RunFolder(earlier.folder).average.exists():
        raise ValueError(
            f"{earlier.folder}: {run.name} goes on from the end of this run, which is "
            f"not trained here; delete {earlier.result} if it is there, and make it: "
            f"python -m results.make --only {earlier.name}"
        )
    shutil.copyfile(earlier.sessions, run.sessions)
    copy = run.folder.with_suffix(".partial")
    shutil.rmtree(copy, ignore_errors=True)  # of a process that was killed
    # The average stands for the end of a run.
    average = shutil.ignore_patterns(RunFolder(earlier.folder).average.name)
    shutil.copytree(earlier.folder, copy, ignore=average)
    copy.rename(run.folder)


def make_all(runs: Sequence[Run], jobs: int) -> list[Run]:
    """Make several runs, each in a process of its own; return those that failed.

    Args:
        runs: Which runs, in this order.
        jobs: How many at a time; they share the processor's cores, or the one GPU.
    """
    failed: list[Run] = []
    for corpus in dict.fromkeys(run.corpus for run in runs):
        try:
            prepare(corpus)
        except (ValueError, OSError) as error:
            print(f"FAILED  {corpus}: {error}", flush=True)
            failed += [run for run in runs if run.corpus == corpus]
    threads = max(1, (os.cpu_count() or 1) // jobs)
    # Idle OpenMP threads sleep soon, as transformer_lite/__main__.py explains.
    threading = {"OMP_NUM_THREADS": str(threads), "GOMP_SPINCOUNT": "10000"}
    environment = {**os.environ, **threading}
    processes: list[subprocess.Popen] = []

    def make_one(run: Run) -> None:
        log = run.folder.with_suffix(".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        print(f"begins  {run.name}", flush=True)
        command = [sys.executable, "-m", "results.make", "--one", run.name]
        with log.open("a") as file:
            process = subprocess.Popen(
                command, stdout=file, stderr=file, env=environment
            )
            processes.append(process)
        if process.wait() != 0:
            failed.append(run)
        verdict = "FAILED " if run in failed else "is made"
        print(f"{verdict} {run.name}  ({log})", flush=True)

    # `kill` stops the child processes, too; otherwise they would train on unattended.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(STOPPED))
    with ThreadPoolExecutor(jobs) as pool:
        try:
            made = [pool.submit(make_one, run) for run in runs if run not in failed]
            # A signal that comes just before a wait without a limit does not end it.
            while wait(made, timeout=1).not_done:
                pass
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()  # each writes a checkpoint first
            raise
        finally:
            signal.signal(signal.SIGTERM, before)
    for future in made:
        future.result()
    return failed


def main(
    only: str = "*",
    jobs: int = 1,
    gpu: bool = False,
    show: bool = False,
    one: str | None = None,
) -> int:
    """Make the results that are missing; return the exit status.

    Args:
        only: Which runs: a pattern such as "table_3/*".
        jobs: How many at a time.
        gpu: Make the runs for a GPU instead of those for a CPU.
        show: Only say which there are.
        one: Make this run in this process.
    """
    if jobs < 1:
        sys.exit(f"--jobs {jobs} is impossible; give at least 1")
    if one:
        for run in (*RUNS, *GPU_RUNS):
            if run.name == one:
                return 0 if make(run) else STOPPED
        sys.exit(f'no run is named "{one}"; --show prints the names, --gpu --show more')
    runs = [run for run in (GPU_RUNS if gpu else RUNS) if fnmatch(run.name, only)]
    decodes = not gpu and fnmatch(decoding.RESULT.stem, only)
    if not (runs or decodes):
        sys.exit(f'no run is named "{only}"; --show prints their names')
    if show:
        _print_table(runs, decodes)
        return 0
    missing = [run for run in runs if not run.result.exists()]
    decodes = decodes and not decoding.RESULT.exists()
    if not (missing or decodes):
        return 0
    at = require_clean()
    failed = make_all(missing, jobs)
    if decodes:
        decoding.decode(at)
    return 1 if failed else 0


def _print_table(runs: Sequence[Run], decodes: bool) -> None:
    """Print each run's name, what it is for, and how many minutes its steps took."""
    total = 0.0
    for run in runs:
        state = "to do"
        if run.result.exists():
            minutes = read_json(run.result)["training"]["minutes"]
            state, total = f"{minutes:.0f} min", total + minutes
        print(f"{state:>7}  {run.name:43} {run.purpose}")
    if decodes:
        state = "made" if decoding.RESULT.exists() else "to do"
        purpose = f"Every way to decode {decoding.RUN}"
        print(f"{state:>7}  {decoding.RESULT.stem:43} {purpose}")
    print(f"{total / 60:.1f} hours of steps, each run on the hardware of its result")


if __name__ == "__main__":
    os.chdir(ROOT)  # folders of data and runs are named from there
    try:
        sys.exit(tyro.cli(main))
    except ValueError as error:
        sys.exit(str(error))
