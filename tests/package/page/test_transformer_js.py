"""The model in JavaScript computes what the package computes."""

from dataclasses import replace

import pytest
import torch
from javascript import run_javascript

from results.provenance import ROOT
from results.storage import read_json
from transformer_lite import Translator
from transformer_lite.config import ModelConfig
from transformer_lite.model import Transformer
from transformer_lite.page.export import exported, parameters_for_json
from transformer_lite.tokenizer import BOS, EOS

EVERYDAY = read_json(ROOT / "results/everyday.json")["sentences"]
SENTENCES = [sentence["source"] for sentence in EVERYDAY]
MODEL = "tatoeba_en_de"
pytestmark = pytest.mark.usefixtures("types_unchecked")
TRANSLATE = """
    worker.load(given.model);
    const usual = { ...state.unchanged(given.model), ...given.options };
    return given.sentences.map((text) => [...worker.translate({ ...usual, text })]);
"""
LOGITS = """
    const { config, tensors, data, pairs, changes } = given;
    const parameters = worker.unpack({ tensors, data });
    const model = new transformer.Transformer(config, parameters);
    const off = new Set(changes.off);
    return pairs.map(([source, target]) => {
      let state = model.start(source, { ...transformer.UNCHANGED, ...changes, off });
      return target.map((id) => {
        const next = model.step(id, state);
        state = next.state;
        return next.logits;
      });
    });
"""


@pytest.fixture(scope="module")
def translator():
    return Translator.load(MODEL, device="cpu")


@pytest.fixture(scope="module")
def exact():
    """The model with weights of 32 bits, for JavaScript."""
    return exported(MODEL, bits=32)


def random_model(**changes):
    """A small untrained model, in evaluation mode."""
    torch.manual_seed(0)
    shape = {"vocab_size": 20, "num_layers": 2, "d_model": 8, "d_ff": 12}
    return Transformer(ModelConfig(**shape, num_heads=2, **changes)).eval()


def logits(model, *pairs, **changes):
    """For each pair of source and target JavaScript's logits after each token."""
    tensors = parameters_for_json(dict(model.named_parameters()), bits=32)
    config = vars(model.config)
    given = {"config": config, "pairs": pairs, "changes": changes, **tensors}
    return [torch.tensor(rows) for rows in run_javascript(LOGITS, given)]


@torch.inference_mode()
def logits_of_the_package(model, source, target):
    return model(torch.tensor([source]), torch.tensor([target]))[0]


def test_logits_of_ten_sentences_equal_the_packages(translator):
    encode = translator.tokenizer.encode
    pairs = [
        ([*encode(sentence), EOS], [BOS, *encode(translator.translate(sentence))])
        for sentence in SENTENCES[:10]
    ]
    found = logits(translator.model, *pairs)
    for pair, rows in zip(pairs, found, strict=True):
        expected = logits_of_the_package(translator.model, *pair)
        torch.testing.assert_close(rows, expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize(("beam", "number"), [(1, 50), (4, 10)])
def test_sentences_have_the_same_pieces_and_translations(
    translator, exact, beam, number
):
    sentences = SENTENCES[:number]
    options = {"beamSize": beam, "alpha": 0.6}
    given = {"model": exact, "sentences": sentences, "options": options}
    shown = run_javascript(TRANSLATE, given)
    pieces = [[piece["id"] for piece in told[0]["pieces"]] for told in shown]
    assert pieces == translator.tokenizer.encode_all(list(sentences))
    search = replace(translator.search, beam_size=beam, alpha=0.6)
    expected = translator.hypotheses(sentences, search)
    outputs = [told[-1]["output"] for told in shown]
    assert outputs == [translator.tokenizer.decode(one.ids) for one in expected]
    scores = [told[-1]["score"] for told in shown]
    assert scores == pytest.approx([one.score for one in expected], abs=1e-3)


@pytest.mark.parametrize(
    "changes", [{}, {"positions": "learned"}, {"d_k": 3, "d_v": 5}], ids=str
)
def test_a_model_of_any_shape_equals_the_packages(changes):
    model = random_model(**changes)
    source, target = [5, 9, 4, EOS], [BOS, 7, 8]
    (found,) = logits(model, (source, target))
    expected = logits_of_the_package(model, source, target)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_a_head_that_is_off_gives_zeros():
    model = random_model()
    (found,) = logits(model, ([5, EOS], [BOS, 7]), off=["cross.1.0", "encoder.0.1"])
    with torch.no_grad():  # what a head gives enters W^O by its own columns
        model.decoder.layers[1].cross_attention.w_o.weight[:, :4] = 0
        model.encoder.layers[0].self_attention.w_o.weight[:, 4:] = 0
    expected = logits_of_the_package(model, [5, EOS], [BOS, 7])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_positions_and_the_division_can_be_left_out():
    model = random_model()
    changes = {"positions": False, "scaled": False}
    (found,) = logits(model, ([5, 6, EOS], [BOS, 7]), **changes)
    for side in (model.encoder, model.decoder):
        side.positions.encoding.zero_()
        for layer in side.layers:
            for attention in ("self_attention", "cross_attention"):
                if part := getattr(layer, attention, None):
                    part.w_q.weight.data *= 4**0.5  # d_k is 4
    expected = logits_of_the_package(model, [5, 6, EOS], [BOS, 7])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_what_is_explained_are_the_models_own_weights_and_probabilities(
    translator, exact
):
    sentence = "The dog bites the man."
    options = {"beamSize": 2, "alpha": 0.6}
    given = {"model": exact, "sentences": [sentence], "options": options}
    shown = run_javascript(TRANSLATE, given)[0][-1]
    weights = translator.attention(sentence, shown["output"])
    for name in ("encoder", "decoder", "cross"):
        expected = 100 * getattr(weights, name).flatten(2)
        found = torch.tensor(shown["weights"][name], dtype=torch.float)
        assert (found - expected).abs().max() <= 0.51, name
    encode = translator.tokenizer.encode
    rows = logits_of_the_package(
        translator.model, [*encode(sentence), EOS], [BOS, *encode(shown["output"])]
    ).softmax(-1)
    for row, step in zip(rows, shown["steps"], strict=True):
        likeliest, ids = row.topk(5)
        assert [one["id"] for one in step["candidates"]] == ids.tolist()
        found = [one["probability"] for one in step["candidates"]]
        assert found == pytest.approx(likeliest.tolist(), abs=1e-4)


def test_a_forced_piece_stands_at_its_place_and_the_rest_follows(translator, exact):
    forced = translator.tokenizer.encode("Eine")[0]
    options = {"beamSize": 3, "alpha": 0.6, "forced": {"0": forced}}
    given = {"model": exact, "sentences": ["A dog runs."], "options": options}
    steps = run_javascript(TRANSLATE, given)[0][-1]["steps"]
    assert steps[0]["id"] == forced
    assert steps[-1]["id"] == EOS


def test_the_same_seed_draws_the_same_output(exact):
    given, drawn = {"model": exact, "sentences": SENTENCES[:3]}, []
    for seed in (1, 1, 2):
        options = {"beamSize": 1, "alpha": 0, "temperature": 1.5, "seed": seed}
        shown = run_javascript(TRANSLATE, {**given, "options": options})
        drawn.append([steps[-1]["output"] for steps in shown])
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", {"pieces": [], "tooLong": False}),
        (" \n ", {"pieces": [], "tooLong": False}),
        ("word " * 1000, {"tooLong": True, "longest": 461}),
        ("Hund 😀 고양이", {"unknown": ["😀", "고양이"]}),
    ],
)
def test_a_text_that_cannot_be_translated_gets_an_answer(exact, text, says):
    options = {"beamSize": 1, "alpha": 0}
    given = {"model": exact, "sentences": [text], "options": options}
    told = run_javascript(TRANSLATE, given)[0]
    assert says.items() <= told[0].items()
    assert (len(told) == 1) == ("unknown" not in says)
