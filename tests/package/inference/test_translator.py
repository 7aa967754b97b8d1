"""Translations keep their order, and are those of the search."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from transformer_lite.config import ModelConfig, Recipe, SearchConfig
from transformer_lite.inference.translator import Translator
from transformer_lite.model import Transformer
from transformer_lite.runs.files import sha256_of
from transformer_lite.runs.folder import MODEL_NAMES, RunFolder, find_run
from transformer_lite.runs.weights import read_weights, save_weights, weights_of
from transformer_lite.tokenizer import BOS, EOS, Tokenizer

WORDS = "red green blue dog cat sees hears".split()
LINES = [" ".join(WORDS), " ".join(reversed(WORDS)), "dog dog cat red"] * 3
SENTENCES = ["red dog", "cat", "the blue dog sees green", "", "red dog", "cat hears"]
MANY = [SENTENCES[i % 6] for i in range(61)]


def model_of(vocab_size, seed=3):
    torch.manual_seed(seed)
    shape = {"num_layers": 1, "d_model": 6, "num_heads": 2, "max_len": 29}
    model = Transformer(ModelConfig(vocab_size=vocab_size, d_ff=11, **shape))
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


@pytest.mark.parametrize("beam_size", [1, 2, 5])
@pytest.mark.parametrize("batch_sentences", [1, 2, 64])
def test_batched_equals_one_by_one(translator, beam_size, batch_sentences):
    sizes = {"beam_size": beam_size, "batch_sentences": batch_sentences}
    search = SearchConfig(**sizes, max_extra=5)
    found = translator.translate(SENTENCES, search)
    assert found == one_by_one(translator, SENTENCES, search)
    assert len(set(found)) >= 4  # so that their order can be checked


def test_one_sentence_gives_one_translation_where_one_is_taken(translator):
    assert translator.translate("red dog") == translator.translate(["red dog"])[0]
    with pytest.raises(ValueError, match="'red dog' is one sentence; give a list"):
        translator.hypotheses("red dog")


def test_what_is_no_text_is_refused(translator):
    with pytest.raises(ValueError, match="is not a string of text; give one"):
        translator.translate(["red dog", "\ud800"])


def test_a_gpu_without_room_is_told_what_to_do(translator, monkeypatch):
    def fail(*_):
        raise torch.OutOfMemoryError("Tried to allocate 20 GiB")

    monkeypatch.setattr(translator.model, "start", fail)
    with pytest.raises(MemoryError, match=r"2 sentences.*smaller search.batch_sent"):
        translator.translate(["red dog", "cat"])


def test_the_attention_of_a_pair_is_the_models(translator):
    found = translator.attention("red dog", "blue cat sees")
    source, target = map(translator.tokenizer.encode, ("red dog", "blue cat sees"))
    assert found.source == [*translator.tokenizer.pieces(source), "</s>"]
    assert found.target == ["<s>", *translator.tokenizer.pieces(target)]
    expected = translator.model.attention_weights(
        torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]])
    )
    for part, of_batch in zip(found[2:], expected, strict=True):
        torch.testing.assert_close(part, of_batch[0])
    assert found.cross.shape == (1, 2, len(found.target), len(found.source))


def texts(outputs):
    return [best.text for (best,) in outputs]


def test_a_stream_is_the_translations_in_order(translator):
    for blocks in ([MANY], [MANY[:7], [], MANY[7:]]):
        assert texts(translator.stream(blocks, print)) == translator.translate(MANY)


def test_a_stream_reads_no_more_than_the_next_block(translator):
    blocks = iter([["cat"], ["red dog", "cat"], ["cat"]])
    stream = translator.stream(blocks, print)
    found = texts([next(stream), next(stream)])
    assert found == translator.translate(["cat", "red dog"])
    assert [*blocks] == [["cat"]]


def test_a_long_line_is_left_empty_and_named(translator):
    lines, messages = ["cat"] * 21, []
    lines[18] = "dog " * 30
    outputs = texts(translator.stream([lines[:11], lines[11:]], messages.append))
    (message,) = messages
    assert re.search(r"^line 19: \d+ tokens are more than the 24 .*split", message)
    cat = translator.translate("cat")
    assert outputs == [*[cat] * 18, "", *[cat] * 2]


@pytest.mark.parametrize("n_best", [1, 3])
def test_the_n_best_begin_with_the_best_and_have_its_score(translator, n_best):
    lines = ["red dog", "", "cat"]
    first, empty, last = translator.stream([lines], print, n_best)
    assert empty == [("", 0.0, 0.0)]
    expected = translator.hypotheses(["red dog", "cat"])
    for outputs, best in zip((first, last), expected, strict=True):
        assert len({output.text for output in outputs}) == n_best
        assert outputs[0].text == translator.tokenizer.decode(best.ids)
        assert outputs[0].score == pytest.approx(best.score, abs=1e-5)
        scores = [output.score for output in outputs]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("blank", ["  ", "\u200b", "\ufeff", " \u2060\t", "▁"])
def test_a_line_without_anything_visible_is_empty(translator, blank):
    assert translator.translate([blank, "cat"])[0] == ""


@pytest.mark.parametrize("max_extra", [1, 5, 24])
def test_no_translation_is_longer_than_its_source_and_max_extra(translator, max_extra):
    texts = ["red dog", "cat", ""]
    outputs = translator.hypotheses(texts, SearchConfig(max_extra=max_extra))
    for text, output in zip(texts, outputs, strict=True):
        assert len(output.ids) <= len(translator.tokenizer.encode(text)) + max_extra


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


@pytest.mark.parametrize("max_extra", [28, 29, 101])
def test_a_search_that_leaves_sentences_no_room_is_named(translator, max_extra):
    search = SearchConfig(max_extra=max_extra)
    message = rf"max_extra = {max_extra} leaves no .*max_len = 29; give at most 27"
    with pytest.raises(ValueError, match=message):
        translator.translate(["dog"], search)


@pytest.fixture
def run(translator, tmp_path):
    """A run's folder with an average and a checkpoint of other weights."""
    model, search = translator.model.config, translator.search
    recipe = asdict(Recipe(data=Path("data"), model=model, search=search))
    folder = RunFolder(tmp_path)
    folder.config.write_text(json.dumps(recipe, default=str), encoding="utf-8")
    translator.tokenizer.save(folder.tokenizer)
    for seed, path in enumerate((folder.average, folder.weights_after(3))):
        save_weights(path, weights_of(model_of(40, seed)))
    return folder


def test_a_loaded_translator_translates_alike(translator, run):
    expected = Translator(model_of(40, 0), translator.tokenizer, translator.search)
    loaded = Translator.load(str(run.path))
    assert loaded.search == translator.search
    assert not loaded.model.training
    assert loaded.translate(SENTENCES) == expected.translate(SENTENCES)


def test_a_checkpoint_can_be_chosen(run):
    weights = weights_of(Translator.load(run.path, run.weights_after(3)).model)
    for name, tensor in read_weights(run.weights_after(3)).items():
        assert torch.equal(weights[name], tensor)


def test_the_device_can_be_chosen(run):
    loaded = Translator.load(run.path, device="meta")
    assert {weight.device.type for weight in loaded.model.parameters()} == {"meta"}


def test_the_vocabulary_of_another_model_is_named(run):
    Tokenizer.train(LINES, 37).save(run.tokenizer)
    message = r"tokenizer\.model: has 37 tokens, and the model 40; bring back"
    with pytest.raises(ValueError, match=message):
        Translator.load(run.path)


def test_another_vocabulary_of_the_same_size_is_known_by_its_checksum(run):
    record = {"languages": ["en", "de"]}
    record["tokenizer_sha256"] = sha256_of(run.tokenizer)
    run.corpus.write_text(json.dumps(record))
    Translator.load(run.path)
    Tokenizer.train(LINES[:-1], 40).save(run.tokenizer)
    with pytest.raises(ValueError, match=r"tokenizer\.model: damaged, or another file"):
        Translator.load(run.path)


@pytest.mark.parametrize("name", MODEL_NAMES)
def test_a_model_of_the_package_records_its_vocabulary(name):
    run = find_run(name)
    checksum = run.training_data()["tokenizer_sha256"]
    assert checksum == sha256_of(run.tokenizer)
