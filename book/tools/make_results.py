"""Write book/results.md, tables of what the runs in results/ gave, and their digest.

The page is results.md.jinja beside this file; the numbers come from the files in
results/, or follow from them here. The digest comes with the package, so that chapters
have the numbers in Colab, too. ``make notebooks`` runs this, and
tests/test_results_page.py compares both files with it.
"""

import json
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from jinja2 import Environment
from pandas import Series

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from results.bleu import lengths  # noqa: E402
from results.make import STAGE, lowest_perplexity  # noqa: E402
from results.runs import GPU_RUNS, RUNS  # noqa: E402
from results.storage import read_json, read_lines  # noqa: E402
from transformer_lite_book.recordings import DIGEST  # noqa: E402

PAGE = ROOT / "book" / "results.md"
PAPER = tomllib.loads((ROOT / "results/paper.toml").read_text("utf-8"))["table_3"]
SHOWN = ("seed", "model", "parameters", "commits", "precision", "training", "curve")
SHOWN += ("scores", "diverged", "searches")  # the last two have only some
"""What chapters show of a result."""
REFERENCE_WORDS = 12_825
"""Words of Multi30k's German validation captions, whose text is not stored here."""

Result = dict[str, Any]
Results = Mapping[str, Sequence[Result]]
"""By the name of an experiment, its results, one for each seed."""


def read() -> Results:
    """Read the results that are made so far."""
    results = defaultdict(list)
    for run in (*RUNS, *GPU_RUNS):
        path = ROOT / run.result
        if path.exists():
            results[run.experiment].append(read_json(path))
    return results


def steps(experiment: str) -> str:
    """Return how many steps the runs of an experiment take."""
    runs = (run for run in (*RUNS, *GPU_RUNS) if run.experiment == experiment)
    return f"{next(runs).settings().train.max_steps:,}"


def finished(results: Sequence[Result]) -> list[Result]:
    """Return those seeds whose loss was a finite number to the end."""
    return [result for result in results if not result.get("diverged")]


def values(results: Sequence[Result], split: str, name: str) -> list[float]:
    """Return one score of each finished seed; split "curve" is its last validation."""
    return [
        (one["curve"][-1] if split == "curve" else one["scores"][split])[name]
        for one in finished(results)
    ]


def mean_of(results: Sequence[Result], split: str, name: str) -> float:
    """Return the mean of one score over the finished seeds."""
    return mean(values(results, split, name) or [float("nan")])


def spread(results: Sequence[Result], split: str, name: str, digits: int = 1) -> str:
    """Return the mean of the finished seeds and, in brackets, lowest and highest."""
    scores, lost = values(results, split, name), len(results) - len(finished(results))
    if not scores:
        return "diverged" if results else "–"
    text = f"{mean(scores):.{digits}f}"
    if len(scores) > 1:
        text += f" ({min(scores):.{digits}f}–{max(scores):.{digits}f})"
    return f"{text}, {lost} of {len(results)} diverged" if lost else text


def header(text: str) -> str:
    """Return the first two lines of a table; bars part the cells."""
    return f"| {text} |\n|{' --- |' * (text.count('|') + 1)}"


def correlations(results: Results, scale: str) -> dict[str, float]:
    """Return how far our order of Table 3's rows is the paper's, if all are there."""
    rows = [results[f"{scale}/{row}"] for row in PAPER]
    if not all(map(finished, rows)):
        return {}
    perplexity, bleu = zip(*PAPER.values(), strict=True)
    ours = [mean_of(row, "curve", "valid_perplexity") for row in rows]
    return {
        "perplexity": rank_correlation(ours, perplexity),
        "BLEU": rank_correlation([mean_of(row, "valid", "bleu") for row in rows], bleu),
    }


def rank_correlation(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return Spearman's: 1 if the order is the same, -1 if it is the reverse."""
    return Series(ours).rank().corr(Series(theirs).rank())


def hardware(results: Results, scale: str) -> str:
    """Say what the runs of Table 3 were computed on, and how long that took."""
    rows = [result for row in PAPER for result in results[f"{scale}/{row}"]]
    # A result without a list of sessions describes only one, the last, and itself.
    sessions = [one for result in rows for one in result.get("sessions", [result])]
    machines = {_machine(one) for one in sessions if "hardware" in one}
    minutes = [result["training"]["minutes"] for result in rows]
    return (
        f"Trained on {'; '.join(sorted(machines))}. The steps of a run took "
        f"{min(minutes):.0f} to {max(minutes):.0f} minutes, validations not counted, "
        "beside other work, so take these for an order of magnitude."
    )


def _machine(session: Mapping[str, Any]) -> str:
    used, count = session["hardware"], session["hardware"]["threads"]
    name = used["gpu"] or used["processor"]
    return f"{name}, {count} thread{'s' * (count > 1)}, {session['precision']}"


def hours(results: Sequence[Result]) -> float:
    """Return how long the steps of all runs took, each step counted once."""
    minutes = {result["name"]: result["training"]["minutes"] for result in results}
    # A run's minutes include those of the run that it goes on from.
    twice = [run.begins_with for run in RUNS if run.begins_with and run.name in minutes]
    return (sum(minutes.values()) - sum(minutes[name] for name in twice)) / 60


def render(results: Results) -> str:
    """Return the whole page."""
    text = Path(__file__).with_name("results.md.jinja").read_text(encoding="utf-8")
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"finished": finished, "spread": spread, "mean": mean_of}
    results = defaultdict(list, results)
    every = [result for made in results.values() for result in made]
    planned = Counter(run.experiment for run in RUNS)
    page = environment.from_string(text).render(
        results=results,
        every=every,
        runs=RUNS,
        paper=PAPER,
        steps=steps,
        correlations=correlations,
        hardware=hardware,
        lowest_perplexity=lowest_perplexity,
        stage=STAGE,
        hours=hours(every),
        header=header,
        missing={n: seeds for n, seeds in planned.items() if len(results[n]) < seeds},
        read_json=lambda path: read_json(ROOT / path),
    )
    return unbroken(page)


def unbroken(page: str) -> str:
    """Keep ends of lines out of numbers, ranges, intervals and α."""
    page = re.sub(r"(?<=\d) (?=±)", "\u00a0", page)
    page = re.sub(r"± (?=\d)", "±\u00a0", page)
    page = re.sub(r"α = (?=\d)", "α\u00a0=\u00a0", page)
    return re.sub(r"(?<=\d)–(?=\d)", "\u2060–\u2060", page)


def brief(result: Result) -> Result:
    """Return what chapters show of a result; of searches tried, the chosen one."""
    shown = {key: result[key] for key in SHOWN if key in result}
    if "searches" in result:
        search = result["configuration"]["search"]
        shown["search"] = {name: search[name] for name in ("beam_size", "alpha")}
        shown["pairs"] = result["corpus"]["pairs"]
    outputs = ROOT / f"results/{result['name']}.valid.txt.gz"
    if result["corpus"]["name"] == "multi30k_en_de" and outputs.exists():
        found = lengths(read_lines(outputs), REFERENCE_WORDS)
        scores = shown["scores"]
        shown["scores"] = scores | {"valid": scores["valid"] | found}
    return shown


def digest(results: Results) -> str:
    """Return what chapters read: each experiment's seeds, and the ways to decode."""
    runs = {name: [*map(brief, made)] for name, made in sorted(results.items()) if made}
    decoded = read_json(ROOT / "results/decoding.json")["scores"]
    return json.dumps({"runs": runs, "decoding": decoded}, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(read()), encoding="utf-8")
    DIGEST.write_text(digest(read()), encoding="utf-8")
