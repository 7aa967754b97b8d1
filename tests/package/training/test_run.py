"""A run is put together from a recipe, and resumes only if it is the same."""

import json
import re
import shutil
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
import torch
from filelock import FileLock
from small_runs import (
    TEXT,
    Crash,
    before_step,
    crash,
    prepare_words,
    records,
    same_weights,
)

from transformer_lite.batching import BatchStream
from transformer_lite.config import ModelConfig, Recipe, SearchConfig, TrainConfig
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference import scores
from transformer_lite.inference.scores import ValidationSamples
from transformer_lite.model import Transformer
from transformer_lite.runs.files import sha256_of
from transformer_lite.runs.folder import RunFolder
from transformer_lite.runs.weights import read_weights, weights_of
from transformer_lite.training import trainer
from transformer_lite.training.distributed import Processes
from transformer_lite.training.run import _announcement, train_recipe
from transformer_lite.training.trainer import Trainer


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, text in (("one", TEXT), ("other", [line[::-1] for line in TEXT])):
        prepare_words(folder / name, name, text, ("en", "ko"))
    return folder


FOUR_STEPS = {"batch_tokens": 60, "max_steps": 4, "warmup_steps": 3}
FOUR_STEPS |= {"precision": "fp32"}


@pytest.fixture
def recipe(data):
    return Recipe(
        data=data / "one",
        model=ModelConfig(num_layers=1, d_model=6, d_ff=7, num_heads=2, max_len=64),
        train=TrainConfig(**FOUR_STEPS, checkpoint_every=2, validate_every=2),
        search=SearchConfig(max_extra=3),
    )


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"


def changed(recipe, part, **values):
    return replace(recipe, **{part: replace(getattr(recipe, part), **values)})


def recorded(out, name):
    return [record[name] for record in records(out, name)]


def contents(folder):
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_run_knows_its_recipe_its_languages_and_the_vocabularys_size(recipe, out):
    train_recipe(recipe, out)
    assert RunFolder(out).recipe() == changed(recipe, "model", vocab_size=40)
    data = RunFolder(out).training_data()
    assert data["languages"] == ("en", "ko")
    assert data["example"] in PreparedCorpus(recipe.data).text("valid")[0]
    assert data["tokenizer_sha256"] == sha256_of(RunFolder(out).tokenizer)


def test_samples_are_scored_at_each_validation(recipe, out, capsys, monkeypatch):
    found = scores.score(["a b c d"], ["a b c d"])
    monkeypatch.setattr(scores, "score", lambda *_: found)
    train_recipe(recipe, out, ValidationSamples)
    assert [len(shown) for shown in recorded(out, "translations")] == [3, 3]
    assert capsys.readouterr().err.count("  translation  ") == 6
    assert recorded(out, "valid_bleu") == pytest.approx([100, 100])


def test_the_seed_decides_where_a_run_begins(recipe, tmp_path):
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train_recipe(changed(recipe, "train", seed=seed, max_steps=1), tmp_path / name)
        found += recorded(tmp_path / name, "train_loss")
    assert found[0] == found[1] != found[2]


def test_a_run_announces_what_it_trains_on_what_and_how(recipe, out, capsys):
    train = {"global_batch_tokens": 120, "max_steps": 6, "cooldown_steps": 6}
    train_recipe(changed(recipe, "train", **train), out)
    shown = capsys.readouterr().err
    assert re.search(r"^[\d,]+ parameters, 40 pairs, 6 steps$", shown, re.M)
    assert "1 × cpu, fp32; on each a step has 2 × 60 tokens at most\n" in shown
    memory = r"^memory of a step, in MB on each: weights 0\.\d, .*, together 0\.\d$"
    assert re.search(memory, shown, re.M)
    # 6^-0.5 · 3^-0.5 · 4/6: the rate falls from the first step on.
    assert "rate 1.6e-01 at its highest, in step 3; falls to 0 over the last" in shown


@pytest.mark.parametrize(
    ("world_size", "said", "warned"),
    [
        (2, "2 × cpu, fp32; on each a step has 3 × 60 tokens at most\n", False),
        (4, "3 × 60 / 2 tokens at most\neach batch is cut in 2; the steps", False),
        (297, "2 × 60 / 99 tokens at most\neach batch is cut in 99", True),
    ],
)
def test_a_run_says_how_the_processes_share_a_step(recipe, world_size, said, warned):
    corpus = PreparedCorpus(recipe.data)
    recipe = changed(recipe, "train", global_batch_tokens=360)
    stream = BatchStream(*corpus.ids("train"), 60, 1, 6, 0, world_size)
    processes = Processes(rank=0, world_size=world_size, device=torch.device("cpu"))
    model = Transformer(changed(recipe, "model", vocab_size=40).model)
    made = Trainer(model, stream, [], recipe.train, recipe.data, processes)
    shown = _announcement(recipe, corpus, made)
    assert said in shown
    message = (
        r"warning: a step has about \d+ sentences, so some of 297 .*; start at most"
    )
    assert bool(re.search(message, shown)) == warned


@pytest.mark.parametrize("free", [10**5, 10**12])
def test_a_batch_is_no_larger_than_the_text_and_warned_of_without_memory(
    recipe, out, capsys, monkeypatch, free
):
    monkeypatch.setattr("transformer_lite.training.run.memory_of", lambda _: (free, 0))
    longest = 1 + max(
        int(s.lengths.max()) for s in PreparedCorpus(recipe.data).ids("train")
    )
    train_recipe(changed(recipe, "train", batch_tokens=10**10, max_steps=1), out)
    shown = capsys.readouterr().err
    assert f"a step has 1 × {40 * longest:,} tokens at most\n" in shown
    message = (
        "warning: 0.1 MB are free; give less than train.batch_tokens = 10,000,000,000, "
        "and train.global_batch_tokens to keep the step\n"
    )
    assert (message in shown) == (free == 10**5)


@pytest.mark.parametrize(("scale", "warned"), [(1.0, True), (0.7, False)])
def test_a_rate_that_is_too_high_is_warned_of(recipe, out, capsys, scale, warned):
    train_recipe(changed(recipe, "train", rate_scale=scale), out)
    message = r"warning: this rate times d_model is 1\.4, .*warmup_steps"
    assert bool(re.search(message, capsys.readouterr().err)) == warned


def out_of_memory(*_):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried 7 GiB.\nmore")


def test_a_gpu_without_room_is_told_smaller_batches(recipe, out, monkeypatch):
    message = r"no room for train.batch_tokens = 60; .* --train.batch-tokens 30 "
    message += r"--train.global-batch-tokens 60.*\(CUDA out .* 7 GiB\.\)"
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "train_step", out_of_memory)
        with pytest.raises(MemoryError, match=message):
            train_recipe(recipe, out)
    remedy = changed(recipe, "train", batch_tokens=30, global_batch_tokens=60)
    assert train_recipe(remedy, out)


def test_a_second_run_in_the_same_folder_is_refused(recipe, out):
    out.mkdir()
    message = r"run: another process .*--out"
    with FileLock(out / ".lock"), pytest.raises(ValueError, match=message):
        train_recipe(recipe, out)
    assert not (out / "config.json").exists()
    assert train_recipe(recipe, out)


def test_a_file_in_the_place_of_the_run_is_named(recipe, out):
    out.write_text("mine")
    with pytest.raises(OSError, match=r"run: cannot be written to .*another --out"):
        train_recipe(recipe, out)
    assert out.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", "run.config.json: .*model_type"),
        ("tokenizer.model", "run: is neither empty nor the folder of a run"),
        ("thesis.tex", "run: is neither empty nor the folder of a run"),
    ],
)
def test_a_folder_of_something_else_is_refused_and_left_untouched(
    recipe, out, name, message
):
    out.mkdir()
    (out / name).write_text('{"model_type": "bert"}')
    before = contents(out)
    with pytest.raises(ValueError, match=message):
        train_recipe(recipe, out)
    assert contents(out) == before


def test_a_run_killed_before_its_first_file_was_whole_can_begin_again(recipe, out):
    out.mkdir()
    (out / "config.json.0123abcd.partial").write_text('{"mod')
    assert train_recipe(recipe, out)


def test_half_a_checkpoint_of_a_killed_run_is_deleted(recipe, out):
    train_recipe(recipe, out)
    half = RunFolder(out).checkpoints / "step-00000001.safetensors.0123abcd.partial"
    half.write_text("many gigabytes")
    assert train_recipe(recipe, out)
    assert not half.exists()


@pytest.mark.parametrize("kept", ["average.safetensors", "best.safetensors"])
def test_weights_without_a_step_to_resume_from_are_not_destroyed(recipe, out, kept):
    train_recipe(recipe, out)
    for path in RunFolder(out).checkpoints.iterdir():
        if path.name != kept:
            path.unlink()
    before = contents(out)
    message = r"checkpoints: has weights, but no step.*another --out, with --begin-with"
    with pytest.raises(ValueError, match=message):
        train_recipe(recipe, out)
    assert contents(out) == before


def test_a_run_killed_before_its_first_regular_checkpoint_goes_on(
    recipe, out, monkeypatch
):
    late = changed(recipe, "train", checkpoint_every=4)
    with monkeypatch.context() as patch:
        before_step(patch, 3, crash)
        with pytest.raises(Crash):
            train_recipe(late, out)
    assert RunFolder(out).best.exists()
    assert train_recipe(late, out)
    assert [record for record in recorded(out, "step") if record == 1] == [1]


@pytest.mark.parametrize("how", ["folder", "files"])
def test_a_run_whose_checkpoints_are_gone_is_not_overwritten(
    recipe, out, how, monkeypatch
):
    with monkeypatch.context() as patch:  # before its first validation
        before_step(patch, 4, crash)
        with pytest.raises(Crash):
            train_recipe(changed(recipe, "train", checkpoint_every=1), out)
    for path in RunFolder(out).checkpoints.iterdir():
        path.unlink()
    if how == "folder":
        RunFolder(out).checkpoints.rmdir()
    before = contents(out)
    message = r"none of the checkpoints is left that checkpoints\.json names; bring"
    with pytest.raises(ValueError, match=message):
        train_recipe(recipe, out)
    assert contents(out) == before


def test_a_run_killed_before_any_checkpoint_begins_again_if_it_is_the_same(
    recipe, out, monkeypatch
):
    with monkeypatch.context() as patch:
        before_step(patch, 2, crash)
        with pytest.raises(Crash):
            train_recipe(recipe, out)
    before = contents(out)
    with pytest.raises(ValueError, match=r"run with train.seed = 1, now it is 7"):
        train_recipe(changed(recipe, "train", seed=7), out)
    assert contents(out) == before
    assert train_recipe(recipe, out)
    assert len(recorded(out, "train_loss")) == 4


@pytest.fixture
def trained(recipe, tmp_path):
    train_recipe(recipe, tmp_path / "first")
    return tmp_path / "first"


def first_weights(recipe, out, monkeypatch):
    """The weights that a run gives its first step."""
    seen = {}

    def note(model):
        seen.update({name: p.clone() for name, p in weights_of(model).items()})

    with monkeypatch.context() as patch:
        before_step(patch, 1, note)
        assert train_recipe(recipe, out)
    return seen


def test_a_run_begins_with_the_weights_of_another_and_records_which(
    recipe, trained, out, monkeypatch
):
    tuned = replace(changed(recipe, "model", dropout=0.3), begin_with=str(trained))
    average = RunFolder(trained).average
    assert same_weights(first_weights(tuned, out, monkeypatch), read_weights(average))
    assert RunFolder(out).recipe().begin_with == str(trained)
    checksum = sha256(average.read_bytes()).hexdigest()
    record = {"run": str(trained), "sha256": checksum}
    assert RunFolder(out).training_data()["begin_with"] == record
    # It is the same run, whether these weights are there or not.
    more = changed(tuned, "train", max_steps=5)
    again = replace(more, begin_with=f"{trained}/../{trained.name}/")
    assert train_recipe(again, out)
    shutil.rmtree(trained)
    assert train_recipe(changed(more, "train", max_steps=6), out)
    assert RunFolder(out).training_data()["begin_with"] == record


def test_a_run_does_not_resume_with_other_validation_data(recipe, out, tmp_path):
    train_recipe(recipe, out)
    data = shutil.copytree(recipe.data, tmp_path / "other")
    summary = json.loads((data / "corpus.json").read_text())
    text = data / "valid.src.txt"
    text.write_bytes(text.read_bytes()[::-1])
    summary["sha256"][text.name] = sha256_of(text)
    (data / "corpus.json").write_text(json.dumps(summary))
    with pytest.raises(ValueError, match="run: holds a run on other data"):
        train_recipe(replace(recipe, data=data), out)


def test_a_run_does_not_resume_with_other_initial_weights(recipe, trained, out):
    train_recipe(recipe, out)
    before = contents(out)
    message = r"run: began with weights of its own; give no --begin-with, or another"
    with pytest.raises(ValueError, match=message):
        train_recipe(replace(recipe, begin_with=str(trained)), out)
    assert contents(out) == before


def test_the_shape_alone_decides_whether_weights_fit(recipe, trained, out):
    begin = replace(recipe, begin_with=str(trained))
    same = changed(begin, "model", d_k=3, d_v=3, max_len=70)
    assert train_recipe(same, out)
    learned = changed(recipe, "model", positions="learned")
    train_recipe(learned, out.with_name("learned"))
    other = changed(learned, "model", max_len=70)
    with pytest.raises(ValueError, match=r"another model .*; give --model.max-len 64$"):
        train_recipe(
            replace(other, begin_with=str(out.with_name("learned"))), out.with_name("x")
        )


def test_what_is_no_whole_run_is_nothing_to_begin_with(recipe, trained, out):
    checkpoint = RunFolder(trained).average
    with pytest.raises(ValueError, match=r"average\.safetensors: a file; give the fol"):
        train_recipe(replace(recipe, begin_with=str(checkpoint)), out)
    RunFolder(trained).tokenizer.unlink()
    with pytest.raises(ValueError, match=r"first/tokenizer\.model: missing; copy it"):
        train_recipe(replace(recipe, begin_with=str(trained)), out)
    assert not out.exists()


def test_weights_of_another_model_or_vocabulary_are_refused(recipe, trained, data, out):
    begin = replace(recipe, begin_with=str(trained))
    message = r"first: has weights of another model.*give --model.d-ff 7 --model.d-k 3"
    with pytest.raises(ValueError, match=message):
        train_recipe(changed(begin, "model", d_ff=8, num_heads=3), out)
    message = r"has another vocabulary than .*first; prepare .*--vocabulary .*first"
    with pytest.raises(ValueError, match=message):
        train_recipe(replace(begin, data=data / "other"), out)
    with pytest.raises(ValueError, match="nothing: holds no run"):
        train_recipe(replace(begin, begin_with=str(out / "nothing")), out)
    assert not out.exists()


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("model", {"d_ff": 11}),
        ("train", {"seed": 7}),
        ("train", {"batch_tokens": 50}),
        ("train", {"label_smoothing": 0.0}),
    ],
)
def test_a_run_does_not_resume_with_other_settings(recipe, out, part, values):
    train_recipe(recipe, out)
    before = contents(out)
    ((name, value),) = values.items()
    old = getattr(getattr(recipe, part), name)
    message = rf"run: holds a run with {part}\.{name} = {old}, now it is {value}; give"
    with pytest.raises(ValueError, match=message):
        train_recipe(changed(recipe, part, **values), out)
    assert contents(out) == before


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("model", {"attention": "explicit"}),
        ("train", {"checkpoint_every": 1}),
        ("train", {"compile": True}),
        ("train", {"cooldown_steps": 2}),
        ("train", {"precision": "bf16"}),
        ("train", {"validate_every": 4}),
        ("search", {"alpha": 0.5}),
    ],
)
def test_a_run_resumes_with_what_costs_nothing(
    recipe, out, monkeypatch, capsys, part, values
):
    # Layers whose types are checked, as in all tests, cannot be compiled.
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    train_recipe(recipe, out)
    more = changed(recipe, "train", max_steps=6)
    capsys.readouterr()
    assert train_recipe(changed(more, part, **values), out)
    told = capsys.readouterr().err
    assert "train.max_steps is now 6, before 4\n" in told
    assert all(
        f"{part}.{name} is now {value!r}" in told for name, value in values.items()
    )
    assert RunFolder(out).step_checkpoints()[-1].stem == "step-00000006"


def test_a_run_does_not_resume_on_other_data(recipe, data, out):
    train_recipe(recipe, out)
    before = contents(out)
    message = r"run: .*other data than .*other has now"
    with pytest.raises(ValueError, match=message):
        train_recipe(replace(recipe, data=data / "other"), out)
    assert contents(out) == before


@pytest.mark.parametrize("number", [4, 1000])
def test_ids_that_were_changed_are_refused_before_a_step(recipe, out, tmp_path, number):
    train_recipe(recipe, out)
    before = contents(out)
    damaged = shutil.copytree(recipe.data, tmp_path / "damaged")
    ids = np.fromfile(damaged / "train.src.ids", "<i4")
    np.full_like(ids, number).tofile(damaged / "train.src.ids")
    with pytest.raises(ValueError, match=r"src\.ids: .*changed since `prepare`"):
        train_recipe(changed(replace(recipe, data=damaged), "train", max_steps=6), out)
    assert contents(out) == before


def test_a_run_resumes_when_its_data_has_been_moved(recipe, out, tmp_path):
    train_recipe(recipe, out)
    moved = shutil.copytree(recipe.data, tmp_path / "moved")
    assert train_recipe(replace(recipe, data=moved), out)


def test_fewer_steps_than_a_run_has_are_refused_and_change_nothing(recipe, out):
    train_recipe(recipe, out)
    before = contents(out)
    with pytest.raises(ValueError, match="max_steps = 2 is less than the 4 steps"):
        train_recipe(changed(recipe, "train", max_steps=2), out)
    assert contents(out) == before


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("model", {"vocab_size": 50}, r"vocab_size = 50 is not the 40 of .*one; "),
        ("model", {"max_len": 3}, r"longer than model.max_len = 3; give a larger"),
        ("train", {"batch_tokens": 3}, r"longer than train.batch_tokens = 3; give"),
        (
            "train",
            {"global_batch_tokens": 10**12},
            r"than all the text of .*one; give",
        ),
        # Without room for max_extra tokens no sample could be translated.
        ("search", {"max_extra": 63}, r"no room to translate valid's \d+ tokens"),
    ],
)
def test_what_the_data_does_not_fit_is_named(recipe, out, part, values, message):
    with pytest.raises(ValueError, match=message):
        train_recipe(changed(recipe, part, **values), out)
    assert not out.exists()


def test_a_model_larger_than_the_memory_is_refused(recipe, out):
    huge = changed(recipe, "model", d_model=10**6)
    with pytest.raises(MemoryError, match=r"parameters needs .* GiB in training, and"):
        train_recipe(huge, out)
    assert not out.exists()
