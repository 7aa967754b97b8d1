"""An exported model translates as the run that it comes from."""

import subprocess
import sys
from itertools import islice

import pytest
import torch

from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig, SearchConfig
from transformer_lite.data.toy import generate_pairs
from transformer_lite.inference.export import export_ctranslate2
from transformer_lite.inference.translator import Translator
from transformer_lite.model import Transformer
from transformer_lite.optimizer import adam
from transformer_lite.tokenizer import BOS, EOS, Tokenizer
from transformer_lite.training.step import Objective, train_step

PAIRS = [(pair.source, pair.target) for pair in islice(generate_pairs(5), 1200)]
TESTED = [source for source, _ in PAIRS[-200:]]
EXTRA = 40  # enough for every output to end by itself


def translator_of(tokenizer, **changes):
    torch.manual_seed(3)
    shape = {"num_layers": 2, "d_model": 48, "d_ff": 80, "num_heads": 3, "max_len": 89}
    config = ModelConfig(vocab_size=tokenizer.vocab_size, **shape | changes)
    search = SearchConfig(max_extra=EXTRA)
    return Translator(Transformer(config).eval(), tokenizer, search)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train([line for pair in PAIRS for line in pair], 310)


@pytest.fixture(scope="module")
def trained(tokenizer):
    """A translator that has seen some hundred pairs of the toy grammar."""
    translator = translator_of(tokenizer, dropout=0.0)
    optimizer = adam(translator.model.parameters())
    optimizer.param_groups[0]["lr"] = 3e-3
    ids = [[tokenizer.encode(text) for text in pair] for pair in PAIRS[:-200]]
    for start in [*range(0, 1000, 50)] * 4:
        batch = Batch.from_ids(*zip(*ids[start : start + 50], strict=True))
        train_step(Objective(translator.model, 0.1), [batch], optimizer)
    return translator


def load(folder):
    ctranslate2 = pytest.importorskip("ctranslate2")
    return ctranslate2.Translator(str(folder), intra_threads=1)


@pytest.fixture(scope="module")
def exported(trained, tmp_path_factory):
    pytest.importorskip("ctranslate2")
    folder = tmp_path_factory.mktemp("export") / "model"
    export_ctranslate2(trained, folder)
    return folder


def by_ctranslate2(served, translator, sentences, beam_size):
    """The ids that CTranslate2 finds without a length penalty, and their scores."""
    tokenizer = translator.tokenizer
    sources = [tokenizer.pieces(tokenizer.encode(text)) for text in sentences]
    vocabulary = tokenizer.pieces(range(tokenizer.vocab_size))
    ids = {piece: number for number, piece in enumerate(vocabulary)}
    found = []
    for source in sources:
        (result,) = served.translate_batch(
            [source],
            beam_size=beam_size,
            length_penalty=0,
            min_decoding_length=0,  # by default it allows no empty translation
            # Our limit counts the end of the sentence, too.
            max_decoding_length=len(source) + EXTRA - 1,
            return_scores=True,
        )
        found.append(([ids[p] for p in result.hypotheses[0]], result.scores[0]))
    return found


def log_prob_of(translator, source, target_ids):
    """Our model's log-probability of a translation, its end included."""
    src_ids = torch.tensor([[*translator.tokenizer.encode(source), EOS]])
    tgt_ids = torch.tensor([[BOS, *target_ids, EOS]])
    log_probs = translator.model(src_ids, tgt_ids[:, :-1]).log_softmax(dim=-1)[0]
    return log_probs.gather(1, tgt_ids[0, 1:, None]).sum().item()


@pytest.mark.parametrize("beam_size", [1, 4])
def test_200_sentences_have_equal_translations(exported, trained, beam_size):
    search = SearchConfig(beam_size=beam_size, alpha=0.0, max_extra=EXTRA)
    own = [output.ids for output in trained.hypotheses(TESTED, search)]
    served = by_ctranslate2(load(exported), trained, TESTED, beam_size)
    differing = [
        (source, ids, score)
        for source, mine, (ids, score) in zip(TESTED, own, served, strict=True)
        if ids != mine
    ]
    # Ties, and searches that end at another moment: ours when as many outputs as
    # beams are finished, CTranslate2's when the likeliest one is.
    assert len(differing) <= 5
    for source, ids, score in differing:
        assert score == pytest.approx(log_prob_of(trained, source, ids), abs=0.01)


def test_scores_are_the_models_own(exported, trained):
    served = by_ctranslate2(load(exported), trained, TESTED[:40], 4)
    for source, (ids, score) in zip(TESTED, served, strict=False):
        assert score == pytest.approx(log_prob_of(trained, source, ids), abs=0.01)


def test_the_translations_are_no_trivial_ones(trained):
    assert len(set(trained.translate(TESTED[:40]))) > 20


def test_learned_positions_are_exported(tokenizer, tmp_path):
    translator = translator_of(tokenizer, positions="learned", num_layers=1)
    pytest.importorskip("ctranslate2")
    export_ctranslate2(translator, tmp_path / "model")
    served = load(tmp_path / "model")
    source = tokenizer.pieces(tokenizer.encode(TESTED[0]))
    target = tokenizer.pieces(tokenizer.encode(PAIRS[-200][1]))
    (scored,) = served.score_batch([source], [target])
    src = torch.tensor([[*tokenizer.encode(TESTED[0]), EOS]])
    tgt = torch.tensor([[BOS, *tokenizer.encode(PAIRS[-200][1]), EOS]])
    log_probs = translator.model(src, tgt[:, :-1]).log_softmax(dim=-1)[0]
    expected = log_probs.gather(1, tgt[0, 1:, None])[:, 0]
    assert torch.allclose(torch.tensor(scored.log_probs), expected, atol=1e-4)


def test_the_folder_is_complete(exported, trained):
    names = {path.name for path in exported.iterdir()}
    assert names == {
        "README.md",
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "tokenizer.model",
    }
    assert Tokenizer.load(exported / "tokenizer.model").encode(TESTED[0]) == (
        trained.tokenizer.encode(TESTED[0])
    )


def test_the_program_in_its_readme_translates(exported, trained):
    text = (exported / "README.md").read_text(encoding="utf-8")
    program = text.split("```python\n")[1].split("```")[0]
    shown = subprocess.run(
        [sys.executable, "-c", program.replace("A dog runs.", TESTED[0])],
        check=True,
        capture_output=True,
        text=True,
        cwd=exported,
    ).stdout
    search = SearchConfig(alpha=0.0, max_extra=EXTRA)
    assert shown.splitlines() == trained.translate(TESTED[:1], search)


# What is refused


def test_without_ctranslate2_the_remedy_is_named(trained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ValueError, match=r"pip install ctranslate2$"):
        export_ctranslate2(trained, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_left_alone(trained, tmp_path):
    pytest.importorskip("ctranslate2")
    with pytest.raises(ValueError, match="already there"):
        export_ctranslate2(trained, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_an_export_that_failed(trained, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("no space left")

    pytest.importorskip("ctranslate2")
    monkeypatch.setattr(Tokenizer, "save", fail)
    with pytest.raises(OSError, match="no space"):
        export_ctranslate2(trained, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("width", [{"d_k": 11}, {"d_v": 11}])
def test_heads_that_ctranslate2_cannot_compute_are_refused(tokenizer, tmp_path, width):
    pytest.importorskip("ctranslate2")
    with pytest.raises(ValueError, match=r"11.*width d_model / num_heads = 16 alone"):
        export_ctranslate2(translator_of(tokenizer, **width), tmp_path / "model")
