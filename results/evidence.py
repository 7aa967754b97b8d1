"""What is kept of a run: its scores, its outputs, and all that these depend on."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

import torch

from results.conditions import conditions
from results.files import read_json, write_json, write_lines
from results.models import MODELS
from results.runs import CORPORA, Run
from results.scores import compare, lowercased_bleu
from transformer_lite.batching import fixed_batches
from transformer_lite.config import recipe_from_dict
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.brackets import BracketScores
from transformer_lite.inference.scores import score_outputs
from transformer_lite.inference.translator import Translator
from transformer_lite.training.checkpoint import load_weights
from transformer_lite.training.folder import RunFolder
from transformer_lite.training.hardware import choose_precision
from transformer_lite.training.metrics import Metrics
from transformer_lite.training.step import validate


def precision_of(run: Run) -> str:
    """In what numbers this machine trains the run."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return choose_precision(run.settings().train.precision, device)


def sessions_of(run: Run) -> list[dict[str, Any]]:
    """Which processes have trained the run, the first one first."""
    path, commits = run.folder / "sessions.json", run.folder / "commits.txt"
    if path.exists():
        return json.loads(path.read_text(encoding="utf-8"))
    if commits.exists():  # all that was kept of the first runs
        return [{"commit": name} for name in commits.read_text("utf-8").split()]
    return []


@contextmanager
def session(run: Run, at: str) -> Iterator[None]:
    """Keep on record that this process trains the run, where, and for how long.

    One that is refused, by a ValueError, has trained nothing and is not on record; nor
    is one that finds the run trained.

    Args:
        run: What it trains.
        at: The commit at which it began.
    """
    if is_trained(run):
        yield
        return
    sessions, began = sessions_of(run), datetime.now(UTC)
    if sessions and sessions[-1].get("seconds", 0) is None:
        sessions[-1]["seconds"] = _seconds_until_killed(run, sessions[-1]["began"])
    own = {"began": began.isoformat(timespec="seconds"), "commit": at}
    own |= {**conditions(), "precision": precision_of(run), "seconds": None}

    path, kept = run.folder / "sessions.json", [*sessions, own]
    write_json(path, kept)
    try:
        yield
    except ValueError:
        kept = sessions
        raise
    finally:
        own["seconds"] = round((datetime.now(UTC) - began).total_seconds(), 1)
        write_json(path, kept)


def is_trained(run: Run) -> bool:
    """Whether the run is trained to its end, and is only to be scored."""
    steps = (entry["step"] for entry in Metrics(run.folder).read())
    made = max(steps, default=0) >= run.settings().train.max_steps
    # A process killed just after its last step goes on from a checkpoint before it. The
    # average is what a training writes last, and what it deletes when it goes on.
    return made and RunFolder(run.folder).average.exists()


def _seconds_until_killed(run: Run, began: str) -> float:
    """How long a process went on that could not say so: to its last metric."""
    start, metrics = datetime.fromisoformat(began), RunFolder(run.folder).metrics
    written = metrics.stat().st_mtime if metrics.exists() else 0.0
    return round(max(0.0, written - start.timestamp()), 1)


def corpus_of(run: Run) -> dict[str, Any]:
    """Which text it was, by name and by the checksum of every file."""
    corpus = PreparedCorpus(run.data)
    return {
        "name": run.corpus,
        "prepare": CORPORA[run.corpus],
        "languages": [*corpus.languages],
        "pairs": corpus.sizes,
        "sha256": corpus.checksums(),
    }


def training_of(run: Run) -> dict[str, Any]:
    """What the training measured of itself."""
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
    """Every validation, with the mean loss of the steps before it."""
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
    """The trained model, with the weights that are to be scored."""
    folder = RunFolder(run.folder)
    average = run.weights == "average"
    weights = folder.average if average else folder.step_checkpoints()[-1]
    model = MODELS[run.model](folder.recipe().model)
    load_weights(model, weights)
    if torch.cuda.is_available():
        model.cuda()
    tokenizer = PreparedCorpus(run.data).tokenizer
    return Translator(model.eval(), tokenizer, run.settings().search)


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
        found, *_ = scores.watched().values()
        tried.append({"beam_size": beam_size, "alpha": alpha, "score": round(found, 4)})
    if tried:
        best = max(tried, key=lambda one: one["score"])
        translator.search = replace(
            translator.search, beam_size=best["beam_size"], alpha=best["alpha"]
        )
    return tried


def scores_of(translator: Translator, run: Run, split: str) -> dict[str, Any]:
    """Translate a split, keep the outputs, and score them."""
    corpus, recipe = PreparedCorpus(run.data), run.settings()
    sources, _ = corpus.text(split)
    began = time.monotonic()
    outputs = translator.translate(sources)
    seconds = time.monotonic() - began
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
    """How close outputs come to a split's references: all that needs no model."""
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


def require_current(run: Run) -> None:
    """See that the stored result is of the run as the table has it now.

    Raises:
        ValueError: Something has changed since.
    """
    result = read_json(run.result)
    then, now = recipe_from_dict(result["configuration"]), run.settings()
    # The vocabulary is the corpus's, and of several searches the best was taken.
    then = replace(then, model=replace(then.model, vocab_size=now.model.vocab_size))
    compared = {
        "corpus": (result["corpus"]["prepare"], CORPORA[run.corpus]),
        "class of model": (result["model"], run.model),
        "weights": (result["weights"], run.weights),
    }
    if not result.get("diverged"):
        tried = tuple((s["beam_size"], s["alpha"]) for s in result.get("searches", ()))
        compared["searches"] = (tried, run.searches)
        compared["splits"] = (tuple(result["scores"]), run.splits)
    for part in ("model", "train", *(() if run.searches else ("search",))):
        before, after = asdict(getattr(then, part)), asdict(getattr(now, part))
        compared |= {f"{part}.{name}": (before[name], after[name]) for name in after}
    for name, (before, after) in compared.items():
        if before != after:
            raise ValueError(
                f"{run.result}: was made with {name} = {before!r}, now it is "
                f"{after!r}; delete this file, {run.outputs('*')} and {run.folder}, "
                f"and have it made again: make results ONLY='{run.name}'"
            )
