"""Translations keep their order, and are those of the search."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.config import ModelConfig, Recipe, SearchConfig
from transformer_lite.inference.translator import Translator
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import Tokenizer
from transformer_lite.training import checkpoint
from transformer_lite.training.folder import RunFolder

WORDS = "red green blue dog cat sees hears".split()
LINES = [" ".join(WORDS), " ".join(reversed(WORDS)), "dog dog cat red"] * 3
SENTENCES = ["red dog", "cat", "the blue dog sees green", "", "red dog", "cat hears"]
words = st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join)


def model_of(vocab_size, seed=3, d_ff=11):
    torch.manual_seed(seed)
    shape = {"num_layers": 1, "d_model": 6, "num_heads": 2, "max_len": 29}
    model = Transformer(ModelConfig(vocab_size=vocab_size, d_ff=d_ff, **shape))
    with torch.no_grad():  # so that outputs differ from source to source
        for parameter in model.parameters():
            parameter += 0.4 * torch.randn_like(parameter)
    return model.eval()


@pytest.fixture(scope="module")
def translator():
    tokenizer = Tokenizer.train(LINES, 40)
    search = SearchConfig(beam_size=3, max_extra=5, batch_sentences=2)
    return Translator(model_of(40), tokenizer, search)


def one_by_one(translator, sentences, search=None):
    return [translator.translate([text], search)[0] for text in sentences]


def test_outputs_differ_so_that_their_order_can_be_checked(translator):
    assert len(set(translator.translate(SENTENCES))) >= 4


@pytest.mark.parametrize("beam_size", [1, 2, 5])
@pytest.mark.parametrize("batch_sentences", [1, 2, 64])
def test_batched_equals_one_by_one(translator, beam_size, batch_sentences):
    search = SearchConfig(
        beam_size=beam_size, max_extra=5, batch_sentences=batch_sentences
    )
    found = translator.translate(SENTENCES, search)
    assert found == one_by_one(translator, SENTENCES, search)


@settings(max_examples=10, deadline=None)
@given(sentences=st.lists(words, max_size=4))
def test_translations_keep_the_order_of_their_sources(translator, sentences):
    found = translator.translate(sentences)
    assert found == one_by_one(translator, sentences)


def test_no_sentences_give_no_translations(translator):
    assert translator.translate([]) == []


def test_batches_hold_sentences_of_like_length(translator):
    texts = ["cat " * n for n in (5, 3, 1, 2, 4)]
    assert translator.batches(texts) == [[2, 3], [1, 4], [0]]
    assert translator.batches([*texts, " "]) == translator.batches(texts)


def test_work_is_shared_out_in_equal_parts(translator):
    texts = ["cat " * n for n in (5, 3, 1, 2, 4, 7, 6)]
    assert translator.batches(texts, shares=2) == [[2, 1], [3, 4], [0, 5], [6]]
    assert translator.batches(texts[:3], shares=2) == [[2, 0], [1]]
    assert translator.batches(texts[:1], shares=2) == [[0]]


def test_a_call_may_search_in_another_way(translator):
    short = SearchConfig(beam_size=1, max_extra=1)
    outputs = translator.hypotheses(["", "", ""], short)
    assert [len(output.ids) <= 1 for output in outputs] == [True] * 3
    assert translator.search.max_extra == 5


def test_translations_are_the_decoded_hypotheses(translator):
    outputs = translator.hypotheses(SENTENCES)
    decoded = [translator.tokenizer.decode(output.ids) for output in outputs]
    assert decoded == translator.translate(SENTENCES)


def test_no_translation_is_longer_than_its_source_and_max_extra(translator):
    for text, output in zip(SENTENCES, translator.hypotheses(SENTENCES), strict=True):
        assert len(output.ids) <= len(translator.tokenizer.encode(text)) + 5


def test_the_longest_sentence_allowed_is_translated(translator):
    text = " ".join(["dog"] * 40)
    while len(translator.tokenizer.encode(text)) + 1 > 29 - 5:
        text = text[:-1]
    assert len(translator.tokenizer.encode(text)) + 1 == 29 - 5
    assert len(translator.translate([text])) == 1


def test_a_sentence_longer_than_the_model_allows_is_named(translator):
    sentences = ["red dog", "cat", "dog " * 30, "dog"]
    with pytest.raises(ValueError, match=r"3: \d+ tokens are more than .*24.*split"):
        translator.translate(sentences)


def run_of(folder, translator, *weights):
    recipe = Recipe(
        data=Path("data"), model=translator.model.config, search=translator.search
    )
    folder.mkdir()
    text = json.dumps(asdict(recipe), default=str)
    (folder / "config.json").write_text(text, encoding="utf-8")
    translator.tokenizer.save(folder / "tokenizer.model")
    for seed, name in enumerate(weights):
        path = folder / "checkpoints" / f"{name}.safetensors"
        checkpoint.save_weights(path, checkpoint.weights_of(model_of(40, seed)))
    return folder


def test_a_loaded_translator_translates_alike(translator, tmp_path):
    run = run_of(tmp_path / "run", translator, "average")
    expected = Translator(model_of(40, 0), translator.tokenizer, translator.search)
    loaded = Translator.load(run)
    assert loaded.search == translator.search
    assert not loaded.model.training
    assert loaded.translate(SENTENCES) == expected.translate(SENTENCES)


def test_a_checkpoint_can_be_chosen(translator, tmp_path):
    run = run_of(tmp_path / "run", translator, "average", "step-00000003")
    chosen = run / "checkpoints" / "step-00000003.safetensors"
    weights = checkpoint.weights_of(Translator.load(run, chosen).model)
    for name, tensor in checkpoint.read_weights(chosen).items():
        assert torch.equal(weights[name], tensor)


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (["average", "best", "step-00000003"], "average"),
        (["best", "step-00000003"], "best"),
        (["step-00000003", "step-00000020"], "step-00000020"),
    ],
)
def test_the_average_comes_before_the_best_and_the_newest(
    translator, tmp_path, present, expected
):
    run = run_of(tmp_path / "run", translator, *present)
    assert RunFolder(run).default_weights().stem == expected


def test_a_run_without_a_checkpoint_is_named(translator, tmp_path):
    run = run_of(tmp_path / "run", translator)
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "step-00000003.safetensors.partial").write_bytes(b"half")
    with pytest.raises(ValueError, match=r"run/checkpoints: no checkpoint.*train"):
        Translator.load(run)


def test_a_checkpoint_of_another_shape_is_named(translator, tmp_path):
    run = run_of(tmp_path / "run", translator)
    path = run / "checkpoints" / "best.safetensors"
    checkpoint.save_weights(path, checkpoint.weights_of(model_of(40, d_ff=13)))
    with pytest.raises(ValueError, match=r"best\.safetensors: .*another config"):
        Translator.load(run)
