"""Write book/results.md, tables of what the runs in results/ gave, and their digest.

No result on the page is typed: every one is in a file under results/, or follows from
such files here. The digest comes with the package, so that chapters have the numbers
in Colab, too. ``make notebooks`` runs this, and tests/test_results_page.py compares
both files with it.
"""

import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from results import decoding, paper  # noqa: E402
from results.constrained import RECORDING as CONSTRAINED  # noqa: E402
from results.everyday import JUDGEMENTS  # noqa: E402
from results.everyday import RECORDING as EVERYDAY  # noqa: E402
from results.files import read_json  # noqa: E402
from results.make import STAGE, lowest_perplexity  # noqa: E402
from results.rounded import RECORDING as ROUNDED  # noqa: E402
from results.runs import GPU_RUNS, RUNS, TATOEBA_2018  # noqa: E402
from results.treebanks import RECORDING as COUNTS  # noqa: E402
from transformer_lite.book.recordings import DIGEST  # noqa: E402
from transformer_lite.config import TrainConfig  # noqa: E402

PAGE = ROOT / "book" / "results.md"
FOLDER = "https://github.com/transformer-lite/transformer-lite/blob/main/results"

Result = dict[str, Any]
Results = Mapping[str, Sequence[Result]]
"""By the name of an experiment, its results, one for each seed."""

AIM = {"bleu": 39.5, "lowercased_bleu": 41.0}
"""For Multi30k, English to German; the second is Wu et al.'s of 2021."""

HEAD = f"""<!-- Written by book/tools/make_results.py; do not edit. -->
# Results

Every score of a model of ours on this page comes from a real run. The run's file in
[`results/`]({FOLDER})
holds the complete configuration, the seed, the checksums of the text, versions, commit,
hardware, the learning curve and the scores; what it translated or parsed is beside it,
so that you can compute BLEU, chrF and F1 again without training. Perplexity needs the
weights, most of which are not kept. `make results` makes the runs that are missing.

Where several seeds were trained, a cell shows their mean and, in brackets, the lowest
and the highest. Target tokens are those trained on, counted each
time that they were seen.
"""


def training(experiment: str) -> TrainConfig:
    """Return how an experiment is trained."""
    runs = (run for run in (*RUNS, *GPU_RUNS) if run.experiment == experiment)
    return next(runs).settings().train


def read() -> Results:
    """Read what is made so far."""
    found = defaultdict(list)
    for run in (*RUNS, *GPU_RUNS):
        path = ROOT / run.result
        if path.exists():
            found[run.experiment].append(read_json(path))
    return found


def read_decoding() -> Result | None:
    """Read the table of ways to decode, if it is made."""
    path = ROOT / decoding.RESULT
    return read_json(path) if path.exists() else None


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Return the mean of several seeds and, in brackets, the lowest and the highest."""
    if not values:
        return "diverged"
    mean = f"{statistics.mean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def table(header: str, rows: Sequence[Sequence[object]]) -> str:
    """Return a table in Markdown; bars part the cells of the header."""
    lines = [header.split(" | "), ["---"] * (header.count(" | ") + 1), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines) + "\n"


def section(title: str, *parts: str) -> str:
    """Return a section of the page."""
    return "\n".join([f"## {title}\n", *parts])


def finished(results: Sequence[Result]) -> list[Result]:
    """Return those seeds whose loss was a finite number to the end."""
    return [result for result in results if not result.get("diverged")]


def of_last_validation(results: Sequence[Result]) -> list[float]:
    """Return the perplexity of each finished seed's last validation."""
    return [result["curve"][-1]["valid_perplexity"] for result in finished(results)]


def of_split(results: Sequence[Result], split: str, name: str) -> list[float]:
    """Return one score of each finished seed."""
    return [result["scores"][split][name] for result in finished(results)]


def with_interval(results: Sequence[Result], split: str) -> str:
    """Return BLEU of several seeds, and half of the interval that resampling gives."""
    half = statistics.mean(of_split(results, split, "half_width"))
    return f"{spread(of_split(results, split, 'bleu'))} ± {half:.1f}"


def last_perplexity(results: Sequence[Result], digits: int = 2) -> str:
    """Return that of the finished seeds, and how many others there are."""
    shown, lost = spread(of_last_validation(results), digits), len(results)
    lost -= len(finished(results))
    is_mixed = 0 < lost < len(results)
    return f"{shown}, {lost} of {len(results)} diverged" if is_mixed else shown


def conditions(results: Sequence[Result]) -> str:
    """Say what a group of runs was computed on and with."""
    # A result without a list of sessions describes only one, the last, and itself.
    sessions = [s for result in results for s in result.get("sessions", [result])]
    hardware = sorted({_hardware(s) for s in sessions if "hardware" in s})
    minutes = [result["training"]["minutes"] for result in results]
    return (
        f"Trained on {'; '.join(hardware)}. The steps of a run took "
        f"{min(minutes):.0f} to {max(minutes):.0f} minutes, validations not counted, "
        "beside other work, so take these for an order of magnitude.\n"
    )


def _hardware(session: Mapping[str, Any]) -> str:
    used = session["hardware"]
    if used["gpu"]:
        return f"{used['gpu']} in {session['precision']}"
    threads = "one thread" if used["threads"] == 1 else f"{used['threads']} threads"
    return f"{used['processor']}, {threads}, {session['precision']}"


def rank_correlation(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return Spearman's: 1 if the order is the same, -1 if it is the reverse."""
    return float(np.corrcoef(_ranks(ours), _ranks(theirs))[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    """Return each value's place in the order; equal ones share the mean of theirs."""
    array = np.asarray(values)
    below = (array[:, None] > array).sum(axis=1)
    equal = (array[:, None] == array).sum(axis=1)
    return below + (equal + 1) / 2


SCALES = {
    "table_3": "half its layers and a quarter of its widths",
    "table_3_gpu": "all its layers and half of its widths, trained on a GPU",
}


def table_3(results: Results) -> str:
    """Show our Table 3 beside the paper's, at every scale that was run."""
    return "\n".join(filter(None, (_table_3(results, scale) for scale in SCALES)))


def _table_3(results: Results, scale: str) -> str:
    rows = {
        row: results[f"{scale}/{row}"]
        for row in paper.TABLE_3
        if results.get(f"{scale}/{row}")
    }
    if not rows:
        return ""
    lines = []
    for row, of_row in rows.items():
        (perplexity, bleu), first = paper.TABLE_3[row], of_row[0]
        lines.append(
            [
                row,
                len(of_row),
                last_perplexity(of_row),
                spread(of_split(of_row, "valid", "bleu")),
                f"{first['parameters'] / 1e6:.2f}",
                f"{perplexity:.2f}",
                bleu,
            ]
        )
    header = "Row | Seeds | Perplexity | BLEU | Million parameters"
    header += " | Perplexity in the paper | BLEU in the paper"
    parts = [
        "The rows of the paper's Table 3, all smaller by the same factors, trained on "
        f"Multi30k from English to German for {training(f'{scale}/base').max_steps:,} "
        f"steps, big for {training(f'{scale}/big').max_steps:,} (the translator above: "
        f"{training('multi30k_en_de').max_steps:,}). As in the paper, "
        "checkpoints are not averaged. Perplexity is per token, and BLEU is "
        "sacrebleu's on cased, detokenized text with beam 4, both on the validation "
        "set. The paper's numbers are from newstest2013 and from far larger "
        "models: compare the order, not the numbers.\n",
        table(header, lines),
    ]
    if len(rows) == len(paper.TABLE_3) and all(map(finished, rows.values())):
        for place, what in enumerate(("perplexity", "BLEU")):
            theirs = [paper.TABLE_3[row][place] for row in rows]
            ours = [
                of_split(of_row, "valid", "bleu")
                if place
                else of_last_validation(of_row)
                for of_row in rows.values()
            ]
            found = rank_correlation([*map(statistics.mean, ours)], theirs)
            parts.append(
                f"- Rank correlation with the paper's order by {what}, over "
                f"{len(rows)} rows: **{found:.2f}**."
            )
        parts.append(
            "\n[Chapter 6.2](../notebooks/06_2_model_variations.ipynb) has the "
            "correlation of longer runs, without *big*, with its interval and that of "
            "shuffled rows.\n"
        )
    every = [result for of_row in rows.values() for result in of_row]
    return section(f"Table 3: {SCALES[scale]}", *parts, conditions(every))


def label_smoothing(results: Results) -> str:
    """Show perplexity against BLEU."""
    rows = {0.0: "D3", 0.1: "base", 0.2: "D4"}
    of_epsilon = {e: results.get(f"table_3/{row}", []) for e, row in rows.items()}
    if not all(of_epsilon.values()):
        return ""
    lines = [
        [
            epsilon,
            len(found),
            last_perplexity(found),
            spread(of_split(found, "valid", "bleu")),
        ]
        for epsilon, found in of_epsilon.items()
    ]
    return section(
        "Label smoothing: perplexity against BLEU",
        "Rows D3, base and D4 of the table above. Perplexity is that of the right "
        "token, without smoothing.\n",
        table("ε | Seeds | Perplexity | BLEU", lines),
    )


def few_steps_and_more(results: Results) -> str:
    """Show the rows of Table 3 after its steps, and after more."""
    lines = []
    for row, (perplexity, bleu) in paper.TABLE_3.items():
        if longer := results.get(f"table_3_longer/{row}"):
            short = results[f"table_3/{row}"]
            cells: list[object] = [row, f"{len(short)}, {len(longer)}"]
            for score, digits in (("perplexity", 2), ("bleu", 1)):
                cells += [
                    spread(of_split(found, "valid", score), digits)
                    for found in (short, longer)
                ]
            lines.append([*cells, f"{perplexity:.2f}", bleu])
    if not lines:
        return ""
    few, more = (
        f"{training(f'{scale}/base').max_steps:,}"
        for scale in ("table_3", "table_3_longer")
    )
    return section(
        "Table 3: few steps against more",
        f"Rows of Table 3 after {few} steps, and after {more} with a rate that falls "
        "to zero in the last third. Of the longer runs the weights with the lowest "
        "validation loss are scored.\n",
        table(
            f"Row | Seeds | Perplexity, {few} steps | {more} steps | BLEU, {few} steps "
            f"| {more} steps | Perplexity in the paper | BLEU in the paper",
            lines,
        ),
    )


def ablations(results: Results) -> str:
    """Show rows of Table 3 with one thing changed, each beside the row unchanged."""
    lines, usual_steps = [], training("table_3_longer/base").max_steps
    for name, changed in results.items():
        if name.startswith("ablations/"):
            row = name.removeprefix("ablations/").partition("_")[0]
            usual, first = results.get(f"table_3_longer/{row}", []), changed[0]
            cells: list[object] = [row, first["purpose"].partition(": ")[2]]
            cells += [f"{len(changed)}, {len(usual)}"]
            for score, digits in (("perplexity", 2), ("bleu", 1)):
                cells += [
                    spread(of_split(found, "valid", score), digits)
                    for found in (changed, usual)
                ]
            cells += [f"{first['parameters'] / 1e6:.2f}"]
            steps, early = first["training"]["steps"], "–"
            if steps > usual_steps:
                early = f"{lowest_perplexity(first['curve'], usual_steps):.2f}"
            lines.append([*cells, f"{steps:,}", early])
    if not lines:
        return ""
    header = "Row | Change | Seeds | Perplexity | unchanged | BLEU | unchanged"
    header += f" | Million parameters | Steps | Perplexity by step {usual_steps:,}"
    return section(
        "Table 3: one thing changed",
        "The unchanged rows are the longer runs of the table above. Perplexities of "
        "different vocabularies cannot be compared. A run “until the perplexity is "
        f"flat” goes on while {STAGE:,} more steps lower the lowest validation "
        "perplexity by a hundredth or more; then its rate falls to zero over as many "
        "steps.\n",
        table(header, lines),
    )


def warm_up(results: Results) -> str:
    """Show the last perplexity by the length of the warm-up and the norm's place."""
    found: dict[int, dict[str, Sequence[Result]]] = defaultdict(dict)
    for name, of_name in results.items():
        if name.startswith("warmup/") and of_name:
            norm, _, steps = name.removeprefix("warmup/").rpartition("_")
            found[int(steps)][norm] = of_name
    if not found:
        return ""
    base = results.get("table_3/base", [])
    if base:
        found[training("table_3/base").warmup_steps]["post_norm"] = base
    lines = [
        [steps]
        + [
            last_perplexity(norms[norm], 1) if norm in norms else "–"
            for norm in ("post_norm", "pre_norm")
        ]
        for steps, norms in sorted(found.items())
    ]
    return section(
        "Warm-up",
        "Perplexity on the validation set at the end of training. The base row of our "
        "Table 3, with another warm-up in Equation 3: the shorter, the higher the "
        "rate's peak; once it is over, all rates are the same. A warm-up of 1 step is "
        f"none; one of 4,000 is not over when training ends, after "
        f"{training('table_3/base').max_steps:,} steps.\n",
        table("Warm-up steps | Post-norm (the paper) | Pre-norm", lines),
    )


CORPORA = {"multi30k": "Multi30k", "tatoeba": "Tatoeba", "toy": "Toy grammar"}


def translation(results: Results) -> str:
    """Show the book's own Table 2."""
    lines = []
    for found in map(finished, results.values()):
        for split in found[0]["scores"] if found else ():
            if not split.startswith("test") or "bleu" not in found[0]["scores"][split]:
                continue
            corpus = found[0]["corpus"]
            million = statistics.mean(r["training"]["target_tokens"] for r in found)
            lines.append(
                [
                    f"{CORPORA[corpus['name'].partition('_')[0]]}, "
                    + "–".join(corpus["languages"]),
                    found[0]["model"],
                    with_interval(found, split),
                    spread(of_split(found, split, "lowercased_bleu")),
                    spread(of_split(found, "valid", "bleu")),
                    spread(of_split(found, split, "chrf")),
                    len(found),
                    f"{found[0]['parameters'] / 1e6:.1f}",
                    f"{million / 1e6:.1f}",
                ]
            )
    if not lines:
        return ""
    editions = {
        result["corpus"]["sha256"]["train.src"]
        for result in results.get("tatoeba_en_de", [])
    }
    edition = (
        "Tatoeba is the selection of manythings.org of 2018-05-13, and no sentence of "
        "its test set is in another split; `prepare tatoeba` downloads a later "
        "edition with other splits, on which this model cannot be scored.\n"
        if editions == {TATOEBA_2018}
        else ""
    )
    header = "Text | Model | BLEU | Case ignored | BLEU, validation set | chrF"
    header += " | Seeds | Million parameters | Million target tokens"
    return section(
        "Translation",
        "Scores are on the test sets (Multi30k's of 2016) but for one column. BLEU "
        "is sacrebleu's: on cased, detokenized text, and once more without regard "
        "to case; ± is half the width of the 95 % interval over 1,000 resamplings "
        "of the test sentences. chrF is sacrebleu's default, too (up to six "
        "characters, no words, β = 2). Beam 4, α = 0.6, the mean of the last "
        "checkpoints. Width, batch, dropout, rate and warm-up for Multi30k were "
        "chosen by hand, for the Transformer, by the validation set from English "
        "to German, in trials of which no other record is kept; depth, vocabulary "
        "and smoothing were not searched, and averaging was only compared with the "
        "last checkpoint, below. No other captions were at hand to test on, so "
        "how the recipe does on others is not known. Seed 1 from English to German "
        "is one of these trials: it has the recipe's configuration, but began "
        "before the recipe was committed, so that the first two of the commits in "
        "its file hold an older one. The other directions use the same recipe; "
        "Tatoeba's differs in vocabulary and dropout, neither of which was "
        "searched; its two larger models are trials (below), which differ in more. "
        "The recurrent models keep batch, dropout and warm-up, but are "
        "twice as wide, so their rate is lower by √2. The toy grammar has a recipe "
        "of its own.\n",
        _short_of_aim(results.get("multi30k_en_de", ())) + edition,
        table(header, lines),
    )


def _short_of_aim(results: Sequence[Result]) -> str:
    """Say by how much Multi30k from English to German misses what was aimed at."""
    split = "test_2016_flickr"
    scores = [r["scores"][split] for r in finished(results) if split in r["scores"]]
    if not scores:
        return ""
    cased, lowercased = (
        f"{statistics.mean(score[name] for score in scores) - aim:+.1f}".replace(
            "-", "−"
        )
        for name, aim in AIM.items()
    )
    return (
        f"For Multi30k from English to German we aimed at {AIM['bleu']} BLEU, and at "
        f"{AIM['lowercased_bleu']} with the case ignored. The second is what the "
        "text-only Transformer of [Wu et al. (2021)](https://arxiv.org/abs/2105.14462) "
        "reaches, though on tokenized, lower-cased text. Our means differ from these "
        f"aims by {cased} and {lowercased}.\n\n"
    )


def ways_to_decode(result: Result) -> str:
    """Show one checkpoint, decoded in every way."""
    parts = [
        f"The weights of `{result['run']}`: the mean of its last checkpoints, or the "
        "last one as it is. BLEU ± half the width of its 95 % interval over 1,000 "
        "resamplings of the sentences; p is how often chance alone makes as large a "
        "difference from the first line, which has the paper's settings (sacrebleu's "
        "paired bootstrap). *Hyphens split* lets the parts of a compound count, as the "
        "paper's BLEU does, though on sacrebleu's tokens. Length is that of the "
        "translations divided by that of the references.\n",
    ]
    for split, of_split in result["scores"].items():
        rows = [
            [
                name,
                f"{score['bleu']:.1f} ± {score['half_width']:.1f}",
                f"{score['tokenized_bleu']:.1f}",
                f"{score['lowercased_bleu']:.1f}",
                f"{score['length_ratio']:.3f}",
                "–" if score["p_value"] is None else f"{score['p_value']:.3f}",
            ]
            for name, score in of_split.items()
        ]
        header = "Decoding | BLEU | hyphens split | case ignored | Length | p"
        parts += [f"### {split}\n", table(header, rows)]
    return section("Decoding: one model, many ways", *parts)


TREEBANKS = {
    "penn_treebank_sample": "Penn Treebank, NLTK's sample",
    "craft": "CRAFT",
    "craft_gum": "CRAFT, and GUM parsed by machine",
    "craft_gum_words": "the same, words in the tree",
    "craft_gum_words_longer": "the same, trained on",
    "craft_gum_words_longest": "the same, trained on again",
    "craft_gum_words_fourth_round": "the same, trained on once more",
    "craft_gum_words_recurrent": "words in the tree, recurrent model with attention",
    "craft_gum_tags": "tags in the tree, the rest as with words",
    "craft_gum_plain": "words in the tree, closing brackets without labels",
    "penn_treebank_sample_from_scratch": "Penn Treebank's sample, words in the tree",
    "penn_treebank_sample_fine_tuned": "the same, begun as the parser trained on",
}


def parsing(results: Results) -> str:
    """Show the book's own Table 4."""
    lines = []
    for name, treebank in TREEBANKS.items():
        if not (of_treebank := finished(results.get(f"parsing/{name}", []))):
            continue
        search = of_treebank[0]["configuration"]["search"]
        tokens = of_treebank[0]["training"]["target_tokens"]
        for split in of_treebank[0]["scores"]:
            well_formed, f1, f1_all, perplexity = (
                of_split(of_treebank, split, score)
                for score in ("well_formed", "f1", "f1_all", "perplexity")
            )
            lines.append(
                [
                    treebank,
                    split,
                    len(of_treebank),
                    spread(well_formed),
                    spread(f1),
                    spread(f1_all),
                    spread(perplexity, 2),
                    f"{search['beam_size']}, {search['alpha']}",
                    f"{tokens / 1e6:.1f}",
                ]
            )
    if not lines:
        return ""
    header = "Treebank | Split | Seeds | % of outputs that are trees | F1 of these"
    header += " | F1 of all | Perplexity | Beam, α | Million target tokens"
    recorded = read_json(CONSTRAINED)
    constrained = [
        [
            f"{treebank}, seed {run.rpartition('-')[2]}",
            *(
                f"{scores[score]:.1f}" if score in scores else "–"
                for score in (
                    "f1_all",
                    "f1_of_rules_alone",
                    "f1_of_beam_4",
                    "f1_of_random_words",
                )
            ),
        ]
        for name, treebank in TREEBANKS.items()
        for run in sorted(recorded)
        if run.rpartition("-")[0] == f"parsing/{name}"
        for scores in [recorded[run]["scores"]]
    ]
    tried = searches(results)
    counted = read_json(COUNTS)
    floor = " and ".join(
        f"{counted[name]['right_branching']['f1']:.1f} ({treebank})"
        for name, treebank in TREEBANKS.items()
        if name in counted and results.get(f"parsing/{name}")
    )
    return section(
        "Parsing",
        "Labelled bracket F1 as EVALB counts it: of the outputs that are trees "
        "over their sentence, and of all, any other output counting as one without "
        "brackets. For models that write tags, beam and α were chosen on the "
        "validation set, with the first seed; those that write words search greedily. "
        "They differ in size, vocabulary and schedule, too. “Trained on again” begins "
        "with the weights of the row before, for both seeds, and counts its tokens "
        "from there. The paper's parser reached 91.3 with forty thousand trees of the "
        "Wall Street Journal part and a model as wide as the big one. A tree that "
        "branches to the right at every word needs no model; its F1 on the test "
        "set: "
        f"{floor}.\n",
        table(header, lines),
        "With constrained decoding every output is a tree. F1 on the test set. As "
        "controls, a greedy search leaves the model's probabilities of words as they "
        "are, and another one parses random words:\n",
        table(
            "Treebank | greedy | rules alone | beam of 4 | random words", constrained
        ),
        *(["F1 of all on the validation set, by search:\n", tried] * bool(tried)),
    )


def searches(results: Results) -> str:
    """Show F1 of every search that the first seed tried on the validation set."""
    found = {
        treebank: {(one["beam_size"], one["alpha"]): one["score"] for one in tried}
        for name, treebank in TREEBANKS.items()
        for result in results.get(f"parsing/{name}", [])[:1]
        if (tried := result.get("searches"))
    }
    ways = sorted({way for tried in found.values() for way in tried})
    if not ways:
        return ""
    rows = [
        [treebank, *(f"{tried[way]:.1f}" if way in tried else "–" for way in ways)]
        for treebank, tried in found.items()
    ]
    header = ["Treebank", *(f"beam {beam}, α = {alpha}" for beam, alpha in ways)]
    return table(" | ".join(header), rows)


def diverged(results: Results) -> str:
    """Say which runs came to no end."""
    rows = [
        f"- `{result['name']}`: after step {result['training']['steps']:,}"
        for found in results.values()
        for result in found
        if result.get("diverged")
    ]
    if not rows:
        return ""
    text = "Runs that ended because their loss was no longer a finite number:\n"
    return section("Diverged", text, *rows, "")


OTHERS = {
    "recurrent": "[1](../notebooks/01_introduction.ipynb) and "
    "[2](../notebooks/02_background.ipynb): the models before the Transformer, on toy "
    "sentences, ten experiments of three seeds",
    "heads": "[Attention Visualizations](../notebooks/attention_visualizations.ipynb): "
    "five Transformers on toy sentences",
    "constrained": "[6.3](../notebooks/06_3_english_constituency_parsing.ipynb): the "
    "parsers above, made to write nothing but trees (which are kept but for the first "
    "seeds of the Penn sample and of CRAFT alone)",
    "attachment": "[6.3](../notebooks/06_3_english_constituency_parsing.ipynb): where "
    "the parsers attach prepositional phrases",
    "grammar": "[6.3](../notebooks/06_3_english_constituency_parsing.ipynb): a "
    "probabilistic grammar of the same trees, and our parser, on 1,000 test sentences",
    "text": "[5.1](../notebooks/05_1_training_data_and_batching.ipynb): counts of "
    "sentences, tokens and batches",
    "treebanks": "[6.3](../notebooks/06_3_english_constituency_parsing.ipynb): counts "
    "of trees and brackets",
}
"""Scripts in results/ whose numbers chapters show and this page does not."""


def time_and_others(results: Results) -> str:
    """Say how long all runs took, and what else was run for the book."""
    every = [result for found in results.values() for result in found]
    if not every:
        return ""
    minutes = {result["name"]: result["training"]["minutes"] for result in every}
    # A run's minutes include those of the run that it goes on from.
    twice = [run.begins_with for run in RUNS if run.begins_with and run.name in minutes]
    hours = (sum(minutes.values()) - sum(minutes[name] for name in twice)) / 60
    unknown = sum(result["training"]["wall_minutes"] is None for result in every)
    elsewhere = sum(
        not any("hardware" in session for session in result.get("sessions", []))
        for result in every
    )
    told = (
        f"The files have the wall time, too, but for {unknown} early runs; the machine "
        f"that those of {elsewhere} of these name is known only to have scored them. "
    )
    return section(
        "Hours, and other runs",
        f"The training steps of all {len(every)} runs above took {hours:.0f} "
        "hours; `python -m results.make --show` gives each run's minutes. "
        f"{told if unknown else ''}Some chapters also show what these scripts "
        "made. Their recordings come with the package:\n",
        *(f"- `results/{name}.py`, for {what}" for name, what in OTHERS.items()),
        "",
    )


RELEASED = "search/tatoeba_wide_longer-1"
"""The trial whose model comes with the package."""


def trials(results: Results) -> str:
    """Show the trials for better recipes, which no other page uses."""
    rows = []
    for run in RUNS:
        made = finished(results.get(run.experiment, []))
        if run.experiment.startswith("search/") and made and run.seed == 1:
            changes = (
                f"{name} = {value}"
                for part in run.changes.values()
                for name, value in part.items()
            )
            training = made[0]["training"]
            scores = [of_split(made, split, "bleu") for split in run.splits]
            rows.append(
                [
                    f"`{run.experiment.removeprefix('search/')}`",
                    ", ".join(changes),
                    f"{training['target_tokens'] / 1e6:.1f}",
                    f"{training['minutes']:.0f}",
                    " / ".join(map(spread, scores)),
                ]
            )
    if not rows:
        return ""
    header = "Trial | Differs from the recipe | Million target tokens | Minutes"
    header += " | BLEU, validation / test set"
    return section(
        "Trials",
        "One seed each. A trial named “longer” goes on from the end of the one before; "
        "its tokens and minutes include those of that one. "
        f"The package's `tatoeba_en_de_wide` is `{RELEASED}`; the recipes are "
        "unchanged. The goals were 42.6 BLEU for everyday sentences and 39.5 for "
        "Multi30k, on their test sets.\n",
        table(header, rows),
        "\n![How fast the trials learn, beside their recipes: perplexity of the "
        "validation set against millions of target tokens](_static/trials.svg)"
        "{.dark-light}\n",
    )


def everyday(results: Results) -> str:
    """Show fifty sentences, translated and judged one by one."""
    recorded = read_json(EVERYDAY)
    sentences = recorded["sentences"]
    rows = [(one["source"], one["translation"], one["judgement"]) for one in sentences]
    known = sum(one["in_training"] for one in sentences)
    found = [one["judgement"] for one in recorded["sentences"]]
    counts = ", ".join(f"{found.count(name)} {name}" for name in JUDGEMENTS)
    rounded = read_json(ROUNDED)
    bleu = rounded["bleu"]
    return section(
        "Everyday sentences",
        f"Fifty sentences of ours and the translations of `{recorded['model']}`. One "
        f"person judged them: {counts}. *Understandable* means that a reader gets the "
        "meaning, but something is wrong. The sentences were chosen before they were "
        f"translated; {known} of them stand in the training text, word for word. The "
        "model often fails on names, on rare words and on long sentences, and "
        "sometimes on short, common ones. The last two are those of the paper's "
        "Figures 3 and 4.\n",
        table("English | Translation | Judgement", rows),
        f"\nIn [the page that translates](live_translator.md) the weights of "
        f"`{rounded['model']}` are rounded to 8 bits. On the {rounded['sentences']:,} "
        f"sentences of its test set BLEU is {bleu['rounded']:.1f} with these weights "
        f"and {bleu['own']:.1f} with those of 16 bits.\n",
    )


SECTIONS = (
    translation,
    everyday,
    trials,
    parsing,
    table_3,
    label_smoothing,
    few_steps_and_more,
    ablations,
    warm_up,
    diverged,
)


def missing(results: Results) -> str:
    """Say which runs are still to be made."""
    planned = defaultdict(int)
    for run in RUNS:
        planned[run.experiment] += 1
    rows = [
        f"- `{name}`: {len(results.get(name, []))} of {seeds}"
        for name, seeds in planned.items()
        if len(results.get(name, [])) < seeds
    ]
    if not rows:
        return ""
    text = "Seeds that were trained, of those that are planned:\n"
    return section("Still to be run", text, *rows, "")


def render(results: Results, decoded: Result | None = None) -> str:
    """Return the whole page."""
    parts = [section(results) for section in SECTIONS]
    if decoded:
        parts.insert(2, ways_to_decode(decoded))
    parts += [time_and_others(results), missing(results)]
    return unbroken("\n".join([HEAD, *(part for part in parts if part)]))


def unbroken(page: str) -> str:
    """Keep ends of lines out of numbers, ranges, intervals and α."""
    page = re.sub(r"(?<=\d) (?=±)", "\u00a0", page)
    page = re.sub(r"± (?=\d)", "±\u00a0", page)
    page = re.sub(r"α = (?=\d)", "α\u00a0=\u00a0", page)
    return re.sub(r"(?<=\d)–(?=\d)", "\u2060–\u2060", page)


KEPT = ("seed", "model", "parameters", "commits", "training", "curve", "scores")
KEPT += ("diverged", "searches")  # which only some have
"""What chapters show of a result."""


def kept(result: Result) -> Result:
    """Return what chapters show of a result; of searches tried, the chosen one."""
    found = {key: result[key] for key in KEPT if key in result}
    if "searches" in result:
        search = result["configuration"]["search"]
        found["search"] = {name: search[name] for name in ("beam_size", "alpha")}
        found["pairs"] = result["corpus"]["pairs"]
    return found


def digest(results: Results, decoded: Result | None) -> str:
    """Return what chapters read: each experiment's seeds, and the ways to decode."""
    runs = {
        name: [*map(kept, of_name)]
        for name, of_name in sorted(results.items())
        if of_name
    }
    of_splits = decoded["scores"] if decoded else {}
    text = json.dumps({"runs": runs, "decoding": of_splits}, ensure_ascii=False)
    return f"{text}\n"


if __name__ == "__main__":
    found, decoded = read(), read_decoding()
    PAGE.write_text(render(found, decoded), encoding="utf-8")
    DIGEST.write_text(digest(found, decoded), encoding="utf-8")
