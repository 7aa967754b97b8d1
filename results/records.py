"""What is kept of a run: its scores, its outputs, and all that these depend on."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from results.bleu import compare, lowercased_bleu
from results.models import MODELS
from results.provenance import checksums, conditions
from results.runs import CORPORA, Run
from results.storage import read_json, write_json, write_lines
from transformer_lite.batching import fixed_batches
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.translator import Translator
from transformer_lite.parsing.brackets import BracketScores
from transformer_lite.parsing.evaluation import score_outputs
from transformer_lite.precision import choose_device, choose_precision
from transformer_lite.runs.folder import RunFolder
from transformer_lite.runs.metrics import Metrics
from transformer_lite.runs.weights import load_weights
from transformer_lite.training.step import validate


def precision_of(run: Run) -> str:
    """Return in what numbers this machine trains the run."""
    return choose_precision(run.settings().train.precision, choose_device())


def sessions_of(run: Run) -> list[dict[str, Any]]:
    """Return which processes have trained the run, the first one first."""
    return read_json(run.sessions) if run.sessions.exists() else []


@contextmanager
def session(run: Run, at: str) -> Iterator[None]:
    """Keep on record that this process trains the run, where, and for how long.

    A process that fails or is killed leaves no length. One that is refused, by a
    ValueError, has trained nothing and is not on record, nor is one that finds the run
    trained.

    Args:
        run: What it trains.
        at: The commit at which it began.
    """
    if RunFolder(run.folder).average.exists():  # which a training writes last
        yield
        return
    before, began = sessions_of(run), time.monotonic()
    own = {"began": datetime.now(UTC).isoformat(timespec="seconds"), "commit": at}
    own |= {**conditions(), "precision": precision_of(run)}
    write_json(run.sessions, [*before, own])
    try:
        yield
    except ValueError:
        write_json(run.sessions, before)
        raise
    own["seconds"] = round(time.monotonic() - began, 1)
    write_json(run.sessions, [*before, own])


def corpus_of(run: Run) -> dict[str, Any]:
    """Return which text it was, by name and by the checksum of every file."""
    corpus = PreparedCorpus(run.data)
    return {
        "name": run.corpus,
        "prepare": CORPORA[run.corpus],
        "languages": [*corpus.languages],
        "pairs": corpus.sizes,
        "sha256": checksums(corpus),
    }


def training_of(run: Run) -> dict[str, Any]:
    """Return what the training measured of itself."""
    records = Metrics(run.folder).read()
    steps = [entry for entry in records if "train_loss" in entry]
    tokens = sum(entry["tokens"] for entry in steps)
    # A process that was suspended in a step has a speed there that rounds to 0.
    seconds = sum(e["tokens"] / max(e["tokens_per_second"], 1) for e in steps)
    wall = [session.get("seconds") for session in sessions_of(run)]
    return {
        "steps": len(steps),
        "target_tokens": tokens,
        "minutes": round(seconds / 60, 1),
        "wall_minutes": None if None in wall else round(sum(wall) / 60, 1),
        "tokens_per_second": round(tokens / max(seconds, 1e-9)),
    }


def curve_of(run: Run) -> list[dict[str, float]]:
    """Return every validation, with the mean loss of the steps before it."""
    curve, losses, tokens = [], [], 0
    for entry in Metrics(run.folder).read():
        if "train_loss" in entry:
            losses.append(entry["train_loss"])
            tokens += entry["tokens"]
        elif "valid_loss" in entry:
            point = {"step": entry["step"], "target_tokens": tokens}
            point["train_loss"] = sum(losses) / max(1, len(losses))
            losses = []
            names = [name for name in entry if name.startswith("valid_")]
            point |= {name: entry[name] for name in names}
            curve.append({name: round(value, 4) for name, value in point.items()})
    return curve


def translator_of(run: Run) -> Translator:
    """Load the trained model, with the weights that are to be scored."""
    folder = RunFolder(run.folder)
    weights = {
        "average": folder.average,
        "last": folder.step_checkpoints()[-1],
        "best": folder.best,
    }
    model = MODELS[run.model](folder.recipe().model)
    load_weights(model, weights[run.weights])
    tokenizer = PreparedCorpus(run.data).tokenizer
    model = model.to(choose_device()).eval()
    return Translator(model, tokenizer, run.settings().search)


def choose_search(translator: Translator, run: Run) -> list[dict[str, float]]:
    """Give the translator the search that does best on the validation set.

    Returns:
        What each search scored there: BLEU, or of trees F1 with ill-formed outputs
        counted as zero.
    """
    corpus = PreparedCorpus(run.data)
    sources, references = corpus.text("valid")
    tried = []
    for beam_size, alpha in run.searches:
        search = replace(translator.search, beam_size=beam_size, alpha=alpha)
        outputs = translator.translate(sources, search)
        scores = score_outputs(sources, references, outputs, corpus.languages[1])
        found = scores.f1_all if isinstance(scores, BracketScores) else scores.bleu
        tried.append({"beam_size": beam_size, "alpha": alpha, "score": round(found, 4)})
    if tried:
        best = max(tried, key=lambda one: one["score"])
        translator.search = replace(
            translator.search, beam_size=best["beam_size"], alpha=best["alpha"]
        )
    return tried


def scores_of(translator: Translator, run: Run, split: str) -> dict[str, Any]:
    """Translate a split and score the outputs; keep those of the last split."""
    corpus, recipe = PreparedCorpus(run.data), run.settings()
    sources, _ = corpus.text(split)
    began = time.monotonic()
    outputs = translator.translate(sources)
    seconds = time.monotonic() - began
    if split == run.splits[-1]:  # of which all outputs are committed
        write_lines(run.outputs(split), outputs)
    report = validate(
        translator.model,
        fixed_batches(*corpus.ids(split), recipe.train.batch_tokens),
        recipe.train.label_smoothing,
    )
    found = {"loss": report.loss, "perplexity": report.perplexity}
    found = scores_of_outputs(corpus, split, outputs) | found
    found = {n: round(v, 4) if isinstance(v, float) else v for n, v in found.items()}
    return found | {"seconds": round(seconds, 1)}


def scores_of_outputs(
    corpus: PreparedCorpus, split: str, outputs: Sequence[str]
) -> dict[str, Any]:
    """Score outputs against a split's references: all that needs no model."""
    sources, references = corpus.text(split)
    language = corpus.languages[1]
    found = score_outputs(sources, references, outputs, language)
    if isinstance(found, BracketScores):
        return asdict(found)
    bleu, signature = lowercased_bleu(outputs, references)
    interval = compare({"outputs": outputs}, references, language)["outputs"]
    return asdict(found) | {
        "half_width": interval.half_width,
        "half_width_signature": interval.signature,
        "lowercased_bleu": bleu,
        "lowercased_signature": signature,
    }


def record(run: Run, at: str, diverged: bool = False) -> None:
    """Score a finished run and write its result; one that diverged has no scores.

    Args:
        run: What is finished.
        at: The commit at which it is scored.
        diverged: Whether its loss was no longer a finite number.
    """
    # As it was trained, not as the table has it now; searches may change afterwards.
    recipe = RunFolder(run.folder).recipe()
    searches, scores = [], {}
    if not diverged:
        translator = translator_of(run)
        searches = choose_search(translator, run)
        recipe = replace(recipe, search=translator.search)
        scores = {split: scores_of(translator, run, split) for split in run.splits}
    sessions, model = sessions_of(run), MODELS[run.model](recipe.model)
    result = {
        "name": run.name,
        "purpose": run.purpose,
        "seed": run.seed,
        "corpus": corpus_of(run),
        "recipe": run.recipe,
        "model": run.model,
        **({"ramp": run.ramp} if run.ramp else {}),
        **({"r_drop": run.r_drop} if run.r_drop else {}),
        **({"begin_with": run.begin_with} if run.begin_with else {}),
        "configuration": json.loads(json.dumps(asdict(recipe), default=str)),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "commits": [*dict.fromkeys(session["commit"] for session in sessions)],
        "scored_at": at,
        **conditions(),
        "precision": precision_of(run),
        "sessions": sessions,
        "training": training_of(run),
        "curve": curve_of(run),
        **({"diverged": True} if diverged else {}),
        "weights": run.weights,
        **({"searches": searches} if searches else {}),
        "scores": scores,
    }
    write_json(run.result, result)
