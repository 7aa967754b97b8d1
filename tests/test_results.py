"""A run's result is written down with all that it depends on, and can be recomputed."""

import hashlib
import json
import math
import os
import re
import signal
import subprocess
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import sacrebleu
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch.nn import functional as F

from results import conditions, evidence, make, recurrent, release
from results.files import read_lines, write_lines
from results.models import MODELS, PreNorm
from results.runs import CORPORA, GPU_RUNS, RECIPES, RUNS, Run
from transformer_lite.book.recurrent import recorded_runs
from transformer_lite.config import RECIPES as RECIPES_OF_THE_PACKAGE
from transformer_lite.config import TABLE_3, ModelConfig, recipe_from_dict
from transformer_lite.data.corpora import DATA_VARIABLE
from transformer_lite.data.store import SIDES, PreparedCorpus
from transformer_lite.files import only_process
from transformer_lite.inference.translator import Translator
from transformer_lite.model import Transformer
from transformer_lite.training.folder import RunFolder
from transformer_lite.training.metrics import Metrics

ROOT = conditions.ROOT
ALL = (*RUNS, *GPU_RUNS)
MADE = [run for run in ALL if (ROOT / run.result).exists()]
SCHEMA = json.loads((ROOT / "results/schema.json").read_text(encoding="utf-8"))

with_data = pytest.mark.skipif(
    DATA_VARIABLE not in os.environ, reason=f"needs the corpora in {DATA_VARIABLE}"
)
SMALL = Run(
    name="group/small-1",
    purpose="a test",
    corpus="words",
    recipe="toy",
    changes={
        "model": {"num_layers": 1, "d_model": 6, "d_ff": 7, "num_heads": 2},
        "train": {"max_steps": 3, "validate_every": 2, "batch_tokens": 60},
        "search": {"beam_size": 2, "max_extra": 3},
    },
    seed=5,
    splits=("valid", "test"),
)


ANY_SCORES = {"sentences": 1, "loss": 1.0, "perplexity": 1.0, "seconds": 1.0}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a repository in which a small run was made."""
    folder = tmp_path_factory.mktemp("repository")
    words = "one two three four five six".split()
    for split, size in (("train", 30), ("valid", 3), ("test", 5)):
        lines = [f"{words[i % 5]} {words[i % 6]} {i}\n" for i in range(size)]
        (folder / f"{split}.en").write_text("".join(lines))
        (folder / f"{split}.de").write_text("".join(reversed(lines)))
    files = [f"--{split} {split}.en {split}.de" for split in ("train", "valid", "test")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        command = " ".join(["files --vocab-size 40", *files])
        patch.setitem(CORPORA, "words", command)
        make.prepare(SMALL.corpus)
        assert make.make(SMALL)
        yield folder


@pytest.fixture
def result(made):
    return json.loads((made / SMALL.result).read_text(encoding="utf-8"))


def require_schema(result):
    clean = json.loads(json.dumps(result).replace("-dirty", ""))  # as commits are kept
    jsonschema.validate(clean, SCHEMA)


def test_a_result_has_all_that_it_depends_on(result):
    require_schema(result)
    assert result["name"] == "group/small-1"
    assert result["configuration"]["train"]["seed"] == result["seed"] == 5
    assert result["configuration"]["model"]["vocab_size"] == 40
    assert result["training"]["steps"] == 3
    assert [point["step"] for point in result["curve"]] == [2, 3]
    (session,) = result["sessions"]
    assert result["commits"] == [session["commit"]]
    assert session["hardware"] == result["hardware"]
    assert session["precision"] == result["precision"]
    assert result["training"]["wall_minutes"] == round(session["seconds"] / 60, 1)


def test_scores_are_those_of_the_kept_outputs(made, result, monkeypatch):
    monkeypatch.chdir(made)
    for split in SMALL.splits:
        outputs = read_lines(SMALL.outputs(split))
        references = PreparedCorpus(SMALL.data).text(split)[1]
        found = sacrebleu.corpus_bleu(outputs, [references]).score
        assert result["scores"][split]["bleu"] == pytest.approx(found, abs=1e-4)
        assert result["scores"][split]["sentences"] == len(outputs)


def test_the_search_that_does_best_on_the_validation_set_is_taken(made, monkeypatch):
    monkeypatch.chdir(made)
    run = replace(SMALL, searches=((1, 0.0), (2, 0.5), (3, 1.0)))
    translator = evidence.translator_of(run)
    bleu = iter([3.0, 9.0, 5.0])
    monkeypatch.setattr(
        evidence,
        "score_outputs",
        lambda *_: SimpleNamespace(watched=lambda: {"f1": next(bleu), "other": 100.0}),
    )
    tried = evidence.choose_search(translator, run)
    assert [one["score"] for one in tried] == [3.0, 9.0, 5.0]
    assert (translator.search.beam_size, translator.search.alpha) == (2, 0.5)
    assert translator.search.max_extra == run.settings().search.max_extra


def test_checksums_are_those_of_the_text(made, result):
    checksums = result["corpus"]["sha256"]
    sides = {
        f"{split}.{side}" for split in ("train", "valid", "test") for side in SIDES
    }
    assert checksums.keys() == {*sides, "tokenizer"}
    text = (made / SMALL.data / "valid.tgt.txt").read_bytes()
    assert checksums["valid.tgt"] == hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("multi30k --vocab-size 40", "text files, and .* gives multi30k"),
        ("files --vocab-size 40 --source ko", "languages en–de, and .* gives ko–de"),
        ("files --vocab-size 41", "vocabulary size 40, and .* gives 41"),
        ("files", "vocabulary size 40, and .* gives 8000"),
        ("craft --vocab-size 40", "text files, and .* gives craft"),
    ],
)
def test_a_folder_with_another_corpus_is_refused(made, monkeypatch, words, message):
    monkeypatch.chdir(made)
    make.prepare("words")
    monkeypatch.setitem(CORPORA, "words", words)
    whole = f"data/results/words: has the {message}; delete the folder"
    with pytest.raises(ValueError, match=whole):
        make.prepare("words")
    with pytest.raises(ValueError, match=whole):
        make.make(replace(SMALL, name="group/unprepared-1"))


def test_the_last_weights_can_be_asked_for(made, monkeypatch):
    monkeypatch.chdir(made)
    run = replace(SMALL, weights="last", splits=("valid",))
    translator = evidence.translator_of(run)
    last = load_file(RunFolder(run.folder).weights_after(3))
    held = translator.model.state_dict()
    assert all(torch.equal(held[name], value) for name, value in last.items())


def test_runs_of_one_corpus_have_one_text(made, monkeypatch):
    monkeypatch.chdir(made)
    monkeypatch.setattr(make, "RUNS", (SMALL,))
    make.prepare(SMALL.corpus)
    kept = SMALL.result.read_text(encoding="utf-8")
    checksum = json.loads(kept)["corpus"]["sha256"]["train.src"]
    SMALL.result.write_text(kept.replace(checksum, 64 * "0"), encoding="utf-8")
    try:
        with pytest.raises(ValueError, match="another text, or another vocabulary"):
            make.prepare(SMALL.corpus)
    finally:
        SMALL.result.write_text(kept, encoding="utf-8")


def test_a_made_run_is_not_made_again(made, monkeypatch, capsys):
    monkeypatch.chdir(made)
    monkeypatch.setattr(make, "RUNS", (SMALL,))
    monkeypatch.setattr(make, "make_all", lambda runs, jobs: runs)
    monkeypatch.setattr(conditions, "commit", lambda: "0123456789ab")
    assert make.main("group/*") == 0
    with monkeypatch.context() as patch:
        patch.setattr(make, "prepare", None)
        assert make.make(SMALL)
    kept = SMALL.result.read_text(encoding="utf-8")
    result = json.loads(kept)
    result["training"]["minutes"] = 90.0
    try:
        SMALL.result.write_text(json.dumps(result), encoding="utf-8")
        make.main(show=True)
        first, *_, last = capsys.readouterr().out.splitlines()
        assert first.split() == ["90", "min", "group/small-1", "a", "test"]
        assert last.startswith("1.5 hours of training steps")
        SMALL.result.write_text(kept[:100], encoding="utf-8")
        with pytest.raises(SystemExit, match=r"small-1\.json: damaged .*git checkout"):
            make.main(show=True)
    finally:
        SMALL.result.write_text(kept, encoding="utf-8")
    (made / SMALL.result).rename(made / "away")
    assert make.main("group/*") == 1  # what was to be made came back as failed
    (made / "away").rename(made / SMALL.result)


def test_nothing_is_made_from_changes_that_are_not_committed(monkeypatch):
    monkeypatch.setattr(make, "RUNS", (replace(SMALL, name="group/other-1"),))
    monkeypatch.setattr(conditions, "commit", lambda: "0123456789ab-dirty")
    with pytest.raises(SystemExit, match="commit your changes first"):
        make.main()


def test_a_pattern_without_runs_is_refused():
    with pytest.raises(SystemExit, match='no run is named "table_4/'):
        make.main(only="table_4/*")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"one": "table_3/base-9"}, 'no run is named "table_3/base-9"; --show prints'),
        ({"jobs": 0}, "--jobs 0 is impossible; give at least 1"),
        ({"jobs": -1, "one": RUNS[0].name}, "--jobs -1 is impossible; give at least 1"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(SystemExit, match=message):
        make.main(**arguments)


def test_a_run_that_fails_is_named_and_the_others_are_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\ncase "$4" in *bad*) exit 3;; esac\necho "$4"\n')
    program.chmod(0o755)
    monkeypatch.setattr(make.sys, "executable", str(program))
    monkeypatch.setattr(make, "prepare", lambda corpus: None)
    runs = [replace(SMALL, name=name) for name in ("good-1", "bad-1", "good-2")]
    assert [run.name for run in make.make_all(runs, jobs=2)] == ["bad-1"]
    assert (tmp_path / "runs/results/good-2.log").read_text() == "good-2\n"


def test_runs_whose_corpus_cannot_be_prepared_fail_and_the_others_are_made(
    made, monkeypatch, capsys
):
    monkeypatch.chdir(made)
    program = made / "python"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(make.sys, "executable", str(program))
    monkeypatch.setitem(CORPORA, "missing", "files --train x y --valid x y")
    monkeypatch.setitem(CORPORA, "damaged", "toy")
    Path("data/results/damaged").mkdir(parents=True)
    corpora = ("missing", "damaged", "words")
    runs = [replace(SMALL, name=f"of/{name}-1", corpus=name) for name in corpora]
    failed = [run.name for run in make.make_all(runs, jobs=2)]
    assert failed == ["of/missing-1", "of/damaged-1"]
    shown = capsys.readouterr().out
    assert "FAILED  missing: x: no such file; check the path\n" in shown
    assert "FAILED  damaged: data/results/damaged: not a prepared corpus; run" in shown
    assert "is made of/words-1" in shown


@pytest.mark.parametrize(
    ("number", "error"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)],
)
def test_a_signal_ends_all_runs_and_begins_no_other(
    tmp_path, monkeypatch, request, number, error
):
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho begun > "$4"\nexec sleep 600\n')
    program.chmod(0o755)
    monkeypatch.setattr(make.sys, "executable", str(program))
    monkeypatch.setattr(make, "prepare", lambda corpus: None)
    # A shell has what it starts in the background ignore Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def stop_when_both_run():
        while not all(Path(name).exists() for name in ("one-1", "two-1")):
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    threading.Thread(target=stop_when_both_run, daemon=True).start()
    runs = [replace(SMALL, name=name) for name in ("one-1", "two-1", "three-1")]
    began = time.monotonic()
    with pytest.raises(error):
        make.make_all(runs, jobs=2)
    assert time.monotonic() - began < 300  # the runs' processes are gone
    assert not Path("three-1").exists()


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_trained_and_its_result_is_whole(made, monkeypatch, name):
    monkeypatch.chdir(made)
    splits = () if name == "pre-norm" else ("valid",)  # it has no search
    run = replace(SMALL, name=f"models/{name}-1", model=name, splits=splits)
    monkeypatch.setattr(evidence, "scores_of", lambda *_: {**ANY_SCORES})
    assert make.make(run)
    result = json.loads(run.result.read_text(encoding="utf-8"))
    require_schema(result)
    assert result["model"] == name
    assert result["curve"][-1]["valid_loss"] < 5


@pytest.mark.parametrize("name", MODELS)
def test_a_run_of_other_settings_is_not_taken_for_this_one(made, monkeypatch, name):
    monkeypatch.chdir(made)
    run = replace(SMALL, name=f"other/{name}-1", model=name, splits=())
    assert make.make(run)
    run.result.unlink()
    changed = run.changes | {"train": {**run.changes["train"], "warmup_steps": 7}}
    with pytest.raises(ValueError, match=r"train\.warmup_steps = 150, now it is 7"):
        make.make(replace(run, changes=changed))


def test_pre_norm_normalizes_before_every_sub_layer_and_at_the_end():
    config = ModelConfig(vocab_size=11, num_layers=2, d_model=6, d_ff=7, num_heads=2)
    torch.manual_seed(1)
    ours = Transformer(config).eval()
    torch.manual_seed(1)
    model = PreNorm(config).eval()
    assert torch.equal(model.encoder.embedding.weight, ours.encoder.embedding.weight)
    layer = model.encoder.layers[0]
    weight = ours.encoder.layers[0].feed_forward.w_1.weight
    assert torch.equal(layer.feed_forward.w_1.weight, weight)
    x, mask = torch.randn(3, 5, 6), torch.ones(3, 1, 1, 5, dtype=torch.bool)
    y = F.layer_norm(x, (6,))
    between = x + layer.self_attention(y, y, mask)
    expected = between + layer.feed_forward(F.layer_norm(between, (6,)))
    torch.testing.assert_close(layer(x, mask), expected)
    ids = torch.tensor([[5, 7, 9]])
    hidden = model.hidden(ids, ids)
    torch.testing.assert_close(hidden.mean(-1), torch.zeros(1, 3), atol=1e-6, rtol=0)


@pytest.mark.parametrize("change", ["make.py", "new.py", "recipes/new.toml"])
def test_a_commit_is_named_by_its_number_and_marked_where_code_was_changed(
    tmp_path, monkeypatch, change
):
    def git(*words):
        own = ["-c", "user.name=a", "-c", "user.email=a@b.c", *words]
        subprocess.run(["git", *own], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setattr(conditions, "ROOT", tmp_path)
    made = ["results/base-1.json", "book/results.md"]
    made += ["transformer_lite/book/results.json"]  # by `make results`, at its end
    for name in ("results/make.py", *made):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("before")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    git("tag", "-a", "v1.0", "-m", "a tag, which is no commit's number")
    for name in made[1:]:
        (tmp_path / name).write_text("after")
    (tmp_path / made[0]).unlink()  # to have it made again
    assert re.fullmatch("[0-9a-f]{12}", conditions.commit())
    code = tmp_path / "results" / change
    code.parent.mkdir(exist_ok=True)
    code.write_text("after")
    assert re.fullmatch("[0-9a-f]{12}-dirty", conditions.commit())


def test_a_step_in_which_the_process_was_suspended_is_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Metrics(SMALL.folder) as metrics:
        for step, speed in ((1, 100), (2, 0)):
            metrics.add(step, train_loss=1.0, tokens=60, tokens_per_second=speed)
    assert evidence.training_of(SMALL)["target_tokens"] == 120


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"changes": {**SMALL.changes, "train": {"batch_tokens": 60}}},
            r"train.max_steps = 3, now it is \d{3}",
        ),
        (
            {"changes": {**SMALL.changes, "search": {"max_extra": 4}}},
            "search.beam_size = 2, now it is 4",
        ),
        ({"splits": ("valid",)}, r"splits = \('valid', 'test'\), now it is"),
        ({"searches": ((1, 0.0),)}, r"searches = \(\), now it is \(\(1, 0.0\),\)"),
        ({"weights": "last"}, "weights = 'average', now it is 'last'"),
        ({"corpus": "multi30k_en_de"}, "corpus = 'files .*', now it is 'multi30k"),
        ({"model": "recurrent"}, "model = 'Transformer', now it is 'recurrent'"),
    ],
)
def test_a_result_whose_recipe_has_changed_since_is_named(
    made, monkeypatch, changes, message
):
    monkeypatch.chdir(made)
    evidence.require_current(SMALL)
    with pytest.raises(ValueError, match=message) as caught:
        evidence.require_current(replace(SMALL, **changes))
    shown = str(caught.value)
    assert shown.startswith("results/group/small-1.json: was made with ")
    delete = "this file, results/group/small-1.*.txt.gz and runs/results/group/small-1"
    assert f"; delete {delete}, and " in shown
    assert shown.endswith("have it made again: make results ONLY='group/small-1'")


class Diverging(Transformer):
    """A model whose loss is a finite number for some steps, and then none."""

    steps = 0

    def hidden(self, *ids):
        self.steps -= self.training
        return super().hidden(*ids) * (1 if self.steps >= 0 else math.nan)


@pytest.mark.parametrize(("steps", "validated"), [(0, []), (2, [2])])
def test_a_run_that_diverges_leaves_a_result_that_says_so(
    made, monkeypatch, capsys, steps, validated
):
    monkeypatch.chdir(made)
    monkeypatch.setitem(MODELS, "diverging", Diverging)
    monkeypatch.setattr(Diverging, "steps", steps)
    run = replace(SMALL, name=f"group/diverging_{steps}-1", model="diverging")
    assert make.make(run)
    assert f"{run.name} diverged: step {steps + 1}: the loss" in capsys.readouterr().err
    result = json.loads(run.result.read_text(encoding="utf-8"))
    require_schema(result)
    assert result["diverged"] is True
    assert result["training"]["steps"] == steps
    assert [point["step"] for point in result["curve"]] == validated
    assert result["scores"] == {}
    evidence.require_current(run)


def test_only_a_run_that_diverged_may_have_no_scores(result):
    for wrong in ({"curve": []}, {"diverged": True}, {"diverged": False}):
        with pytest.raises(jsonschema.ValidationError):
            require_schema(result | wrong)


def test_every_process_that_trains_a_run_is_kept_on_record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = iter([{"python": "3.11"}, {"python": "3.12"}])
    monkeypatch.setattr(evidence, "conditions", lambda: next(places))
    with suppress(OSError), evidence.session(SMALL, "aaaaaaa"):
        time.sleep(0.2)
        raise OSError("a run that fails")
    with evidence.session(SMALL, "bbbbbbb"):
        assert evidence.sessions_of(SMALL)[1]["seconds"] is None  # it goes on
    first, second = evidence.sessions_of(SMALL)
    assert (first["commit"], first["python"]) == ("aaaaaaa", "3.11")
    assert (second["commit"], second["python"]) == ("bbbbbbb", "3.12")
    assert 0.2 <= first["seconds"] < 100


def test_a_process_that_trains_nothing_is_not_on_record(made, monkeypatch):
    monkeypatch.chdir(made)
    run = replace(SMALL, name="group/again-1", splits=())
    assert make.make(run)
    before = evidence.sessions_of(run)
    run.result.unlink()
    assert make.make(run)  # nothing was left to train
    run.result.unlink()
    train = {**run.changes["train"], "max_steps": 4, "warmup_steps": 7}
    with pytest.raises(ValueError, match=r"train\.warmup_steps = 150, now it is 7"):
        make.make(replace(run, changes={**run.changes, "train": train}))
    assert evidence.sessions_of(run) == before


def test_a_process_that_repeats_the_last_steps_is_on_record(made, monkeypatch):
    monkeypatch.chdir(made)
    run = replace(SMALL, name="group/killed-1", splits=())
    monkeypatch.setattr(make, "commit", lambda: "aaaaaaa")
    assert make.make(run)
    # Killed after its last metric and before its last checkpoint:
    folder = RunFolder(run.folder)
    for path in (*folder.step_checkpoints(), folder.average):
        path.unlink()
    run.result.unlink()
    monkeypatch.setattr(make, "commit", lambda: "bbbbbbb")
    assert make.make(run)
    result = json.loads(run.result.read_text(encoding="utf-8"))
    assert result["commits"] == ["aaaaaaa", "bbbbbbb"]
    assert result["scored_at"] == "bbbbbbb"


def test_a_run_that_is_being_scored_is_not_made_by_another(made, monkeypatch):
    monkeypatch.chdir(made)
    away, refused = SMALL.result.rename(made / "away"), []

    def record(*_):
        with pytest.raises(ValueError, match="another process makes this run"):
            make.make(SMALL)
        refused.append(True)

    with monkeypatch.context() as patch:
        patch.setattr(evidence, "record", record)
        assert make.make(SMALL)
    assert refused

    def prepare(corpus):  # meanwhile another process is done
        away.rename(SMALL.result)

    with monkeypatch.context() as patch:
        patch.setattr(make, "prepare", prepare)
        patch.setattr(evidence, "record", None)
        assert make.make(SMALL)
    before = SMALL.result.stat()
    monkeypatch.setattr(make, "RUNS", (SMALL,))
    assert make.main(one=SMALL.name) == 0  # made since, so left alone
    assert SMALL.result.stat() == before


def test_two_processes_do_not_make_the_same_run(made, monkeypatch):
    monkeypatch.chdir(made)
    run = replace(SMALL, name="group/two-1")
    with (
        only_process(run.folder / "make.lock", ""),
        pytest.raises(ValueError, match="group/two-1: another process makes this run"),
    ):
        make.make(run)


def test_a_killed_process_counts_until_its_last_metric(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with evidence.session(SMALL, "aaaaaaa"):
        as_it_began = evidence.sessions_of(SMALL)
    (SMALL.folder / "sessions.json").write_text(json.dumps(as_it_began))
    with Metrics(SMALL.folder) as metrics:
        metrics.add(1, train_loss=1.0, tokens=60, tokens_per_second=10)
    last = datetime.fromisoformat(as_it_began[0]["began"]).timestamp() + 3600
    os.utime(metrics.path, (last, last))
    with evidence.session(SMALL, "bbbbbbb"):
        pass
    assert evidence.sessions_of(SMALL)[0]["seconds"] == 3600
    assert evidence.training_of(SMALL)["wall_minutes"] == 60
    assert evidence.training_of(SMALL)["minutes"] == 0.1


def test_a_run_whose_commits_alone_are_on_record_is_taken_up(made, monkeypatch):
    monkeypatch.chdir(made)
    run = replace(SMALL, name="group/older-1", splits=())
    assert make.make(run)
    (run.folder / "sessions.json").unlink()
    (run.folder / "commits.txt").write_text("aaaaaaa\nbbbbbbb\n")
    run.result.unlink()
    assert make.make(run)
    result = json.loads(run.result.read_text(encoding="utf-8"))
    require_schema(result)
    assert result["sessions"] == [{"commit": "aaaaaaa"}, {"commit": "bbbbbbb"}]
    assert result["commits"] == ["aaaaaaa", "bbbbbbb"]
    assert result["training"]["wall_minutes"] is None


def test_lines_come_back_and_equal_lines_are_equal_bytes(tmp_path):
    lines = ["Ein Hund.", "", "käse\u2028 \r", "它"]
    first, second = tmp_path / "first.gz", tmp_path / "second.gz"
    write_lines(first, lines)
    write_lines(second, iter(lines))
    assert read_lines(first) == lines
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("run", ALL, ids=lambda run: run.name)
def test_every_run_of_the_table_can_be_made(run):
    assert run.corpus in CORPORA
    assert run.settings().train.seed == run.seed
    own = {path.stem for path in RECIPES.glob("*.toml")}
    assert own.isdisjoint(path.stem for path in RECIPES_OF_THE_PACKAGE.iterdir())


def test_table_3_keeps_the_papers_ratios():
    runs = {run.name: run.settings().model for run in ALL}
    for folder, layers, widths in (("table_3", 2, 4), ("table_3_gpu", 1, 2)):
        for row, printed in TABLE_3.items():
            ours = runs[f"{folder}/{row}-1"]
            assert ours.num_layers * layers == printed.num_layers
            assert (ours.d_model * widths, ours.d_ff * widths) == (
                printed.d_model,
                printed.d_ff,
            )
            for name in ("num_heads", "dropout", "positions"):
                assert getattr(ours, name) == getattr(printed, name)
            head = printed.d_k or printed.d_model // printed.num_heads
            assert (ours.d_k or ours.d_model // ours.num_heads) * widths == head


def test_no_two_runs_have_one_name():
    assert len({run.name for run in ALL}) == len(ALL)


def test_every_stored_result_is_of_a_run_of_the_table():
    stored = {
        path.relative_to(ROOT / "results")
        for path in (ROOT / "results").rglob("*-?.json")
    }
    assert stored == {run.result.relative_to("results") for run in MADE}


@pytest.mark.parametrize("run", MADE, ids=lambda run: run.name)
def test_a_stored_result_is_whole_and_of_this_table(run, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = json.loads(run.result.read_text(encoding="utf-8"))
    jsonschema.validate(result, SCHEMA)
    assert "NaN" not in run.result.read_text(encoding="utf-8")
    assert (result["name"], result["seed"]) == (run.name, run.seed)
    evidence.require_current(run)
    recipe, training = recipe_from_dict(result["configuration"]), result["training"]
    with torch.device("meta"):
        model = MODELS[result["model"]](recipe.model)
    assert result["parameters"] == sum(p.numel() for p in model.parameters())
    if not result.get("diverged"):
        last = result["curve"][-1]
        assert recipe.train.max_steps == training["steps"] == last["step"]
        assert training["target_tokens"] == last["target_tokens"] > 0
    if "searches" in result:
        best = max(result["searches"], key=lambda one: one["score"])
        search = recipe_from_dict(result["configuration"]).search
        assert (search.beam_size, search.alpha) == (best["beam_size"], best["alpha"])
    for split, scores in result["scores"].items():
        outputs = read_lines(run.outputs(split))
        assert len(outputs) == scores["sentences"]


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)


def test_every_commit_that_a_recording_names_is_in_the_history():
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs the whole history")
    named = defaultdict(set)
    field = re.compile(r'"(?:commits?|scored_at)":\s*(\[[^]]*\]|"[^"]*")')
    for folder in ("results", "transformer_lite/book"):
        for path in (ROOT / folder).rglob("*.json"):
            for found in field.findall(path.read_text(encoding="utf-8")):
                for commit in re.findall(r'"([^"]+)"', found):
                    named[commit].add(path.name)
    heads = ROOT / "transformer_lite" / "book" / "heads.safetensors"
    with safe_open(heads, "pt") as file:
        named[json.loads(file.metadata()["commit"])].add(heads.name)
    assert len(named) > 20
    lost = {
        commit: files
        for commit, files in named.items()
        if git("merge-base", "--is-ancestor", commit, "HEAD").returncode
    }
    assert lost == {}


@with_data
@pytest.mark.parametrize("corpus", sorted({run.corpus for run in MADE}))
def test_stored_scores_can_be_recomputed_without_training(
    corpus, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    make.prepare(corpus)
    make.prepare(corpus)  # takes what is there
    prepared = PreparedCorpus(Path("data/results", corpus))
    for run in (run for run in MADE if run.corpus == corpus):
        result = json.loads((ROOT / run.result).read_text(encoding="utf-8"))
        found, stored = evidence.corpus_of(run), result["corpus"]
        for of_corpus in (found, stored):
            # No score depends on it, and the first results lack it.
            of_corpus["sha256"].pop("tokenizer", None)
        assert found == stored
        for split, scores in result["scores"].items():
            outputs = read_lines(ROOT / run.outputs(split))
            found = evidence.scores_of_outputs(prepared, split, outputs)
            for name, value in found.items():
                if isinstance(value, float):
                    assert scores[name] == pytest.approx(value, abs=1e-4)
                else:
                    assert scores[name] == value


def test_the_recurrent_models_are_trained_and_recorded_as_the_chapters_read_them(
    tmp_path, monkeypatch
):
    small = {"train_pairs": 1300, "test_pairs": 17, "warmup_steps": 2}
    small["steps"] = dict.fromkeys(recurrent.CONFIGURATION["steps"], 3)
    small |= {"d_model": 8, "transformer_d_ff": 11, "batch_pairs": 5}
    monkeypatch.setattr(recurrent, "CONFIGURATION", recurrent.CONFIGURATION | small)
    monkeypatch.setattr(recurrent, "require_clean", lambda: None)
    stored = recorded_runs()
    recurrent.main(tmp_path / "out.json", [(name, 7) for name in small["steps"]])
    runs = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["runs"]
    assert runs.keys() == small["steps"].keys() >= stored.keys()
    for seeds in runs.values():
        assert seeds["7"].keys() == stored["one vector"]["1"].keys()
        assert len(seeds["7"]["exact"]) == len(seeds["7"]["wrong_tokens"]) == 17


def test_recurrent_models_trained_side_by_side_are_all_kept(tmp_path, monkeypatch):
    out = tmp_path / "out.json"

    def run(name, seed):
        commits[0] = "committed meanwhile"
        if seed == 1:  # meanwhile another process is done
            recurrent.main(out, [("attention", 2)])
        return {"exact_match": seed}

    commits = ["aaaaaaa"]
    monkeypatch.setattr(recurrent, "run", run)
    monkeypatch.setattr(recurrent, "require_clean", lambda: commits[0])
    recurrent.main(out, [("attention", 1)])
    of_seeds = json.loads(out.read_text(encoding="utf-8"))["runs"]["attention"]
    assert {s: found["exact_match"] for s, found in of_seeds.items()} == {
        "1": 1,
        "2": 2,
    }
    # The commit at which a process began, whatever came to the repository since.
    assert of_seeds["1"]["conditions"]["commit"] == "aaaaaaa"


def test_recurrent_models_of_another_configuration_are_not_mixed_in(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(recurrent, "require_clean", lambda: None)
    out = tmp_path / "out.json"
    out.write_text('{"configuration": {"d_model": 7}, "runs": {}}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"out\.json: was made with another config"):
        recurrent.main(out, [("attention", 1)])


def test_a_checkpoint_for_readers_translates_and_its_card_gives_its_scores(
    made, tmp_path, monkeypatch
):
    monkeypatch.chdir(made)
    for texts in (release.LICENCES, release.LIMITS, release.SCORING):
        monkeypatch.setitem(texts, "words", "It knows numbers.")
    release.release(SMALL, tmp_path / "small")
    model = Translator.load(tmp_path / "small")
    sources, references = PreparedCorpus(SMALL.data).text("test")
    bleu = sacrebleu.corpus_bleu(model.translate(sources), [references])
    card = (tmp_path / "small" / "README.md").read_text(encoding="utf-8")
    assert f"| test | {bleu.score:.1f} |" in card
    assert "beam\n2 and α = 0.6" in card
    assert "{" not in card
    weights = load_file(RunFolder(tmp_path / "small").average)
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}


def test_a_checkpoint_that_is_not_for_readers_is_refused():
    with pytest.raises(SystemExit, match='readers is named "table_4"; there are multi'):
        release.main("table_4")
    with pytest.raises(SystemExit, match="multi30k_en_de: already there; delete it"):
        release.main("multi30k_en_de-1")
