"""The stored translators of the toy corpus are whole, and translate what is new."""

import json
import re
from itertools import combinations, islice

import pytest
import torch
from safetensors import safe_open

from results import heads as training
from transformer_lite.book import heads
from transformer_lite.book.heads import (
    TRAIN_PAIRS,
    pronoun_pairs,
    toy_batch,
    toy_models,
    toy_words,
)
from transformer_lite.data.toy import generate_pairs
from transformer_lite.tokenizer import PAD

UNSEEN = list(islice(pronoun_pairs(), TRAIN_PAIRS, TRAIN_PAIRS + 101))


@pytest.fixture(scope="module")
def models():
    return toy_models()


def test_there_are_five_models_that_differ(models):
    assert list(models) == [1, 2, 3, 4, 5]
    matrices = [
        model.encoder.layers[0].self_attention.w_q.weight for model in models.values()
    ]
    assert not any(torch.equal(*pair) for pair in combinations(matrices, 2))


def test_it_is_kept_how_they_were_trained():
    with safe_open(heads.RECORDING, "pt") as recording:
        metadata = recording.metadata()
    trained = {name: json.loads(value) for name, value in metadata.items()}
    assert re.fullmatch("[0-9a-f]{12}", trained["commit"])
    assert trained["steps"] == training.STEPS
    assert trained["train_pairs"] == TRAIN_PAIRS
    assert {"versions", "hardware", "peak_rate", "batch_tokens"} <= trained.keys()


def test_models_are_in_evaluation_mode_and_share_their_embedding(models):
    for model in models.values():
        assert not model.training
        assert model.encoder.embedding is model.decoder.embedding


def test_models_translate_sentences_that_they_have_not_seen(models):
    batch = toy_batch(UNSEEN, toy_words())
    for model in models.values():
        with torch.inference_mode():
            guesses = model(batch.src_ids, batch.tgt_input).argmax(-1)
        right = ((guesses == batch.labels) | (batch.labels == PAD)).all(dim=1)
        assert right.double().mean() > 0.9


def test_pairs_have_a_pronoun_and_come_but_once():
    pairs = list(islice(pronoun_pairs(), 500))
    assert all(pair.antecedents for pair in pairs)
    assert len({pair.source for pair in pairs}) == 500


def test_a_batch_holds_each_word_in_its_place():
    words = toy_words()
    batch = toy_batch(UNSEEN[:7], words)
    for pair, row in zip(UNSEEN, batch.src_ids.tolist(), strict=False):
        read = [words[i] for i in row[: len(pair.source_words)]]
        assert read == [word.lower() for word in pair.source_words]


def test_the_vocabulary_has_the_special_tokens_first_and_each_word_once():
    words = toy_words()
    assert words[:4] == ["PAD", "BOS", "EOS", "UNK"]
    assert len(set(words)) == len(words)


def test_a_word_of_another_language_is_refused():
    with pytest.raises(ValueError, match="no word of the toy corpus"):
        toy_batch([next(generate_pairs(1))], ["PAD", "BOS", "EOS", "UNK"])


def test_what_is_trained_is_kept_as_the_chapter_reads_it(monkeypatch, tmp_path):
    out = tmp_path / "heads.safetensors"
    monkeypatch.setattr(training, "require_clean", lambda: None)
    monkeypatch.setattr(training, "SEEDS", [7])
    monkeypatch.setattr(training, "STEPS", 2)
    monkeypatch.setattr(training, "TRAIN_PAIRS", 300)
    training.main(out)
    monkeypatch.setattr(heads, "RECORDING", out)
    assert list(toy_models()) == [7]
    assert toy_words()[:4] == ["PAD", "BOS", "EOS", "UNK"]
