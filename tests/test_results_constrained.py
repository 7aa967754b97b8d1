"""A search that may write nothing but trees."""

import json
from random import Random
from types import SimpleNamespace

import pytest
import torch
from test_results import with_data

from results import constrained, make
from results.conditions import ROOT
from results.files import read_lines
from results.runs import RUNS
from transformer_lite.config import ModelConfig, recipe_from_dict
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.data.trees import NotATreeError, linearized, read_trees, tree_of
from transformer_lite.inference.brackets import score_brackets
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import BOS, EOS, Tokenizer
from transformer_lite.training.folder import RunFolder

RECORDED = json.loads(constrained.RECORDING.read_text(encoding="utf-8")).keys()
SCORES_ALONE = {"parsing/penn_treebank_sample-1", "parsing/craft-1"}
"""Runs that were parsed before their trees were kept."""
PARSED = [run for run in RUNS if run.name in RECORDED - SCORES_ALONE]
KNOWN = ["(NP", "(S", ")NP", ")S", "DT", "NN"]
SENTENCES = ["the dog barks", "a cat", "the cat sees a dog"]
TREE = "(S (NP (DT the) (NN dog)) (NN barks))"


@pytest.fixture
def untrained():
    """A tokenizer of words, brackets and tags, and a model that has learned nothing."""
    torch.manual_seed(0)
    tokenizer = Tokenizer.train(40 * SENTENCES, 40, symbols=KNOWN)
    shape = {"num_layers": 1, "d_model": 16, "d_ff": 16, "num_heads": 2}
    return tokenizer, Transformer(ModelConfig(vocab_size=40, **shape)).eval()


def test_every_tree_can_be_written():
    ((_, tree),) = read_trees([TREE], "x.mrg")
    beginning = constrained.Beginning(len(tree.words()))
    for token in linearized(tree):
        assert token in beginning.may_follow(KNOWN)
        beginning.add(token)
    assert beginning.may_follow(KNOWN) == []


@pytest.mark.parametrize("words", [1, 2, 7])
def test_whatever_is_chosen_is_a_tree(words):
    for seed in range(50):
        random, beginning = Random(seed), constrained.Beginning(words)
        while allowed := beginning.may_follow(KNOWN):
            beginning.add(random.choice(allowed))
        assert tree_of(beginning.tokens, ["word"] * words)


def test_what_is_not_allowed_is_the_beginning_of_no_tree():
    beginning = constrained.Beginning(1)
    for token in ["(S", "NN"]:
        beginning.add(token)
    assert beginning.may_follow(KNOWN) == [")S"]
    for token in set(KNOWN) - {")S"}:
        with pytest.raises(NotATreeError):
            tree_of(["(S", "NN", token, ")S"], ["word"])


def test_a_model_that_has_learned_nothing_writes_trees(untrained):
    tokenizer, model = untrained
    outputs = constrained.parse(model, tokenizer, SENTENCES, KNOWN)
    references = [f"(S {' '.join(['NN'] * len(s.split()))} )S" for s in SENTENCES]
    assert score_brackets(SENTENCES, references, outputs).well_formed == 100


def test_the_likeliest_allowed_token_is_taken_whatever_else_is_in_the_batch(untrained):
    tokenizer, model = untrained
    together = constrained.parse(model, tokenizer, SENTENCES, KNOWN)
    for sentence, output in zip(SENTENCES, together, strict=True):
        assert constrained.parse(model, tokenizer, [sentence], KNOWN) == [output]
        beginning, ids = constrained.Beginning(len(sentence.split())), [BOS]
        source = torch.tensor([[*tokenizer.encode(sentence), EOS]])
        while allowed := beginning.may_follow(KNOWN):
            scores = model(source, torch.tensor([ids]))[0, -1].tolist()
            best = max(allowed, key=lambda t: scores[tokenizer.encode(t)[0]])
            beginning.add(best)
            ids.append(tokenizer.encode(best)[0])
        assert output == " ".join(beginning.tokens)


def test_the_recording_has_nothing_but_trees():
    recording = json.loads(constrained.RECORDING.read_text(encoding="utf-8"))
    scores = recording["parsing/penn_treebank_sample-1"]["scores"]
    assert scores["well_formed"] == 100
    assert scores["f1"] == scores["f1_all"]
    assert scores["sentences"] == 245


@pytest.mark.parametrize("part", ["model", "training", "text"])
def test_weights_of_another_training_are_refused(tmp_path, monkeypatch, part):
    monkeypatch.chdir(ROOT)
    run = next(run for run in RUNS if run.name == "parsing/craft-1")
    result = json.loads(run.result.read_text(encoding="utf-8"))
    checksums, configuration = result["corpus"]["sha256"], result["configuration"]
    if part == "text":
        checksums["train.src"] = 64 * "0"
    else:
        of_part = configuration["train" if part == "training" else part]
        of_part["dropout" if part == "model" else "seed"] = 0
    folder = SimpleNamespace(
        path=tmp_path, recipe=lambda: recipe_from_dict(configuration)
    )
    corpus = SimpleNamespace(checksums=lambda: checksums)
    with pytest.raises(ValueError, match=f"has another {part} than results/parsing"):
        constrained.require_same(run, folder, corpus)


def test_the_trees_that_are_scored_are_kept(untrained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tokenizer, model = untrained
    run = next(run for run in RUNS if run.name == "parsing/craft-1")
    references = ["(S DT NN NN )S", "(NP DT NN )NP", "(S DT NN NN (NP DT NN )NP )S"]
    corpus = SimpleNamespace(
        text=lambda split: (SENTENCES, references), tokenizer=tokenizer
    )
    recipe = SimpleNamespace(model=None)
    folder = SimpleNamespace(recipe=lambda: recipe, average=None)
    for name, value in (
        ("PreparedCorpus", lambda path: corpus),
        ("RunFolder", lambda path: folder),
        ("MODELS", {run.model: lambda config: model}),
        ("require_same", lambda *_: None),
        ("load_weights", lambda *_: None),
    ):
        monkeypatch.setattr(constrained, name, value)
    scores = constrained.scores_of(run, tmp_path)
    for words, name in (("test", "f1_all"), ("random_words", "f1_of_random_words")):
        trees = read_lines(constrained.outputs(run, words))
        found = score_brackets(SENTENCES, references, trees).f1_all
        assert scores[name] == pytest.approx(found, abs=1e-4)


def test_every_parser_is_recorded():
    made = {
        run.name
        for run in RUNS
        if run.experiment.startswith("parsing/") and (ROOT / run.result).exists()
    }
    assert made == RECORDED


@with_data
@pytest.mark.parametrize("run", PARSED, ids=lambda run: run.name)
def test_kept_trees_can_be_scored_again(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make.prepare(run.corpus)
    sentences, references = PreparedCorpus(run.data).text("test")
    recording = json.loads(constrained.RECORDING.read_text(encoding="utf-8"))
    stored = recording[run.name]["scores"]
    for words, name in (("test", "f1_all"), ("random_words", "f1_of_random_words")):
        trees = read_lines(ROOT / constrained.outputs(run, words))
        found = score_brackets(sentences, references, trees)
        assert found.well_formed == 100
        assert stored[name] == pytest.approx(found.f1_all, abs=1e-4)


def test_what_the_file_has_of_other_runs_stays(tmp_path, monkeypatch):
    out = tmp_path / "constrained.json"
    out.write_text('{"parsing/other": {"scores": {"f1": 1.0}}}', encoding="utf-8")
    run = next(run for run in RUNS if run.name == "parsing/craft-1")
    weights = RunFolder(tmp_path / run.folder).average
    weights.parent.mkdir(parents=True)
    weights.touch()
    monkeypatch.setattr(constrained, "require_clean", lambda: "0123456789ab")
    monkeypatch.setattr(constrained, "scores_of", lambda run, root: {"f1": 2.0})
    monkeypatch.chdir(ROOT)
    constrained.main(out, tmp_path)
    recording = json.loads(out.read_text(encoding="utf-8"))
    assert recording["parsing/other"] == {"scores": {"f1": 1.0}}
    assert recording[run.name]["scores"] == {"f1": 2.0}
    made_by = {"commit", "versions", "python", "hardware"}
    assert made_by < recording[run.name].keys()


def test_without_a_trained_run_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(constrained, "require_clean", lambda: None)
    with pytest.raises(SystemExit, match="no trained weights are here; name another"):
        constrained.main(tmp_path / "constrained.json", tmp_path)
    assert not list(tmp_path.iterdir())
