"""One model is decoded in every way, and each way's score can be recomputed."""

import json

import jsonschema
import pytest
import sacrebleu
from test_results import SMALL, made, with_data  # noqa: F401

from results import conditions, decoding, make
from results.conditions import ROOT
from results.files import read_lines
from results.scores import tokenized_bleu
from transformer_lite.data.store import PreparedCorpus


def require_schema(result):
    path = ROOT / "results" / "decoding.schema.json"
    jsonschema.validate(result, json.loads(path.read_text(encoding="utf-8")))


def test_the_first_system_is_the_papers_and_none_comes_twice():
    first, *others = decoding.systems()
    assert (first.weights, first.beam_size, first.alpha) == ("average", 4, 0.6)
    names = {system.name for system in decoding.systems()}
    assert len(names) == 1 + len(others) == 2 * (1 + 2 * len(decoding.ALPHAS))


def test_scores_are_those_of_the_kept_outputs(made, monkeypatch):  # noqa: F811
    monkeypatch.chdir(made)
    monkeypatch.setattr(decoding, "RUNS", (SMALL,))
    monkeypatch.setattr(decoding, "RUN", SMALL.name)
    monkeypatch.setattr(decoding, "SPLITS", ("valid", "test"))
    monkeypatch.setattr(decoding, "ALPHAS", (0.0, 0.6))
    monkeypatch.setattr(make, "RUNS", ())
    monkeypatch.setattr(conditions, "commit", lambda: "0123456789ab")
    assert make.main(only="decoding") == 0
    result = json.loads(decoding.RESULT.read_text(encoding="utf-8"))
    require_schema(result)
    assert result["commit"] == "0123456789ab"
    for split in ("valid", "test"):
        _, references = PreparedCorpus(SMALL.data).text(split)
        for system in decoding.systems():
            lines = read_lines(decoding.outputs(system, split))
            score = result["scores"][split][system.name]
            bleu = sacrebleu.corpus_bleu(lines, [references])
            assert score["bleu"] == pytest.approx(bleu.score)
            assert score["length_ratio"] == bleu.sys_len / bleu.ref_len
            lowered = sacrebleu.corpus_bleu(lines, [references], lowercase=True)
            assert score["lowercased_bleu"] == pytest.approx(lowered.score)
            tokenized, _ = tokenized_bleu(lines, references)
            assert score["tokenized_bleu"] == pytest.approx(tokenized)


def test_without_weights_it_says_how_to_make_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="weights of this run are not here; delete"):
        decoding.decode("0123456789ab")


def test_the_stored_table_is_of_the_run_that_is_stored():
    result = json.loads((ROOT / decoding.RESULT).read_text(encoding="utf-8"))
    run = json.loads((ROOT / f"results/{decoding.RUN}.json").read_text("utf-8"))
    first, *_ = decoding.systems()
    require_schema(result)
    assert result["corpus"] == run["corpus"]
    names = {system.name for system in decoding.systems()}
    for split in decoding.SPLITS:
        of_split = result["scores"][split]
        assert of_split.keys() == names
        unpaired = [n for n, score in of_split.items() if score["p_value"] is None]
        assert unpaired == [first.name]
        found = result["scores"][split][first.name]["bleu"]
        assert found == pytest.approx(run["scores"][split]["bleu"], abs=1e-3)


@with_data
def test_every_stored_way_to_decode_can_be_scored_again(tmp_path, monkeypatch):
    result = json.loads((ROOT / decoding.RESULT).read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    make.prepare(result["corpus"]["name"])
    corpus = PreparedCorpus(tmp_path / "data/results" / result["corpus"]["name"])
    for split in decoding.SPLITS:
        _, references = corpus.text(split)
        found = {
            system.name: read_lines(ROOT / decoding.outputs(system, split))
            for system in decoding.systems()
        }
        scores = decoding.scores_of(found, references, corpus.languages[1])
        for name, of_system in scores.items():
            assert result["scores"][split][name] == pytest.approx(of_system)
