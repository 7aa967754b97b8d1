"""Translations keep their order, and are those of the search."""

import json
import re
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.config import ModelConfig, Recipe, SearchConfig
from transformer_lite.inference import translator as module
from transformer_lite.inference.translator import Translator, _text, batches_by_length
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import BOS, EOS, Tokenizer
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


def test_batches_hold_sentences_of_like_length():
    assert batches_by_length([5, 3, 1, 2, 4], 2) == [[2, 3], [1, 4], [0]]
    assert batches_by_length([5, 3, 1, 2, 4, 0], 2) == [[2, 3], [1, 4], [0]]


def test_work_is_shared_out_in_equal_parts():
    lengths = [5, 3, 1, 2, 4, 7, 6]
    assert batches_by_length(lengths, 2, 2) == [[2, 1], [3, 4], [0, 5], [6]]
    assert batches_by_length(lengths[:3], 2, 2) == [[2, 0], [1]]
    assert batches_by_length(lengths[:1], 2, 2) == [[0]]


def test_one_sentence_gives_one_translation(translator):
    assert translator.translate("red dog") == translator.translate(["red dog"])[0]


@pytest.mark.parametrize("method", ["hypotheses", "stream"])
def test_what_takes_several_sentences_refuses_one(translator, method):
    with pytest.raises(ValueError, match="'red dog' is one sentence; give a list"):
        list(getattr(translator, method)("red dog"))


@pytest.mark.parametrize("sentence", [None, 3, b"red dog", "\ud800"])
def test_what_is_no_text_is_refused(sentence):
    with pytest.raises(ValueError, match="is no sentence; give text"):
        _text(sentence)


# Line by line

MANY = [SENTENCES[i % 6] for i in range(61)]


def test_a_stream_is_the_translations_in_order(translator):
    stream = translator.stream(iter(MANY))
    assert not isinstance(stream, list)
    assert list(stream) == translator.translate(MANY)


@pytest.mark.parametrize(
    ("at_once", "expected"), [(None, [1, 8, 16, 16, 16, 4]), (1, [1] * 61)]
)
def test_a_stream_reads_no_more_than_the_next_block(translator, at_once, expected):
    """A line at first, and at most eight batches, here of two sentences."""
    read, sizes = 0, []

    def lines():
        nonlocal read
        for line in MANY:
            read += 1
            yield line

    for number, _ in enumerate(translator.stream(lines(), at_once=at_once)):
        if number == sum(sizes):
            sizes.append(read - number)
    assert sizes == expected


@pytest.mark.parametrize("good", [0, 1, 5, 9])
def test_an_error_in_the_lines_waits_for_the_lines_before_it(translator, good):
    def lines():
        yield from MANY[:good]
        raise ValueError("line not UTF-8")

    found = []
    with pytest.raises(ValueError, match="not UTF-8"):
        found.extend(translator.stream(lines()))
    assert found == translator.translate(MANY[:good])


def test_a_long_line_is_left_empty_and_named(translator):
    lines, messages = ["cat"] * 11, []
    lines[4] = "dog " * 30
    found = list(translator.stream(lines, messages.append))
    (message,) = messages
    assert re.search(r"^line 5: \d+ tokens are more than the 24 .*split", message)
    assert found == [*[found[0]] * 4, "", *[found[0]] * 6]
    assert found[0] == translator.translate("cat")


def test_a_long_line_of_a_stream_is_an_error_if_nobody_asks(translator):
    with pytest.raises(ValueError, match=r"line 5: \d+ tokens are more than the 24"):
        list(translator.stream([*["cat"] * 4, "dog " * 30]))


def test_a_gpu_without_room_is_told_what_to_do(translator, monkeypatch):
    def fail(*_):
        raise torch.OutOfMemoryError("Tried to allocate 20 GiB")

    monkeypatch.setattr(translator.model, "start", fail)
    with pytest.raises(MemoryError, match=r"2 sentences.*smaller search.batch_sent"):
        translator.translate(["red dog", "cat"])


# Attention


def test_the_attention_of_a_pair_is_the_models(translator):
    found = translator.attention("red dog", "blue cat sees")
    ids = (
        translator.tokenizer.encode("red dog"),
        translator.tokenizer.encode("blue cat sees"),
    )
    assert found.source == [*translator.tokenizer.pieces(ids[0]), "</s>"]
    assert found.target == ["<s>", *translator.tokenizer.pieces(ids[1])]
    expected = translator.model.attention_weights(
        torch.tensor([[*ids[0], EOS]]), torch.tensor([[BOS, *ids[1]]])
    )
    for part, of_batch in zip(found[2:], expected, strict=True):
        torch.testing.assert_close(part, of_batch[0])
    assert found.cross.shape == (1, 2, len(found.target), len(found.source))


# Searching otherwise, lengths and runs


def test_a_gpu_searches_in_half_precision_where_it_has_units(monkeypatch):
    """In fp16 even where bf16 would be chosen for training."""
    for chosen, expected in (("bf16", "fp16"), ("fp16", "fp16"), ("fp32", "fp32")):
        monkeypatch.setattr(module, "choose_precision", lambda *_, to=chosen: to)
        assert module._precision(torch.device("cuda")) == expected
        assert module._precision(torch.device("cpu")) == "fp32"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_gpu_finds_outputs_about_as_likely_as_a_cpu(translator, beam_size):
    search = SearchConfig(beam_size=beam_size, max_extra=5, batch_sentences=2)
    expected = translator.hypotheses(SENTENCES, search)
    on_gpu = Translator(
        deepcopy(translator.model).cuda(), translator.tokenizer, search
    ).hypotheses(SENTENCES)
    for found, best in zip(on_gpu, expected, strict=True):
        assert found.score == pytest.approx(best.score, abs=0.2)


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


@pytest.mark.parametrize("max_extra", [28, 29, 101])
def test_a_search_that_leaves_sentences_no_room_is_named(translator, max_extra):
    search = SearchConfig(max_extra=max_extra)
    message = rf"max_extra = {max_extra} leaves no .*max_len = 29; give at most 27"
    with pytest.raises(ValueError, match=message):
        translator.translate(["dog"], search)
    starved = Translator(translator.model, translator.tokenizer, search)
    with pytest.raises(ValueError, match=message):
        list(starved.stream(["dog"], lambda message: None))


def test_the_most_that_max_extra_may_be_leaves_room_for_a_token(translator):
    (output,) = translator.hypotheses(["dog"], SearchConfig(max_extra=27))
    assert len(output.ids) <= 1 + 27


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
    loaded = Translator.load(str(run))
    assert loaded.search == translator.search
    assert not loaded.model.training
    assert loaded.translate(SENTENCES) == expected.translate(SENTENCES)


def test_a_checkpoint_can_be_chosen(translator, tmp_path):
    run = run_of(tmp_path / "run", translator, "average", "step-00000003")
    chosen = run / "checkpoints" / "step-00000003.safetensors"
    weights = checkpoint.weights_of(Translator.load(run, chosen).model)
    for name, tensor in checkpoint.read_weights(chosen).items():
        assert torch.equal(weights[name], tensor)


def test_the_device_can_be_chosen(translator, tmp_path):
    run = run_of(tmp_path / "run", translator, "average")
    loaded = Translator.load(run, device="meta")
    assert {weight.device.type for weight in loaded.model.parameters()} == {"meta"}


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
