"""A run is made, stopped, resumed, scored and written down."""

import hashlib
import json
import os
import signal
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import sacrebleu
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from results import (
    decoding,
    make,
    mended,
    parsing_scores,
    provenance,
    r_drop,
    records,
    release,
    treebank_files,
)
from results.models import MODELS
from results.r_drop import RDrop
from results.runs import CORPORA, Run
from results.storage import read_json, read_lines
from transformer_lite.attention import MultiHeadAttention
from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference.scores import ValidationSamples
from transformer_lite.inference.translator import Translator
from transformer_lite.layers import FeedForward
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam, noam_schedule
from transformer_lite.parsing.trees import read_trees
from transformer_lite.runs.folder import RunFolder
from transformer_lite.runs.metrics import Metrics
from transformer_lite.tokenizer import BOS, PAD
from transformer_lite.training import trainer
from transformer_lite.training.step import Objective

SMALL = Run(
    name="group/small-1",
    purpose="a test",
    corpus="words",
    recipe="toy",
    changes={
        "model": {"num_layers": 1, "d_model": 6, "d_ff": 7, "num_heads": 2},
        "train": {"max_steps": 5, "validate_every": 2, "batch_tokens": 60},
        "search": {"beam_size": 2, "max_extra": 3},
    },
    seed=5,
    splits=("valid", "test"),
    searches=((1, 0.0), (2, 0.6)),
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The folder of a repository in which a small run was made."""
    folder = tmp_path_factory.mktemp("repository")
    words = "one two three four five six".split()
    files = ""
    for split, size in (("train", 30), ("valid", 3), ("test", 5)):
        lines = [f"{words[i % 5]} {words[i % 6]} {i}\n" for i in range(size)]
        (folder / f"{split}.en").write_text("".join(lines))
        (folder / f"{split}.de").write_text("".join(reversed(lines)))
        files += f" --{split} {split}.en {split}.de"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        command = f"files --source en --target de --vocab-size 40{files}"
        patch.setitem(CORPORA, "words", command)
        assert make.make(SMALL)
        yield folder


@pytest.fixture
def made(repository, monkeypatch):
    """The result of the run, and its repository as the working directory."""
    monkeypatch.chdir(repository)
    monkeypatch.setattr(make, "RUNS", (SMALL,))
    return read_json(SMALL.result)


def require_schema(result):
    clean = json.loads(json.dumps(result).replace("-dirty", ""))  # as commits are kept
    jsonschema.validate(clean, read_json(provenance.ROOT / "results/schema.json"))


def result_made_of(run):
    """The result of a run that is made to its end."""
    assert make.make(run)
    result = read_json(run.result)
    require_schema(result)
    return result


def test_a_result_has_all_that_it_depends_on(made):
    require_schema(made)
    assert [point["step"] for point in made["curve"]] == [2, 4, 5]
    text = (SMALL.data / "valid.tgt.txt").read_bytes()
    checksum = hashlib.sha256(text).hexdigest()
    assert made["corpus"]["sha256"]["valid.tgt"] == checksum
    (session,) = made["sessions"]
    assert session["commit"] == made["scored_at"]
    assert session["hardware"] == made["hardware"]
    best = max(made["searches"], key=lambda one: one["score"])
    assert made["configuration"]["search"]["beam_size"] == best["beam_size"]


def test_scores_are_those_of_the_kept_outputs(made):
    outputs = read_lines(SMALL.outputs("test"))
    references = PreparedCorpus(SMALL.data).text("test")[1]
    found = sacrebleu.corpus_bleu(outputs, [references]).score
    assert made["scores"]["test"]["bleu"] == pytest.approx(found, abs=1e-4)
    assert not SMALL.outputs("valid").exists()


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(made, monkeypatch):
    class Stopping(ValidationSamples):
        def __call__(self):
            os.kill(os.getpid(), signal.SIGTERM)
            return super().__call__()

    run = replace(SMALL, name="group/stopped-1")
    with monkeypatch.context() as patch:
        patch.setattr(make, "validation_samples", Stopping)
        assert not make.make(run)
        assert not run.result.exists()
    result = result_made_of(run)
    assert len(result["sessions"]) == 2
    assert result["curve"] == made["curve"]
    assert read_lines(run.outputs("test")) == read_lines(SMALL.outputs("test"))


def test_a_run_goes_on_where_another_has_ended(made):
    longer = {**SMALL.changes["train"], "max_steps": 7}
    run = replace(
        SMALL,
        name="group/longer-1",
        changes={**SMALL.changes, "train": longer},
        begins_with=SMALL.name,
    )
    result = result_made_of(run)
    assert result["curve"][:3] == made["curve"]
    assert [point["step"] for point in result["curve"][3:]] == [6, 7]
    assert result["training"]["steps"] == 7
    assert len(result["sessions"]) == 2
    assert RunFolder(SMALL.folder).average.exists()


def test_a_run_is_scored_with_the_weights_that_it_names(made, monkeypatch):
    folder, loaded = RunFolder(SMALL.folder), []
    monkeypatch.setattr(records, "load_weights", lambda _, path: loaded.append(path))
    for name in ("average", "best", "last"):
        records.translator_of(replace(SMALL, weights=name))
    assert loaded == [folder.average, folder.best, folder.weights_after(5)]


def test_a_run_begins_with_the_weights_that_the_table_names_alone(made):
    average = RunFolder(SMALL.folder).average
    begin_with = {"run": str(SMALL.folder), "sha256": 64 * "0"}
    run = replace(SMALL, name="group/begun-1", begin_with=begin_with)
    with pytest.raises(
        ValueError, match=r"average.safetensors: not the weights that g"
    ):
        make.make(run)
    assert not run.folder.exists()
    checksum = hashlib.sha256(average.read_bytes()).hexdigest()
    run = replace(run, begin_with={**begin_with, "sha256": checksum})
    result = result_made_of(run)
    assert result["begin_with"] == run.begin_with
    assert RunFolder(run.folder).training_data()["begin_with"] == run.begin_with


def test_a_made_run_is_not_made_again(made, monkeypatch):
    monkeypatch.setattr(make, "prepare", None)
    assert make.make(SMALL)
    assert make.main("group/*") == 0


def test_another_text_than_that_of_the_stored_results_is_refused(made, monkeypatch):
    made["corpus"]["sha256"]["train.src"] = 64 * "0"
    monkeypatch.setattr(make, "read_json", lambda path: made)
    with pytest.raises(ValueError, match="another text, or another vocabulary"):
        make.prepare("words")


def test_nothing_is_made_from_changes_that_are_not_committed(made, monkeypatch):
    monkeypatch.setattr(make, "RUNS", (replace(SMALL, name="group/other-1"),))
    monkeypatch.setattr(provenance, "commit", lambda: "0123456789ab-dirty")
    with pytest.raises(SystemExit, match="commit your changes first"):
        make.main()


def test_runs_that_fail_are_named_and_the_others_are_made(made, monkeypatch):
    program = Path("python").absolute()
    program.write_text('#!/bin/sh\ncase "$4" in *bad*) exit 3;; esac\necho "$4"\n')
    program.chmod(0o755)
    monkeypatch.setattr(make.sys, "executable", str(program))
    missing = "files --source a --target b --train x y --valid x y"
    monkeypatch.setitem(CORPORA, "missing", missing)
    runs = [replace(SMALL, name=name) for name in ("good-1", "bad-1", "good-2")]
    runs.append(replace(SMALL, name="unprepared-1", corpus="missing"))
    failed = make.make_all(runs, jobs=2)
    assert {run.name for run in failed} == {"bad-1", "unprepared-1"}
    assert Path("runs/results/good-2.log").read_text() == "good-2\n"


class Diverging(Transformer):
    """A model whose loss is no finite number."""

    def hidden(self, *ids):
        return super().hidden(*ids) * torch.nan


def test_a_run_that_diverges_leaves_a_result_that_says_so(made, monkeypatch):
    monkeypatch.setitem(MODELS, "diverging", Diverging)
    run = replace(SMALL, name="group/diverging-1", model="diverging")
    result = result_made_of(run)
    assert (result["diverged"], result["curve"], result["scores"]) == (True, [], {})


# The parser begins with its own weights, in its own shape.
@pytest.mark.parametrize("name", sorted(MODELS.keys() - {"Transformer"}))
def test_every_other_model_is_trained(made, name):
    run = replace(SMALL, name=f"models/{name}-1", model=name, splits=(), searches=())
    assert make.make(run)
    assert read_json(run.result)["curve"][-1]["valid_loss"] < 5


def test_a_run_goes_on_until_its_perplexity_is_flat(made, monkeypatch):
    monkeypatch.setattr(make, "STAGE", 4)
    monkeypatch.setattr(make, "flat_after", lambda curve: 8 if len(curve) > 3 else None)
    run = replace(SMALL, name="group/flat-1", until_flat=True)
    result = result_made_of(run)
    assert [point["step"] for point in result["curve"]] == [2, 4, 6, 8, 10, 12]
    assert result["configuration"]["train"]["max_steps"] == 12
    rates = [entry.get("rate") for entry in Metrics(run.folder).read()]
    rates = [rate for rate in rates if rate]
    assert rates[7] < rates[8]  # the toy's ramp, on which the cooldown begins
    assert rates[11] == pytest.approx(rates[8] * 12 / 9 / 4)


def test_a_perplexity_is_flat_where_a_stage_lowers_it_by_less_than_a_hundredth():
    def end(*perplexities):
        steps = range(make.STAGE // 2, 10 * make.STAGE, make.STAGE // 2)
        points = zip(steps, perplexities, strict=False)
        return make.flat_after(
            [{"step": step, "valid_perplexity": value} for step, value in points]
        )

    assert end() is None
    assert end(99, 98) is None
    assert end(9, 8, 7, 7.9) is None
    assert end(9, 8, 7.93, 7.95) == 2 * make.STAGE
    assert end(9, 8, 7.95, 7.9, 7.8, 7.83) is None
    assert end(9, 8, 7.9, 7.91, 7.9, 7.83) == 3 * make.STAGE


def test_a_ramp_leaves_the_peak_and_what_follows_as_they_are():
    def rates():
        parameter = torch.nn.Parameter(torch.zeros(1))
        schedule = noam_schedule(adam([parameter], rate=1.0), 128, warmup=500)
        return [schedule.lr_lambdas[0](done) for done in range(1_000)]

    usual = rates()
    for steps in (1, 50, 500):
        with make.ramp(steps):
            changed = rates()
        peak = usual[499]
        assert changed[:steps] == pytest.approx(
            [peak * (done + 1) / steps for done in range(steps)]
        )
        assert changed[steps:500] == [peak] * (500 - steps)
        assert changed[500:] == usual[500:]
    with make.ramp(None):
        assert rates() == usual
    assert rates() == usual


CONFIG = ModelConfig(
    vocab_size=4_000, num_layers=3, d_model=128, d_ff=512, num_heads=8, max_len=64
)
"""The base row of Table 3 on Multi30k."""

CHANGED = (
    "without root",
    "without padding mask",
    "three matrices",
    "heads for feed-forward",
    "without ReLU",
)


def made_model(name):
    torch.manual_seed(0)
    return MODELS[name](CONFIG).eval()


SOURCE, TARGET = torch.tensor([[17, 18, 19, 3]]), torch.tensor([[BOS, 27, 28]])


def test_without_root_scores_are_products():
    attention = made_model("without root").decoder.layers[0].cross_attention
    x, y = torch.randn(1, 5, 128), torch.randn(1, 4, 128)
    key, value = attention.keys_and_values(y)
    query = attention.w_q(x).unflatten(-1, (8, 16)).transpose(1, 2)
    heads = (query @ key.transpose(-2, -1)).softmax(dim=-1) @ value
    expected = attention.w_o(heads.transpose(1, 2).flatten(2))
    assert torch.allclose(attention(x, y), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["Transformer", "without padding mask"])
def test_without_padding_mask_padding_is_attended_to(name):
    model = made_model(name)
    padded = torch.cat([SOURCE, torch.full((1, 3), PAD)], dim=1)
    is_same = torch.allclose(model(SOURCE, TARGET), model(padded, TARGET), atol=1e-5)
    assert is_same == (name == "Transformer")
    with_future = torch.cat([TARGET, torch.tensor([[29]])], dim=1)
    before = model(SOURCE, with_future)[:, :-1]
    assert torch.allclose(model(SOURCE, TARGET), before, atol=1e-5)


def test_three_matrices_are_three():
    model, tied = made_model("three matrices"), made_model("Transformer")
    more = sum(p.numel() for p in model.parameters()) - tied.num_parameters()
    assert more == 2 * 4_000 * 128
    model(SOURCE, TARGET)[0, 0, 5].backward()
    used = {
        name: parameter.grad.abs().sum(dim=1).nonzero().flatten().tolist()
        for name, parameter in model.named_parameters()
        if "embedding" in name
    }
    assert used == {
        "encoder.embedding.weight": sorted(SOURCE[0].tolist()),
        "decoder.embedding.input.weight": [TARGET[0, 0]],
        "decoder.embedding.weight": [5],
    }


def test_heads_in_place_of_feed_forward_networks_have_as_many_parameters():
    model, usual = made_model("heads for feed-forward"), made_model("Transformer")
    assert model.num_parameters() == pytest.approx(usual.num_parameters(), rel=0.01)
    assert not any(isinstance(part, FeedForward) for part in model.modules())
    parts = [part for part in model.modules() if isinstance(part, MultiHeadAttention)]
    assert sorted(part.num_heads for part in parts) == 6 * [16] + 3 * [24]
    spread = {p.std().item() for part in parts for p in part.parameters()}
    assert max(spread) < 0.09


def test_without_relu_the_networks_are_linear_and_begin_with_the_same_weights():
    linear, usual = made_model("without ReLU"), made_model("Transformer")
    x, zero = torch.randn(5, 128), torch.zeros(5, 128)
    for part in (linear.encoder.layers[1], linear.decoder.layers[2]):
        network = part.feed_forward
        both = network(x) + network(-x)
        assert torch.allclose(both, 2 * network(zero), atol=1e-5)
    ours, theirs = linear.state_dict(), usual.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("name", CHANGED)
def test_changed_models_write_step_by_step_what_they_score_at_once(name):
    model = made_model(name)
    state, steps = model.start(SOURCE), []
    for last_ids in TARGET.split(1, dim=1):
        logits, state = model.decoder.step(last_ids, state)
        steps.append(logits)
    assert torch.allclose(torch.cat(steps, 1), model(SOURCE, TARGET), atol=1e-4)


def test_r_drop_adds_how_far_two_copies_are_apart():
    batch = Batch.from_ids([[7, 8, 9], [7]], [[5, 6], [5, 6, 7, 8]])
    inputs = batch.src_ids, batch.tgt_input, batch.labels, batch.real
    model = made_model("Transformer")
    usual = Objective(model, 0.1)(*inputs)
    same = RDrop(model, 0.1, alpha=5.0)(*inputs)
    assert torch.allclose(torch.stack(same[:2]), torch.stack(usual[:2]), rtol=1e-4)
    assert same.tokens == usual.tokens
    model.train()

    def parts(alpha):
        torch.manual_seed(0)
        return RDrop(model, 0.1, alpha=alpha)(*inputs)

    torch.manual_seed(0)
    two = [ids.repeat(2, 1) for ids in inputs[:2]]
    log_probs = model(*two).log_softmax(-1).chunk(2)
    one, other = (of_copy.flatten(0, 1)[batch.real] for of_copy in log_probs)
    divergences = F.kl_div(one, other, reduction="sum", log_target=True)
    divergences += F.kl_div(other, one, reduction="sum", log_target=True)
    more = parts(5.0).loss - parts(0.0).loss
    assert more.item() == pytest.approx(5.0 / 4 * divergences.item(), rel=1e-3)
    assert parts(5.0).nll == parts(0.0).nll


def test_a_run_with_r_drop_is_made(made, monkeypatch):
    seen = []

    class Seen(RDrop):
        def __init__(self, *inputs, alpha):
            seen.append(alpha)
            super().__init__(*inputs, alpha=alpha)

    monkeypatch.setattr(r_drop, "RDrop", Seen)
    run = replace(SMALL, name="group/r_drop-1", r_drop=5.0)
    assert make.make(run)
    result = read_json(run.result)
    require_schema(result)
    assert seen == [result["r_drop"]] == [5.0]
    assert trainer.Objective is Objective


def test_every_way_to_decode_is_scored(made, monkeypatch):
    monkeypatch.setattr(decoding, "RUNS", (SMALL,))
    monkeypatch.setattr(decoding, "RUN", SMALL.name)
    monkeypatch.setattr(decoding, "SPLITS", ("test",))
    decoding.decode("0123456789ab")
    result = read_json(decoding.RESULT)
    schema = provenance.ROOT / "results/decoding.schema.json"
    jsonschema.validate(result, read_json(schema))
    _, references = PreparedCorpus(SMALL.data).text("test")
    for system in decoding.systems():
        lines = read_lines(decoding.outputs(system))
        bleu = sacrebleu.corpus_bleu(lines, [references])
        score = result["scores"]["test"][system.name]
        assert score["bleu"] == pytest.approx(bleu.score)
        assert score["length_ratio"] == bleu.sys_len / bleu.ref_len


def test_a_checkpoint_for_readers_has_the_scores_of_its_card(made, monkeypatch):
    for texts in (release.LICENCES, release.LIMITS, release.SCORING):
        monkeypatch.setitem(texts, "words", "It knows numbers.")
    release.release(SMALL, Path("small"))
    sources, references = PreparedCorpus(SMALL.data).text("test")
    outputs = Translator.load(Path("small").absolute()).translate(sources)
    bleu = sacrebleu.corpus_bleu(outputs, [references]).score
    card = Path("small/README.md").read_text(encoding="utf-8")
    assert f"| test | {bleu:.1f} |" in card
    assert "{" not in card
    stored = load_file(RunFolder(Path("small")).average)
    kinds = {(tensor.dim(), tensor.dtype) for tensor in stored.values()}
    assert kinds == {(2, torch.int8), (1, torch.float32)}


@pytest.mark.parametrize(
    "change", ["results/new.py", "results/runs.toml", "results/recipes/new.toml"]
)
def test_a_commit_is_marked_where_code_was_changed(tmp_path, monkeypatch, change):
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    (tmp_path / "results/recipes").mkdir(parents=True)
    (tmp_path / "results/base-1.json").write_text("before")
    own = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in ("init -q", "add .", "commit -qm first"):
        subprocess.run([*own, *words.split()], cwd=tmp_path, check=True)
    (tmp_path / "results/base-1.json").unlink()  # to have it made again
    at = provenance.commit()
    (tmp_path / change).write_text("after")
    assert provenance.commit() == f"{at}-dirty"


def test_a_treebank_is_downloaded_and_checked(tmp_path, monkeypatch):
    monkeypatch.delenv(treebank_files.DATA_VARIABLE, raising=False)
    trees = {s: f"(S (NN {s}))" for s in treebank_files.THEIR_NAMES}
    with zipfile.ZipFile(tmp_path / "treebank.zip", "w") as packed:
        for number, split in ((159, "train"), (160, "valid"), (199, "test")):
            packed.writestr(f"combined/wsj_0{number}.mrg", f"{trees[split]}\n")
    texts = {f"craft-ids-{n}.txt": f"{n}\n" for n in ("train", "dev", "test")}
    texts |= {"train.tree": trees["train"], "dev.tree": trees["valid"]}
    texts |= {"test.tree": trees["test"], "splits.md": "# GUM\n"}
    for split, name in treebank_files.THEIR_NAMES.items():
        texts[f"GUM_bio_{name}.ptb"] = trees[split]
        texts["splits.md"] += f"## {name}\n\n* GUM_bio_{name}\n* GUM_vlog_x\n"
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(
        treebank_files, "published_file", lambda _, path, __: tmp_path / Path(path).name
    )
    for name, treebank in treebank_files.TREEBANKS.items():
        with pytest.raises(ValueError, match="train has not the published text"):
            treebank_files.get(name, tmp_path / name)
        for split, text in trees.items():
            checksum = hashlib.sha256(text.replace(" ", "").encode()).hexdigest()
            monkeypatch.setitem(treebank.sha256, split, checksum)
        treebank_files.get(name, tmp_path / name)
        for split, text in trees.items():
            assert (tmp_path / name / f"{split}.mrg").read_text().strip() == text


GOLD = """
(S (PRP We) (VP (VBD saw) (NP (DT the) (NN man)) (PP (IN with) (NP (NN care)))))
(S (PRP We) (VP (VBD saw) (NP (NP (DT the) (NN man)) (PP (IN with) (NP (NN care))))))
(S (PRP We) (VP (VBD saw) (PP (IN with) (NP (NN care)))))
(S (PRP We) (VP (MD can) (VP (VB see) (NP (NN it) (CC or) (NN him)) (NP (NN now)))))
"""
"""The verb has the phrase; the object has it; no object; no phrase."""


def golds():
    return [tree for _, tree in read_trees(GOLD.split("\n"), "trees")]


def test_a_phrase_after_a_verb_and_its_object_is_a_case():
    found = [parsing_scores.cases(tree) for tree in golds()]
    assert found == [[(1, 4, "verb")], [(1, 4, "object")], [], []]


def test_a_tree_attaches_by_the_smallest_constituent_around_the_preposition():
    of_verb, of_object, *_ = golds()
    outputs = {
        "(S XX (VP XX (NP XX XX )NP (PP XX (NP XX )NP )PP )VP )S": "verb",
        "(S XX (VP XX (NP XX XX )NP (NP XX XX )NP )VP )S": "verb",
        "(S XX (VP XX (NP XX (NP XX (PP XX XX )PP )NP )NP )VP )S": "object",
        "(S XX (VP XX (NP XX XX )NP )VP (PP XX XX )PP )S": None,
        "(S XX (VP XX )VP (S (NP XX XX )NP (VP XX XX )VP )S )S": None,
        "(NP XX XX XX XX XX XX )NP": None,
        "(VP XX XX )VP": None,
    }
    for output, answer in outputs.items():
        for gold, expected in ((of_verb, "verb"), (of_object, "object")):
            scores = parsing_scores.score([gold], [output])
            assert scores["right"] == (100 if answer == expected else 0)
            assert scores["wrong"] == (100 if answer not in (expected, None) else 0)
            assert scores["in_trees"] == (output != "(VP XX XX )VP")


def test_phrases_of_outputs_that_are_no_trees_are_not_attached():
    of_verb, of_object, *_ = golds()
    outputs = ["(S XX )S", "(S We (VP saw (NP the man (PP with care )PP )NP )VP )S"]
    scores = parsing_scores.score([of_verb, of_object], outputs, with_words=True)
    assert scores == {"right": 50, "wrong": 0, "right_in_trees": 100, "in_trees": 1}


def test_baselines_answer_what_the_training_trees_answer_most():
    of_verb, *_ = golds()
    hats = [*read_trees(GOLD.replace("care", "hats").split("\n"), "trees")]
    of_object = hats[1][1]
    outputs = ["(S XX (VP XX (NP XX XX )NP (PP XX (NP XX )NP )PP )VP )S"]
    outputs += ["(S XX (VP XX (NP XX XX )NP )VP (PP XX XX )PP )S"]  # neither
    found = parsing_scores.baselines(
        [of_object, of_object, of_verb], [of_verb, of_object], outputs
    )
    assert found == {
        "cases": {"train": 3, "test": 2},
        "frequent": "object",
        "right_by_frequent": 50,
        "right_by_preposition": 50,
        "right_by_four_words": 100,  # "care" is the verb's, "hats" the object's
        "attached_by_parser": {
            "cases": 1,
            "right_by_frequent": 0,
            "right_by_preposition": 0,
            "right_by_four_words": 100,
            "right_by_parser": 100,
            "four_words_ahead_of_parser": [0, 0, 0],
        },
    }


@pytest.mark.parametrize(
    ("output", "tree"),
    [
        ("(S (NP a dog )NP (VP runs )VP )S", "(S (NP a dog )NP (VP runs )VP )S"),
        ("(S (NP a dgo )NP (VP runs )VP )S", "(S (NP a dog )NP (VP runs )VP )S"),
        ("(S (NP a big dog )NP (VP runs )VP )S", "(S (NP a dog )NP (VP runs )VP )S"),
        ("(S (NP dog )NP (VP runs )VP )S", "(S (NP a dog )NP (VP runs )VP )S"),
        ("(S (NP a dog (VP runs )VP )S", "(S (NP a dog (VP runs )VP )NP )S"),
        ("(S (NP a dog )PP )NP (VP )VP runs", "(S (NP a dog )NP runs )S"),
        ("(S (NP a dog ) (VP runs ) )", "(S (NP a dog )NP (VP runs )VP )S"),
        ("a dog )S )S runs", "(S a dog runs )S"),
        ("", "(S a dog runs )S"),
    ],
)
def test_any_output_can_be_mended(output, tree):
    assert mended.mended(output, "a dog runs") == tree


def test_copied_words_stand_in_their_order():
    assert mended.copied("(S (NP b )NP c d )S", "x y") == "(S (NP x )NP y d )S"
    assert mended.matched("(S (NP b )VP c )X )X") == "(S (NP b )NP c )S )X"


def test_articles_are_drawn_whole():
    first, second = 0, parsing_scores.ARTICLES[0]
    sums = parsing_scores.drawn_anew([[1, 5], [2, 7], [3, 0]], [first, first, second])
    assert sums[0].tolist() == [6, 12]
    assert {tuple(row) for row in sums[1:].tolist()} == {(6, 12), (6, 24), (6, 0)}
    assert parsing_scores.interval(sums[:, 1] / sums[:, 0]) == [2, 0, 4]
