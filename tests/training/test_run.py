"""A run is put together from a recipe, and resumes only if it is the same."""

import json
import os
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from filelock import FileLock

from transformer_lite.config import ModelConfig, Recipe, SearchConfig, TrainConfig
from transformer_lite.data.corpora import Corpus
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import IDS, SIDES, PreparedCorpus
from transformer_lite.inference import scores
from transformer_lite.inference.scores import ValidationSamples
from transformer_lite.inference.translator import Translator
from transformer_lite.training import trainer
from transformer_lite.training.folder import RunFolder
from transformer_lite.training.run import train_recipe
from transformer_lite.training.step import train_step

WORDS = "one two three four five six seven".split()
PAIRS = [(" ".join(WORDS[i % 7 : i % 7 + 1 + i % 3]),) * 2 for i in range(40)]
OTHER = [tuple(text.translate(str.maketrans("ot", "to")) for text in p) for p in PAIRS]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for name, pairs in (("one", PAIRS), ("other", OTHER)):
        corpus = Corpus(name, {"train": pairs, "valid": pairs[:5]})
        prepare(corpus, folder / name, 40, 64, skip_unusable=False)
    return folder


@pytest.fixture
def recipe(data):
    return Recipe(
        data=data / "one",
        model=ModelConfig(num_layers=1, d_model=6, d_ff=7, num_heads=2, max_len=64),
        train=TrainConfig(
            batch_tokens=60,
            max_steps=4,
            warmup_steps=3,
            checkpoint_every=2,
            validate_every=2,
            precision="fp32",
        ),
        search=SearchConfig(max_extra=3),
    )


def changed(recipe, part, **values):
    return replace(recipe, **{part: replace(getattr(recipe, part), **values)})


def test_a_run_has_all_that_translating_needs(recipe, tmp_path):
    assert train_recipe(recipe, tmp_path / "run")
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    assert len(Translator.load(moved).translate(["one two"])) == 1


def test_the_vocabulary_size_comes_from_the_data(recipe, tmp_path):
    train_recipe(recipe, tmp_path / "run")
    assert RunFolder(tmp_path / "run").recipe().model.vocab_size == 40


def test_another_vocabulary_size_than_the_datas_is_refused(recipe, tmp_path):
    other = changed(recipe, "model", vocab_size=50)
    with pytest.raises(ValueError, match=r"vocab_size = 50 is not the 40 of .*one; "):
        train_recipe(other, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_configuration_of_a_run_comes_back(recipe, tmp_path):
    train_recipe(recipe, tmp_path / "run")
    expected = changed(recipe, "model", vocab_size=40)
    assert RunFolder(tmp_path / "run").recipe() == expected


def test_samples_are_shown_and_recorded_at_each_validation(recipe, tmp_path, capsys):
    train_recipe(recipe, tmp_path / "run", ValidationSamples)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    samples = [json.loads(line).get("translations") for line in lines]
    assert [len(translations) for translations in samples if translations] == [3, 3]
    assert capsys.readouterr().err.count("  translation  ") == 6


@pytest.mark.parametrize(
    ("precision", "how"), [("fp32", "as asked"), ("auto", "chosen")]
)
def test_parameters_pairs_and_precision_are_announced(
    recipe, tmp_path, capsys, precision, how
):
    train_recipe(changed(recipe, "train", precision=precision), tmp_path / "run")
    shown = capsys.readouterr().err
    assert re.search(r"^model +[\d,]+ parameters$", shown, re.M)
    assert re.search(r"^data +40 pairs", shown, re.M)
    assert re.search(rf"^precision +(fp32|bf16) \({how}", shown, re.M)


def test_the_expected_time_is_told(recipe, tmp_path, capsys):
    train_recipe(changed(recipe, "train", max_steps=23), tmp_path / "run")
    assert re.search(r"expected +0:00:\d\d for 3 steps", capsys.readouterr().err)


def test_the_seed_decides_where_a_run_begins(recipe, tmp_path):
    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train_recipe(changed(recipe, "train", seed=seed, max_steps=1), tmp_path / name)
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        found.append(json.loads(lines[0])["train_loss"])
    assert found[0] == found[1] != found[2]


def test_a_finished_run_ends_with_a_summary(recipe, tmp_path, capsys):
    train_recipe(recipe, tmp_path / "run")
    shown = capsys.readouterr().err
    assert re.search(r"^steps +4, [\d,]+ target tokens$", shown, re.M)
    assert re.search(r"^validation perplexity [\d.]+ at step \d", shown, re.M)


def test_validation_bleu_is_recorded(recipe, tmp_path, monkeypatch):
    found = SimpleNamespace(watched=lambda: {"bleu": 31.25})
    monkeypatch.setattr(scores, "score_outputs", lambda *_: found)
    train_recipe(recipe, tmp_path / "run", ValidationSamples)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    found = [json.loads(line)["valid_bleu"] for line in lines if "valid_bleu" in line]
    assert found == [31.25, 31.25]


def out_of_memory(*_):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 GiB.\nmore")


def test_a_gpu_without_room_is_told_smaller_batches_of_the_same_step(
    recipe, tmp_path, monkeypatch
):
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "train_step", out_of_memory)
        with pytest.raises(MemoryError, match="no room for") as caught:
            train_recipe(recipe, out)
    said = str(caught.value)
    assert "train.batch_tokens = 60; " in said
    assert "--train.batch-tokens 30 --train.global-batch-tokens 60" in said
    assert "(CUDA out of memory. Tried to allocate 7 GiB.)" in said
    remedy = changed(recipe, "train", batch_tokens=30, global_batch_tokens=60)
    assert train_recipe(remedy, out)
    assert RunFolder(out).recipe().train == remedy.train


def test_the_ids_of_each_split_are_checked_once(recipe, tmp_path, monkeypatch):
    original, read = PreparedCorpus._sequences, []

    def count(corpus, split, side):
        read.append((split, side))
        return original(corpus, split, side)

    monkeypatch.setattr(PreparedCorpus, "_sequences", count)
    train_recipe(recipe, tmp_path / "run")
    assert sorted(read) == [(s, side) for s in ("train", "valid") for side in SIDES]


def test_a_run_can_be_translated_with_while_it_trains(recipe, tmp_path):
    out, found = tmp_path / "run", []

    def samples(*_):
        def evaluate():
            weights = RunFolder(out).default_weights().stem
            found.append((weights, len(Translator.load(out).translate(["one two"]))))
            return {}

        return evaluate

    train_recipe(recipe, out)
    eager = changed(recipe, "train", max_steps=8, checkpoint_every=1)
    train_recipe(eager, out, samples)
    # The average of the first end is gone, for it is not that of this training.
    assert found == [("best", 1)] * 2


def test_weights_that_training_has_deleted_meanwhile_are_named(recipe, tmp_path):
    out = tmp_path / "run"
    train_recipe(recipe, out)
    resolved = RunFolder(out).default_weights()
    more = changed(recipe, "train", max_steps=5, validate_every=50)

    def samples(*_):
        return lambda: Translator.load(out, resolved) and {}

    message = r"average\.safetensors: no such checkpoint; .*start again if the run is"
    with pytest.raises(ValueError, match=message):
        train_recipe(more, out, samples)


def test_a_second_run_in_the_same_folder_is_refused(recipe, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    with (
        FileLock(out / ".lock"),
        pytest.raises(ValueError, match=r"run: another process .*--out"),
    ):
        train_recipe(recipe, out)
    assert not (out / "config.json").exists()
    assert train_recipe(recipe, out)


def test_a_file_in_the_place_of_the_run_is_named(recipe, tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(ValueError, match=r"run: is a file; give another --out"):
        train_recipe(recipe, tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("model", {"d_ff": 11}),
        ("model", {"dropout": 0.3}),
        ("train", {"seed": 7}),
        ("train", {"batch_tokens": 50}),
        ("train", {"warmup_steps": 9}),
        ("train", {"label_smoothing": 0.0}),
    ],
)
def test_a_run_does_not_resume_with_other_settings(recipe, tmp_path, part, values):
    out = tmp_path / "run"
    train_recipe(recipe, out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    ((name, value),) = values.items()
    old = getattr(getattr(recipe, part), name)
    message = rf"run: holds a run with {part}\.{name} = {old}, now it is {value}; give"
    with pytest.raises(ValueError, match=message):
        train_recipe(changed(recipe, part, **values), out)
    assert before == {path: path.read_bytes() for path in before}


@pytest.mark.parametrize(
    "values",
    [
        {"max_steps": 6},
        {"average_checkpoints": 1},
        {"checkpoint_every": 1},
        {"validate_every": 4},
        {"precision": "bf16"},
    ],
)
def test_a_run_resumes_with_other_steps_intervals_or_precision(
    recipe, tmp_path, values
):
    out = tmp_path / "run"
    train_recipe(recipe, out)
    more = {"max_steps": 6, **values}
    assert train_recipe(changed(recipe, "train", **more), out)
    newest = RunFolder(out).step_checkpoints()[-1]
    assert newest.stem == "step-00000006"


def test_a_run_that_ends_where_a_signal_stopped_it_can_be_translated_with(
    recipe, tmp_path, monkeypatch, capsys
):
    def stopped_step(*arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        return train_step(*arguments)

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "train_step", stopped_step)
        assert not train_recipe(recipe, out)
    assert train_recipe(changed(recipe, "train", max_steps=1), out)
    assert "steps      1, " in capsys.readouterr().err
    assert len(Translator.load(out).translate(["one two"])) == 1


def test_a_run_knows_its_languages(data, recipe, tmp_path):
    corpus = Corpus("one", {"train": PAIRS, "valid": PAIRS[:5]}, "", ("en", "ko"))
    prepare(corpus, tmp_path / "data", 40, 64, skip_unusable=False)
    train_recipe(replace(recipe, data=tmp_path / "data"), tmp_path / "run")
    assert json.loads(RunFolder(tmp_path / "run").corpus.read_text())["languages"] == [
        "en",
        "ko",
    ]


def test_a_run_that_does_not_know_its_languages_is_resumed(recipe, tmp_path):
    folder = RunFolder(tmp_path / "run")
    train_recipe(recipe, folder.path)
    known = json.loads(folder.corpus.read_text())
    del known["languages"]
    folder.corpus.write_text(json.dumps(known))
    assert train_recipe(recipe, folder.path)


def test_a_run_does_not_resume_with_another_vocabulary(recipe, data, tmp_path):
    out = tmp_path / "run"
    train_recipe(recipe, out)
    before = (out / "tokenizer.model").read_bytes()
    with pytest.raises(ValueError, match=r"run: .*vocabulary"):
        train_recipe(replace(recipe, data=data / "other"), out)
    assert (out / "tokenizer.model").read_bytes() == before


def test_a_run_does_not_resume_on_other_data_under_the_same_vocabulary(
    recipe, data, tmp_path
):
    out, changed_data = tmp_path / "run", tmp_path / "data"
    train_recipe(recipe, out)
    shutil.copytree(data / "one", changed_data)
    ids = np.fromfile(changed_data / "train.tgt.ids", IDS)
    ids[::-1].tofile(changed_data / "train.tgt.ids")
    with pytest.raises(ValueError, match=r"run: .*other training data than .*data"):
        train_recipe(replace(recipe, data=changed_data), out)


def test_a_run_resumes_when_its_data_has_been_moved(recipe, data, tmp_path):
    out, moved = tmp_path / "run", tmp_path / "moved"
    train_recipe(recipe, out)
    moved.symlink_to(data / "one", target_is_directory=True)
    more = changed(replace(recipe, data=moved), "train", max_steps=5)
    assert train_recipe(more, out)


def test_missing_data_is_named_and_no_run_is_begun(recipe, tmp_path):
    nowhere = replace(recipe, data=Path(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="nowhere: not a prepared corpus; run"):
        train_recipe(nowhere, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("split", ["train", "valid"])
def test_batches_too_small_for_the_data_are_named(recipe, tmp_path, split):
    splits = {"train": PAIRS, "valid": PAIRS[:5]}
    splits[split] = [*splits[split], (20 * " one",) * 2]
    prepare(Corpus("long", splits), tmp_path / "long", 40, 64, skip_unusable=False)
    small = changed(replace(recipe, data=tmp_path / "long"), "train", batch_tokens=18)
    message = rf"long: {split} has a sentence of .* train.batch_tokens = 18 has no room"
    with pytest.raises(ValueError, match=message):
        train_recipe(small, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def longest(data):
    source, target = PreparedCorpus(data).ids("train")
    return max(source.lengths.max(), target.lengths.max())


def test_sentences_longer_than_the_model_are_named_before_training(
    recipe, data, tmp_path
):
    max_len = int(longest(data / "one"))
    short = changed(changed(recipe, "model", max_len=max_len), "search", max_extra=1)
    with pytest.raises(
        ValueError, match=rf"longer than model.max_len = {max_len}; give a larger"
    ):
        train_recipe(short, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_validation_sentences_that_cannot_be_translated_are_named_before_training(
    recipe, tmp_path
):
    # Without room for max_extra tokens no sample could be translated.
    narrow = changed(recipe, "search", max_extra=63)
    with pytest.raises(ValueError, match=r"no room to translate valid's \d+ tokens"):
        train_recipe(narrow, tmp_path / "run")
    assert not (tmp_path / "run").exists()
