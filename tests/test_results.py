"""Stored results are whole, name commits of the history, and can be scored again."""

import json
import os
import re
import subprocess
from collections import defaultdict
from dataclasses import replace
from functools import cache

import jsonschema
import pytest
import sacrebleu
import torch
from safetensors import safe_open

from results import decoding, grammar, make, mended, parsing_scores, records
from results.bleu import lengths
from results.models import MODELS
from results.provenance import ROOT
from results.runs import CORPORA, GPU_RUNS, RUNS
from results.storage import read_json, read_lines
from transformer_lite.config import TABLE_3, recipe_from_dict
from transformer_lite.data.corpora import DATA_VARIABLE
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.parsing.brackets import score_brackets
from transformer_lite.parsing.trees import TREES, TREES_WITH_WORDS
from transformer_lite_book.recordings import HEADS, stored_runs

ALL = (*RUNS, *GPU_RUNS)
MADE = [run for run in ALL if (ROOT / run.result).exists()]
RECORDED = read_json(parsing_scores.CONSTRAINED)
SCORES_ALONE = {
    "parsing/penn_treebank_sample-1",
    "parsing/craft-1",
    "parsing/craft-2",
    "parsing/craft_gum-2",
    "parsing/craft_gum_words_longer-1",
    "parsing/craft_gum_words_longest-1",
    "parsing/craft_gum_words_longest-2",
}
"""Parsers whose trees only the history has: later ones of their kind are kept."""

with_data = pytest.mark.skipif(
    not os.environ.get(DATA_VARIABLE), reason=f"needs the corpora in {DATA_VARIABLE}"
)


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Make a corpus, once."""
    folder = tmp_path_factory.mktemp("repository")
    (folder / "results").symlink_to(ROOT / "results")

    @cache
    def prepare(corpus):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            make.prepare(corpus)  # which compares the text with the stored results'
        return PreparedCorpus(folder / "data/results" / corpus)

    return prepare


def test_no_two_runs_have_one_name():
    assert len({run.name for run in ALL}) == len(ALL)


def test_every_stored_result_is_of_a_run_of_the_table():
    stored = {path.relative_to(ROOT) for path in ROOT.glob("results/**/*-?.json")}
    assert stored == {run.result for run in MADE}


@pytest.mark.parametrize("run", ALL, ids=lambda run: run.name)
def test_every_run_of_the_table_can_be_made(run):
    assert run.corpus in CORPORA
    assert run.settings().train.seed == run.seed


@pytest.mark.parametrize("run", MADE, ids=lambda run: run.name)
def test_a_stored_result_is_whole_and_made_as_the_table_says(run):
    result, now = read_json(run.result), run.settings()
    jsonschema.validate(result, read_json(ROOT / "results/schema.json"))
    for name in ("name", "seed", "model", "weights"):
        assert result[name] == getattr(run, name)
    assert (result.get("ramp"), result.get("r_drop", 0)) == (run.ramp, run.r_drop)
    assert result.get("begin_with") == run.begin_with
    assert result["corpus"]["name"] == run.corpus
    recipe = recipe_from_dict(result["configuration"])
    if run.until_flat:
        end = make.flat_after(result["curve"])
        now = replace(now, train=replace(now.train, max_steps=end + make.STAGE))
    # The vocabulary is the corpus's; of several searches the best was taken.
    now = replace(now, model=replace(now.model, vocab_size=recipe.model.vocab_size))
    tried = {
        (s["beam_size"], s["alpha"]): s["score"] for s in result.get("searches", ())
    }
    if tried:
        best = max(tried, key=tried.get)
        now = replace(now, search=recipe.search)
        assert (recipe.search.beam_size, recipe.search.alpha) == best
    assert recipe == now
    with torch.device("meta"):
        model = MODELS[run.model](recipe.model)
    assert result["parameters"] == sum(p.numel() for p in model.parameters())
    if not result.get("diverged"):
        assert (tuple(tried), tuple(result["scores"])) == (run.searches, run.splits)
        last, training = result["curve"][-1], result["training"]
        assert recipe.train.max_steps == training["steps"] == last["step"]
        assert training["target_tokens"] == last["target_tokens"] > 0
    for split, outputs in kept_outputs(run).items():
        assert len(outputs) == result["scores"][split]["sentences"]


def kept_outputs(run):
    """What a run wrote, from which scores can be computed again: of its last split."""
    kept = {split for split in run.splits if run.outputs(split).exists()}
    if run.name not in SCORES_ALONE and not read_json(run.result).get("diverged"):
        assert kept >= set(run.splits[-1:])
    return {split: read_lines(run.outputs(split)) for split in kept}


@pytest.mark.parametrize(("scale", "layers", "widths"), [("", 2, 4), ("_gpu", 1, 2)])
def test_table_3_keeps_the_papers_ratios(scale, layers, widths):
    runs = {run.name: run.settings().model for run in ALL}
    for row, printed in TABLE_3.items():
        ours = runs[f"table_3{scale}/{row}-1"]
        assert ours.num_layers * layers == printed.num_layers
        for name in ("d_model", "d_ff"):
            assert getattr(ours, name) * widths == getattr(printed, name)
        for name in ("num_heads", "dropout", "positions"):
            assert getattr(ours, name) == getattr(printed, name)
        head = printed.d_k or printed.d_model // printed.num_heads
        assert (ours.d_k or ours.d_model // ours.num_heads) * widths == head


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)


def test_every_commit_that_a_recording_names_is_in_the_history():
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs the whole history")
    named = defaultdict(set)
    field = re.compile(r'"(?:commits?|scored_at)":\s*(\[[^]]*\]|"[^"]*")')
    for folder in ("results", "transformer_lite_book"):
        for path in (ROOT / folder).rglob("*.json"):
            for found in field.findall(path.read_text(encoding="utf-8")):
                for commit in re.findall(r'"([^"]+)"', found):
                    named[commit].add(path.name)
    with safe_open(HEADS, "pt") as file:
        named[json.loads(file.metadata()["commit"])].add(HEADS.name)
    readme = (ROOT / "results/README.md").read_text(encoding="utf-8")
    for commit in re.findall(r"/tree/(\w+)/results|\| `(\w+)` \|$", readme, re.M):
        named["".join(commit)].add("README.md")
    assert len(named) > 20
    history = "\n" + git("rev-list", "HEAD").stdout
    assert {name: of for name, of in named.items() if f"\n{name}" not in history} == {}


def test_the_stored_ways_to_decode_begin_with_the_scores_of_the_run():
    result, run = (
        read_json(decoding.RESULT),
        read_json(ROOT / f"results/{decoding.RUN}.json"),
    )
    jsonschema.validate(result, read_json(ROOT / "results/decoding.schema.json"))
    assert result["corpus"] == run["corpus"]
    first, *_ = names = [system.name for system in decoding.systems()]
    assert len(set(names)) == len(names)
    for split in decoding.SPLITS:
        scores = result["scores"][split]
        assert list(scores) == names
        bleu = run["scores"][split]["bleu"]
        assert scores[first]["bleu"] == pytest.approx(bleu, abs=1e-3)


def test_parsers_that_may_write_nothing_but_trees_write_nothing_else():
    languages = {run.name: read_json(run.result)["corpus"]["languages"] for run in MADE}
    parsers = {n for n, (_, of) in languages.items() if of in (TREES, TREES_WITH_WORDS)}
    assert RECORDED.keys() <= parsers  # those that came later are searched freely alone
    assert {r["scores"]["well_formed"] for r in RECORDED.values()} == {100}


@with_data
@pytest.mark.parametrize("corpus", sorted({run.corpus for run in MADE}))
def test_stored_scores_can_be_computed_again(corpus, prepared):
    for run in (run for run in MADE if run.corpus == corpus):
        recorded = read_json(run.result)["scores"]
        for split, outputs in kept_outputs(run).items():
            found = records.scores_of_outputs(prepared(corpus), split, outputs)
            for name, value in found.items():
                is_float = isinstance(value, float)
                expected = pytest.approx(value, abs=1e-4) if is_float else value
                assert recorded[split][name] == expected


@pytest.mark.parametrize("line", ["Ein Hund läuft.", "Ein Hund, am Strand, läuft.", ""])
def test_lengths_are_those_that_bleu_counts(line):
    bleu = sacrebleu.corpus_bleu([line, "Da!"], [["Ein Hund rennt.", "Dort!"]])
    found = lengths([line, "Da!"], bleu.ref_len)
    ratio, penalty = bleu.sys_len / bleu.ref_len, bleu.bp
    assert found == pytest.approx(
        {"length_ratio": ratio, "brevity_penalty": penalty}, abs=1e-4
    )


@with_data
def test_the_lengths_of_the_digest_are_those_that_bleu_counts(prepared):
    _, references = prepared("multi30k_en_de").text("valid")
    for row in ("D3", "base", "D4"):
        (first, *_) = stored_runs(f"table_3_longer/{row}")
        outputs = read_lines(ROOT / f"results/table_3_longer/{row}-1.valid.txt.gz")
        bleu = sacrebleu.corpus_bleu(outputs, [references])
        found = first["scores"]["valid"]
        assert found["length_ratio"] == round(bleu.sys_len / bleu.ref_len, 4)
        assert found["brevity_penalty"] == round(bleu.bp, 4)


@with_data
@pytest.mark.parametrize("name", sorted(RECORDED.keys() - SCORES_ALONE))
def test_constrained_trees_can_be_scored_again(name, prepared):
    (run,) = (run for run in RUNS if run.name == name)
    sentences, references = prepared(run.corpus).text("test")
    scores = RECORDED[name]["scores"]
    for search in ("test", "beam_4"):  # of controls the scores alone are kept
        score = "f1_all" if search == "test" else f"f1_of_{search}"
        if score in scores:  # parsers with tags have no beam
            trees = read_lines(parsing_scores.constrained_outputs(run, search))
            found = score_brackets(sentences, references, trees).f1_all
            assert scores[score] == pytest.approx(found, abs=1e-4)


@with_data
def test_attachments_can_be_scored_again(prepared):
    recorded = read_json(parsing_scores.ATTACHMENT)
    corpus = prepared(parsing_scores.ATTACHMENT_CORPUS)
    made = parsing_scores.score_all(corpus, recorded["scores"])
    made["scores"] = recorded["scores"] | made["scores"]  # of trees that are kept
    assert recorded == {**recorded, **made}


@with_data
def test_trees_of_the_grammars_can_be_scored_again(prepared):
    recorded = read_json(grammar.RECORDING)
    corpus = prepared(parsing_scores.ATTACHMENT_CORPUS)
    assert recorded["scores"] == grammar.scores_of(corpus)
    assert recorded["leads"] == grammar.leads_of(corpus)


@with_data
def test_outputs_can_be_mended_and_scored_again(prepared):
    recorded = read_json(mended.RECORDING)
    corpus = prepared(parsing_scores.ATTACHMENT_CORPUS)
    assert recorded["greedy"] == mended.stored_scores(corpus)


@with_data
def test_every_way_to_decode_can_be_scored_again(prepared):
    result, split = read_json(decoding.RESULT), decoding.SPLITS[-1]
    _, references = prepared(result["corpus"]["name"]).text(split)
    found = {
        system.name: read_lines(decoding.outputs(system))
        for system in decoding.systems()
    }
    scores = decoding.scores_of(found, references, result["corpus"]["languages"][1])
    for name, of_system in scores.items():
        assert result["scores"][split][name] == pytest.approx(of_system)
