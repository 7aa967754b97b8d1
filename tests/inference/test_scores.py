"""Scores are sacrebleu's."""

import importlib.util
import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import sacrebleu

from transformer_lite.config import ModelConfig, SearchConfig
from transformer_lite.data.corpora import Corpus
from transformer_lite.data.prepare import prepare
from transformer_lite.data.store import PreparedCorpus
from transformer_lite.data.trees import TREES
from transformer_lite.inference.brackets import score_brackets
from transformer_lite.inference.scores import ValidationSamples, score, score_outputs
from transformer_lite.model import Transformer

HYPOTHESES = ["The cat sat on a mat.", "Dogs don't bark, often.", "Ja!", "Same line."]
REFERENCES = ["The cat sat on the mat.", "Dogs do not bark often.", "Ja!", "Same line."]


@pytest.fixture(scope="module")
def by_command_line(tmp_path_factory):
    """What sacrebleu's own command line says about the same files."""
    folder = tmp_path_factory.mktemp("sacrebleu")
    for name, lines in (("out.de", HYPOTHESES), ("ref.de", REFERENCES)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    command = "-m sacrebleu ref.de -i out.de -m bleu chrf -f json -w 9"
    shown = subprocess.run(
        [sys.executable, *command.split()],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {entry["name"]: entry for entry in json.loads(shown)}


def test_bleu_is_that_of_sacrebleus_command_line(by_command_line):
    bleu = score(HYPOTHESES, REFERENCES).bleu
    assert 20 < bleu < 90
    assert bleu == pytest.approx(by_command_line["BLEU"]["score"], abs=1e-8)


def test_chrf_is_that_of_sacrebleus_command_line(by_command_line):
    chrf = score(HYPOTHESES, REFERENCES).chrf
    assert chrf == pytest.approx(by_command_line["chrF2"]["score"], abs=1e-8)


def test_the_signature_is_sacrebleus(by_command_line):
    assert (
        score(HYPOTHESES, REFERENCES).signature == by_command_line["BLEU"]["signature"]
    )


def test_exact_matches_are_a_percentage():
    scores = score(HYPOTHESES, REFERENCES)
    assert scores.exact_match == 50.0
    assert scores.sentences == 4


# One character of each is wrong.
CHINESE = ["我喜欢红色的小狗。", "他看到一只猫在桌子上"]
REFERENCE = ["我喜欢红色的大狗。", "他看到一只猫在桌子下"]


@pytest.mark.filterwarnings("ignore:the references have hardly any spaces")
@pytest.mark.parametrize(
    ("language", "tokenizer"), [("zh", "zh"), ("th", "char"), ("de", "13a")]
)
def test_the_language_decides_how_words_are_found(language, tokenizer):
    found = score(CHINESE, REFERENCE, language)
    assert f"|tok:{tokenizer}|" in found.signature
    expected = sacrebleu.corpus_bleu(CHINESE, [REFERENCE], tokenize=tokenizer)
    assert found.bleu == pytest.approx(expected.score)
    assert (found.bleu > 50) == (language != "de")


@pytest.mark.parametrize(
    "code", ["ZH", "zh-CN", "zh_cn", "zh-Hant-TW", "zho", "chi", "cmn", "cmn_Hans"]
)
def test_a_language_has_many_codes(code):
    assert score(CHINESE, REFERENCE, code) == score(CHINESE, REFERENCE, "zh")


@pytest.mark.parametrize(
    ("long", "short"), [("jpn", "ja"), ("kor", "ko"), ("tha", "th"), ("deu", "de")]
)
def test_a_code_of_three_letters_is_known(long, short):
    names = (score(REFERENCES, REFERENCES, code).signature for code in (long, short))
    assert len(set(names)) == 1


@pytest.mark.parametrize("language", ["ja", "ko"])
@pytest.mark.parametrize("extra", [True, False])
def test_without_an_extra_every_character_is_a_word(language, extra, monkeypatch):
    if extra and importlib.util.find_spec({"ja": "MeCab", "ko": "mecab_ko"}[language]):
        expected = f"tok:{language}-mecab"
    else:
        monkeypatch.setitem(sys.modules, "MeCab", None)
        monkeypatch.setitem(sys.modules, "mecab_ko", None)
        expected = "tok:char"
    assert expected in score(CHINESE, REFERENCE, language).signature


def test_the_tokenizer_can_be_given():
    assert "|tok:intl|" in score(CHINESE, REFERENCE, "zh", "intl").signature


@pytest.mark.parametrize("name", ["zhh", "ja-mecab"])
def test_a_tokenizer_that_is_missing_is_named(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(ValueError, match=f"tokenize = '{name}': .*give one of .*zh,"):
        score(CHINESE, REFERENCE, "zh", name)


@pytest.mark.parametrize("language", ["", "xx", "de"])
def test_text_without_spaces_that_13a_shall_cut_up_is_warned_of(language):
    with pytest.warns(UserWarning, match="hardly any spaces.*name the language"):
        score(CHINESE, REFERENCE, language)


def test_validation_bleu_knows_the_language(tmp_path):
    pairs = [(source, source) for source in [*CHINESE, *REFERENCE] * 2]
    corpus = Corpus("files", {"train": pairs, "valid": pairs[:4]}, "", ("zh", "zh"))
    prepare(corpus, tmp_path / "data", 50, 64, skip_unusable=False)
    model = Transformer(
        ModelConfig(vocab_size=50, num_layers=1, d_model=6, num_heads=2)
    )
    samples = ValidationSamples(
        model, PreparedCorpus(tmp_path / "data"), SearchConfig()
    )
    samples.translator = SimpleNamespace(translate=lambda _: [*REFERENCE, *CHINESE])
    assert samples()["valid_bleu"] > 50


def test_validation_of_a_parser_scores_brackets(tmp_path):
    pairs = [("the dog", "(NP DT NN )NP"), ("rain", "(NP NN )NP")] * 9
    corpus = Corpus("trees", {"train": pairs, "valid": pairs[:2]}, "", ("en", "trees"))
    prepare(corpus, tmp_path / "data", 22, 64, skip_unusable=False)
    model = Transformer(
        ModelConfig(vocab_size=22, num_layers=1, d_model=6, num_heads=2)
    )
    samples = ValidationSamples(
        model, PreparedCorpus(tmp_path / "data"), SearchConfig()
    )
    samples.translator = SimpleNamespace(translate=lambda _: [pairs[0][1], "(NP"])
    found = samples()
    assert found["valid_well_formed"] == 50
    assert found["valid_f1"] == pytest.approx(100 * 2 / 3)
    assert "valid_bleu" not in found


def test_outputs_are_scored_as_the_language_asks():
    text = score_outputs(CHINESE, REFERENCE, CHINESE, "zh", "intl")
    assert text == score(CHINESE, REFERENCE, "zh", "intl")
    assert text.watched() == {"bleu": text.bleu}
    sources, golds = ["the dog", "rain"], ["(NP DT NN )NP", "(NP NN )NP"]
    found = score_outputs(sources, golds, [golds[0], "(NP"], TREES)
    assert found == score_brackets(sources, golds, [golds[0], "(NP"])
    assert found.f1 == 100  # of the one that is a tree
    assert found.watched() == {"f1": pytest.approx(100 * 2 / 3), "well_formed": 50}


def test_case_counts():
    assert score(["THE CAT SAT ON THE MAT."], REFERENCES[:1]).bleu < 50


def test_every_translation_needs_a_reference():
    with pytest.raises(ValueError, match="zip"):
        score(HYPOTHESES, REFERENCES[:3])
