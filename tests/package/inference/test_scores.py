"""Scores are sacrebleu's."""

import importlib.util
import json
import subprocess
import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import sacrebleu

from transformer_lite.config import ModelConfig, SearchConfig
from transformer_lite.data.corpora import Corpus, SentencePair
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.inference import scores, translator
from transformer_lite.inference.scores import ValidationSamples, score
from transformer_lite.model import Transformer

HYPOTHESES = ["The cat sat on a mat.", "Dogs don't bark, often.", "Ja!", "Same line."]
REFERENCES = ["The cat sat on the mat.", "Dogs do not bark often.", "Ja!", "Same line."]


def test_scores_are_those_of_sacrebleus_command_line(tmp_path):
    for name, lines in (("out.de", HYPOTHESES), ("ref.de", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    command = "-m sacrebleu ref.de -i out.de -m bleu chrf -f json -w 9"
    shown = subprocess.run(
        [sys.executable, *command.split()],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    expected = {entry["name"]: entry for entry in json.loads(shown)}
    found = score(HYPOTHESES, REFERENCES)
    assert 20 < found.bleu < 90
    assert found.bleu == pytest.approx(expected["BLEU"]["score"], abs=1e-8)
    assert found.chrf == pytest.approx(expected["chrF2"]["score"], abs=1e-8)
    assert found.signature == expected["BLEU"]["signature"]
    assert found.exact_match == 50.0


# One character of each is wrong.
CHINESE = ["我喜欢红色的小狗。", "他看到一只猫在桌子上"]
REFERENCE = ["我喜欢红色的大狗。", "他看到一只猫在桌子下"]


@pytest.mark.parametrize(
    ("language", "tokenizer"), [("zh", "zh"), ("th", "char"), ("de", "13a")]
)
def test_the_language_decides_how_words_are_found(language, tokenizer):
    found = score(CHINESE, REFERENCE, language)
    assert f"|tok:{tokenizer}|" in found.signature
    expected = sacrebleu.corpus_bleu(CHINESE, [REFERENCE], tokenize=tokenizer)
    assert found.bleu == pytest.approx(expected.score)
    assert (found.bleu > 50) == (language != "de")


@pytest.mark.parametrize("code", ["ZH", "zh-CN", "zh_cn", "zh-Hant-TW", "zho"])
def test_a_language_has_many_codes(code):
    assert score(CHINESE, REFERENCE, code) == score(CHINESE, REFERENCE, "zh")


@pytest.mark.parametrize("language", ["ja", "ko"])
@pytest.mark.parametrize("extra", [True, False])
def test_without_an_extra_every_character_is_a_word(
    language, extra, monkeypatch, capsys
):
    if extra and importlib.util.find_spec({"ja": "MeCab", "ko": "mecab_ko"}[language]):
        expected = f"tok:{language}-mecab"
    else:
        monkeypatch.setitem(sys.modules, "MeCab", None)
        monkeypatch.setitem(sys.modules, "mecab_ko", None)
        expected = "tok:char"
    scores._tokenizer_of.cache_clear()
    for _ in range(2):
        assert expected in score(CHINESE, REFERENCE, language).signature
    notes = capsys.readouterr().err.count(f"pip install 'sacrebleu[{language}]'")
    assert notes == (1 if expected == "tok:char" else 0)


@pytest.mark.parametrize("name", ["zhh", "ja-mecab"])
def test_a_tokenizer_that_is_missing_is_named(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(ValueError, match=f"tokenize = '{name}': .*give one of .*zh,"):
        score(CHINESE, REFERENCE, "zh", name)


def samples_of(folder, lines, says, languages=("zh", "zh")):
    """The samples of an untrained model, which says these, or its own translations."""
    pairs = [SentencePair(line, line) for line in lines]
    corpus = Corpus("files", {"train": pairs * 5, "valid": pairs}, languages)
    prepare(corpus, folder / "data", 50, 64, skip_unusable=False)
    shape = {"vocab_size": 50, "num_layers": 1, "d_model": 6, "num_heads": 2}
    prepared = PreparedCorpus(folder / "data")
    samples = ValidationSamples(
        Transformer(ModelConfig(**shape)), prepared, SearchConfig()
    )
    if says is not None:
        samples.translator = SimpleNamespace(translate=lambda _: says)
    return samples


def test_a_long_sample_is_cut(tmp_path, capsys):
    samples_of(tmp_path, [*CHINESE, *REFERENCE], ["很" * 500] * 4)()
    shown = capsys.readouterr().err
    assert "很" * 200 + "…" in shown
    assert "很" * 201 not in shown


def test_validation_bleu_knows_the_language(tmp_path):
    found = samples_of(tmp_path, [*CHINESE, *REFERENCE], [*REFERENCE, *CHINESE])()
    assert found["valid_bleu"] > 50
    assert found["translations"] == [*REFERENCE, CHINESE[0]]


def test_samples_are_searched_in_fp32(tmp_path, monkeypatch):
    # A GPU would take fp16, which might overflow where training does not.
    monkeypatch.setattr(translator, "_precision", lambda _: "fp16")
    seen = []

    def autocast(precision, _):
        return seen.append(precision) or nullcontext()

    monkeypatch.setattr(translator, "autocast", autocast)
    samples_of(tmp_path, REFERENCES, None, ("en", "de"))()
    assert seen == ["fp32"]
