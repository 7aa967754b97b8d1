"""A live figure computes what the package computes, and obeys keys, mouse and touch.

The parts in a browser are skipped where there is no Chromium.
"""

import math
import re
from itertools import product

import pytest
import torch
from javascript import run_javascript
from sacrebleu import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from torch.utils.flop_counter import FlopCounterMode

from results.interventions import attention_sublayers, faded_encoder, without_heads
from results.live_sweeps import (
    SHORT,
    PronounRows,
    decided,
    fired,
    next_of_each_gender,
)
from transformer_lite import Translator
from transformer_lite.attention import scaled_dot_product_attention
from transformer_lite.batching import Batch
from transformer_lite.config import TABLE_3, ModelConfig
from transformer_lite.data.toy import split_words
from transformer_lite.layers import EncoderLayer
from transformer_lite.model import Transformer
from transformer_lite.page import SOURCES as PAGE_SOURCES
from transformer_lite.tokenizer import EOS
from transformer_lite_book.live_figures import (
    MODULES,
    SOURCES,
    live_figure,
    stored_sweep,
)
from transformer_lite_book.recordings import lowered, toy_models, toy_words

WORDS = [("cold", [2, 0, 2, 0], [10, 0, 2]), ("tea", [0, 2, 2, 1], [0, 10, 2])]
WORDS += [("hot", [2, 0, 2, 0], [-10, 0, 2])]
RANDOM_DOTS = [[*range(10)], [0] * 10]
DATA = {
    "words": [{"name": n, "key": key, "value": value} for n, key, value in WORDS],
    "wide": [{"d_k": d_k, "dots": RANDOM_DOTS} for d_k in (4, 16, 64)],
}
PICTURE = "data:image/gif;base64,R0lGODlhAQABAAAAACw="
pytestmark = pytest.mark.usefixtures("types_unchecked")


@pytest.mark.parametrize(("root", "hot"), [*product([True, False], repeat=2)])
def test_the_query_gets_the_weights_and_the_output_of_the_package(root, hot):
    torch.manual_seed(0)
    queries = [[1, 0, 1, 0], *(5 * torch.randn(20, 4)).tolist()]
    fixed = {"root": root, "hot": hot, "width": 1, "wideRoot": not root}
    states = [{"query": q, **fixed} for q in queries]
    found = run_javascript(
        "return given.states.map((state) => query.compute(state, given.data));",
        {"states": states, "data": DATA},
        [SOURCES / "query.js"],
    )
    words = WORDS if hot else WORDS[:2]
    keys, values = (torch.tensor([w[i] for w in words]).double() for i in (1, 2))
    scale = 1 if root else 2
    outputs, weights = scaled_dot_product_attention(
        scale * torch.tensor(queries).double(), keys, values
    )
    for one, output, row in zip(found, outputs, weights, strict=True):
        assert one["output"] == pytest.approx(output.tolist(), abs=1e-3)
        assert one["weights"] == pytest.approx(row.tolist(), abs=1e-6)
    wide = (torch.tensor(RANDOM_DOTS).double() / (1 if root else 4)).softmax(-1)
    assert found[0]["wideWeights"] == pytest.approx(wide[0].tolist(), abs=1e-6)
    largest, reaction = wide.amax(-1).mean().item(), (wide * (1 - wide)).mean().item()
    assert found[0]["wideLargest"] == pytest.approx(largest, abs=1e-6)
    assert found[0]["wideReaction"] == pytest.approx(reaction, abs=1e-6)


def test_numbers_are_written_as_python_writes_them():
    torch.manual_seed(0)
    numbers = (100 * torch.randn(10_000).double()).tolist()
    found = run_javascript(
        "return given.map((number) => live.format(number, 2));",
        numbers,
        [SOURCES / "live.js"],
    )
    assert found == [
        f"{number:.2f}".replace("-", "\N{MINUS SIGN}") for number in numbers
    ]


FADED = stored_sweep("residual")


def test_the_residual_shows_what_the_encoder_computes():
    states = [{"sentence": 2, "part": part} for part in (0, 9, 20)]
    found = run_javascript(
        "return given.states.map((state) => residual.compute(state, given.data));",
        {"states": states, "data": FADED},
        [SOURCES / "residual.js"],
    )
    translator = Translator.load("multi30k_en_de", device="cpu")
    encoder, source = translator.model.encoder, FADED["sentences"][2]["source"]
    ids = torch.tensor([[*translator.tokenizer.encode(source), EOS]])
    mask = torch.ones(1, 1, 1, ids.size(1), dtype=torch.bool)
    for state, one in zip(states, found, strict=True):
        encoder.forward = faded_encoder(encoder, state["part"] / 20)
        with torch.inference_mode():
            top = encoder(ids, mask)[0]
        own = (top - top.mean(0)).norm() / top.norm()
        assert one["share"] == pytest.approx(own.item(), abs=0.002)
        unit = torch.nn.functional.normalize(top, dim=-1)
        apart = torch.tensor(one["cosines"]) - 100 * (unit @ unit.T).flatten()
        assert apart.abs().max() < 1
        text = translator.translate(source)
        assert " ".join(word["word"] for word in one["words"]) == text
    assert not any(word["isNew"] for word in found[2]["words"])


SWITCHED = stored_sweep("heads")


def test_heads_that_are_off_change_what_the_package_changes():
    chosen = {"sentence": 0, "row": 8, "head": 1}
    states = [chosen | {"alone": False}, chosen | {"alone": True}]
    states += [chosen | {"head": None, "alone": False}, chosen | {"row": None}]
    found = run_javascript(
        "return given.states.map((state) => heads.compute(state, given.data));",
        {"states": states, "data": SWITCHED},
        [SOURCES / "heads.js"],
    )
    translator = Translator.load("tatoeba_en_de", device="cpu")
    sublayers = attention_sublayers(translator.model)
    assert [*sublayers] == SWITCHED["rows"]
    source = SWITCHED["sentences"][0]["source"]
    for one, off in zip(found, [{1}, {0, *range(2, 8)}, {*range(8)}, {}], strict=True):
        with without_heads(sublayers["cross, layer 3"], off):
            text = translator.translate(source)
        assert " ".join(word["word"] for word in one["words"]) == text
        assert one["isTrained"] == (not off)
    assert sum(map(sum, found[0]["damage"])) == found[0]["harmful"] == 3


@pytest.fixture
def phone(browser):
    """A tab as wide as a phone; at the test's end nothing may be wider."""
    tab = browser.new_page(viewport={"width": 390, "height": 900})
    yield tab
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert tab.evaluate(wide) == 0
    tab.close()


def test_heads_are_switched_by_keyboard_after_a_guess(phone):
    phone.set_content(live_figure("heads", SWITCHED).data)
    assert phone.get_by_role("button", name="cross, layer 3").count() == 0
    phone.get_by_role("button", name="20", exact=True).press("Enter")
    assert "3 times" in phone.locator(".predict").inner_text()
    output = phone.locator(".output")
    trained = output.inner_text()
    for name in ("cross, layer 3", "cross, layer 3, head 2"):
        node = phone.get_by_role("button", name=name, exact=True)
        node.press("Enter")
        assert output.inner_text() != trained
        node.press("Enter")  # again: on
        assert output.inner_text() == trained
    phone.get_by_role("button", name="cross, layer 3, head 3", exact=True).press(
        "Enter"
    )
    assert output.inner_text() == trained
    phone.get_by_role("checkbox").press("Space")
    assert "only head 3 is on" in phone.locator(".says").inner_text()
    assert "the only one of its row" in phone.locator(".live-figure").inner_text()
    node = phone.get_by_role("button", name="cross, layer 3, head 2", exact=True)
    assert int(node.inner_text()) > 0
    phone.get_by_role("button", name="cross, layer 3", exact=True).press("Enter")
    assert node.inner_text() == ""  # the row is off: this is no head's number


TRANSPLANTED = stored_sweep("transplant")


@torch.inference_mode()
def test_a_transplant_gives_the_pronouns_that_the_package_gives():
    changes = [
        {"act": "as it is"},
        {"act": "zeros", "model": 1},
        {"act": "transplant"},
        {"act": "transplant", "into": 4, "from": 3},
    ]
    states = [{"model": 0, "head": 7, "into": 1, "from": 0} | one for one in changes]
    found = run_javascript(
        "return given.states.map((state) => transplant.compute(state, given.data));",
        {"states": states, "data": TRANSPLANTED},
        [SOURCES / "transplant.js"],
    )
    ids = {word: i for i, word in enumerate(toy_words())}
    src = [[*lowered(split_words(english)), "EOS"] for english, _ in SHORT]
    tgt = [["BOS", *lowered(split_words(german))[:-1]] for _, german in SHORT]
    src, tgt = (
        torch.tensor([[ids[w] for w in s] for s in side]) for side in (src, tgt)
    )
    models = toy_models()
    for state, one in zip(states, found, strict=True):
        model = models[(1, 3)[state["model"]]]
        into, last = slice(state["into"], state["into"] + 1), torch.tensor([7])
        six = PronounRows(model, src[into], tgt[into], last)
        giver = slice(state["from"], state["from"] + 1)
        given = PronounRows(model, src[giver], tgt[giver], last).outputs(1, 3)
        new = {
            "as it is": None,
            "zeros": torch.zeros_like,
            "transplant": lambda _, given=given: given,
        }[state["act"]]
        chances = six.logits(1, 3, new).softmax(-1)[0]
        for share, word in zip(one["chances"], ("er", "sie", "es"), strict=True):
            assert share == pytest.approx(1000 * chances[ids[word]].item(), abs=1)
        weights = model.attention_weights(src[into], tgt[into]).decoder[0, :, :, -1]
        maps = torch.tensor(one["maps"]) - 100 * weights.flatten(0, 1)
        assert maps.abs().max() < 1
    assert [one["written"] for one in found] == ["sie", "sie", "er", "sie"]
    assert all(sum(shares) == pytest.approx(100) for shares in found[0]["shares"])
    assert min(found[0]["shares"][gender][gender] for gender in range(3)) > 98


def test_donors_are_the_next_sentences_of_each_gender():
    donors = next_of_each_gender([0, 1, 1, 2, 0, 2])
    assert donors[:3].tolist() == [[4, 1, 3], [4, 2, 3], [4, 1, 3]]
    assert donors[3:].tolist() == [[4, 1, 5], [0, 1, 5], [0, 1, 3]]


def test_a_gender_is_transplanted_by_keyboard_after_a_guess(phone):
    phone.set_content(live_figure("transplant", TRANSPLANTED).data)
    says = phone.locator(".says")
    assert says.is_hidden()
    assert "and no other" not in phone.locator(".live-figure").inner_text()
    phone.get_by_role("button", name="2.1", exact=True).press("Enter")
    assert "Right" not in phone.locator(".because").inner_text()
    assert (
        "Head 2.4 of model 1 has its numbers from the sentence with “er”"
        in says.inner_text()
    )
    assert "now writes “er”, not “sie”" in says.inner_text()
    for act in ("as it is", "mean"):
        phone.get_by_role("button", name=act).press("Enter")
    assert "The mean of head 2.4 of model 1" in says.inner_text()
    phone.get_by_role("button", name="transplant").press("Enter")
    node = phone.get_by_role("button", name="head 2.3")
    node.focus()
    phone.keyboard.press("Enter")
    assert "the model still writes “sie”" in says.inner_text()
    assert (
        phone.evaluate("document.activeElement.getAttribute('aria-label')")
        == "head 2.3"
    )
    phone.get_by_role("combobox", name="model").select_option("1")
    phone.get_by_role("combobox", name="from").select_option("4")
    assert "of model 3 has its numbers from the sentence with “es”" in says.inner_text()
    phone.get_by_role("button", name="Reset").press("Enter")


TURNED = stored_sweep("unit")


def test_a_unit_that_is_turned_up_changes_what_the_package_changes():
    states = [
        {"card": 0, "sentence": 0, "value": 4},  # "hat", 8: another tense
        {"card": 1, "sentence": 1, "value": 4},  # "zu", 8: another verb
        {"card": 0, "sentence": 2, "value": 0},  # off
        {"card": 2, "sentence": 3, "value": 5},  # the end, 10: nothing is left
        {"card": 9, "sentence": 4, "value": -1},  # as trained
        {"card": 10, "sentence": 6, "value": 0},  # off, and another word is written
    ]
    found = run_javascript(
        "return given.states.map((state) => unit.compute(state, given.data));",
        {"states": states, "data": TURNED},
        [SOURCES / "unit.js"],
    )
    translator = Translator.load("tatoeba_en_de_wide", device="cpu")
    first = translator.model.decoder.layers[-1].feed_forward.w_1
    for state, one in zip(states, found, strict=True):
        number = TURNED["cards"][state["card"]]["unit"]
        value = TURNED["values"][state["value"]] if state["value"] >= 0 else None

        def set_unit(_, given, output, number=number, value=value):
            if value is not None:
                output[..., number] = value

        trained = translator.translate(one["source"])
        hook = first.register_forward_hook(set_unit)
        text = translator.translate(one["source"])
        hook.remove()
        assert " ".join(word["word"] for word in one["words"]) == text
        assert one["isTrained"] == (text == trained)
        assert one["set"] == value
    changed = [True, True, False, True, False, True]
    assert [not one["isTrained"] for one in found] == changed
    # Of all units: at 8 and off; they were not all set to 10.
    assert [one["given"] for one in found] == [2, 1, None, None, None, 1]
    assert found[3]["words"] == []


def test_a_unit_answers_with_the_tokens_that_its_answer_raises():
    translator = Translator.load("tatoeba_en_de_wide", device="cpu")
    layer, vocabulary = translator.model.decoder.layers[-1], translator.tokenizer
    table = translator.model.decoder.embedding.weight.detach()
    norm, column = layer.after_feed_forward.norm, layer.feed_forward.w_2.weight.detach()
    for card in TURNED["cards"]:
        pushed = column[:, card["unit"]]
        both = torch.stack([pushed, -pushed])  # LayerNorm alone takes the scale away
        ends = torch.nn.functional.layer_norm(both, pushed.shape, norm.weight)
        rise = table @ (ends[0] - ends[1]) / 2 * pushed.std(correction=0)
        top = (rise - rise.mean()).topk(8)
        pieces = [
            piece.replace("▁", "") for piece in vocabulary.pieces(top[1].tolist())
        ]
        assert [piece for piece, _ in card["answers"]] == pieces
        stored = [rise for _, rise in card["answers"]]
        assert stored == pytest.approx(top[0].tolist(), abs=0.01)


def test_a_unit_that_is_off_changes_a_word_where_the_model_hesitates():
    *sure, unsure = TURNED["sentences"]
    assert not any(sentence["off"] for sentence in sure)
    assert not any(outputs[0] for sentence in sure for outputs in sentence["set"])
    assert [of for of in unsure["off"] if "euch" in of[1]] == [
        [379, "Guten Morgen! Wie geht es euch?"]
    ]
    for sentence in TURNED["sentences"]:
        assert len(sentence["set"]) == len(TURNED["cards"])
        assert sum(sentence["given"]) <= TURNED["units"]
    idle = [
        not any(any(sentence["set"][card]) for sentence in TURNED["sentences"])
        for card in range(len(TURNED["cards"]))
    ]
    assert sum(idle) == 1


def test_units_that_decide_a_token_are_found_by_teacher_forcing():
    translator = Translator.load("tatoeba_en_de_wide", device="cpu")
    pairs = [tuple(pair) for pair in TURNED["probes"][:1]]
    values, places = fired(translator, pairs)
    found, num_places = decided(translator, pairs, values)
    assert found == [(0, 379)]
    assert num_places == 1
    assert len(places) == len(values)


def test_a_unit_is_turned_by_keyboard_after_a_guess(phone):
    phone.set_content(live_figure("unit", TURNED).data)
    slider = phone.get_by_role("slider", name="value")
    assert slider.count() == 0  # hidden until the reader has guessed
    phone.get_by_role("button", name="It becomes nonsense").press("Enter")
    assert "No word changes" in phone.locator(".predict").inner_text()
    output, says = phone.locator(".output"), phone.locator(".says")
    assert output.inner_text().strip() == "Ich habe meine Schlüssel verloren."
    assert "Unit 260 is off: no word changes" in says.inner_text()
    phone.get_by_role("button", name="Reset").press("Enter")
    trained = output.inner_text()
    slider.focus()
    phone.keyboard.press("ArrowRight")
    assert "is off: no word changes" in says.inner_text()
    assert output.inner_text() == trained
    phone.keyboard.press("End")
    assert output.inner_text().strip() == "Der Hund hat den Mann gebissen."
    assert phone.locator("mark").all_inner_texts() == ["hat", "gebissen."]
    assert "one at a time" not in says.inner_text()
    phone.keyboard.press("ArrowLeft")
    assert "Of all 1024 units, set to 8 one at a time, 2 give it" in says.inner_text()
    phone.get_by_role("button", name="206: ").press("Enter")
    phone.get_by_role("combobox").select_option("1")
    assert "zuzumachen" in output.inner_text()
    assert "zustellen" in phone.locator("table").nth(1).inner_text()
    phone.get_by_role("button", name="617: ").press("Enter")
    slider.press("End")
    assert output.inner_text().strip() == ""
    assert "ends before" in phone.locator(".live-figure").inner_text()
    phone.get_by_role("button", name="379: ").press("Enter")
    phone.get_by_role("combobox").select_option("6")
    slider.press("Home")
    slider.press("ArrowRight")
    assert phone.locator("mark").all_inner_texts() == ["euch?"]
    assert "switched off one at a time, 1 gives it" in says.inner_text()
    phone.get_by_role("button", name="Reset").press("Enter")
    assert output.inner_text() == trained


CARDS = {
    "parameters": 70,
    "output": 0.5,
    "buckets": [20, 60, 200],
    "gpus": [{"name": "slow", "flops": 1e3, "source": "it is said"}] * 2,
    "links": [{"name": "thin", "bytes": 1.75, "source": "it is said"}] * 3,
}


def test_cards_wait_for_what_cannot_be_sent_early():
    shared = {"gpu": 0, "link": 0, "tokens": 8_000, "overlap": True, "bf16": False}
    states = [shared | {"cards": 8}, shared | {"cards": 1}]
    states += [shared | {"cards": 8, "overlap": False}]
    states += [shared | {"cards": 8, "bf16": True}]
    eight, one, late, half = run_javascript(
        "return given.states.map((state) => cards.compute(state, given.data));",
        {"states": states, "data": CARDS},
        [SOURCES / "cards.js"],
    )
    assert eight["alone"] == one["end"] == 6 * 70 * 8_000 / 1e3
    assert (one["speedUp"], one["send"]) == (1, 0)
    # A byte takes 2 · 7/8 / 1.75 = 1 second; each GPU computes 420, of which 140 are
    # the forward pass and 140 the output's backward pass. A quarter of the early bytes
    # is ready after a quarter of the other 140.
    assert [b["ready"] for b in eight["buckets"]] == pytest.approx([315, 420, 420])
    assert [b["end"] for b in eight["buckets"]] == pytest.approx([335, 480, 680])
    assert eight["speedUp"] == pytest.approx(3360 / 680)
    assert late["end"] == pytest.approx(420 + 280)
    assert eight["enough"] == pytest.approx(1e3)
    # In bf16, a bucket has half of the bytes.
    assert [b["end"] for b in half["buckets"]] == pytest.approx([325, 450, 550])
    assert half["enough"] == pytest.approx(500)


def test_cards_are_counted_by_keyboard_after_a_guess(phone):
    phone.set_content(live_figure("cards", CARDS).data)
    slider = phone.get_by_role("slider", name="GPUs")
    assert slider.count() == 0  # hidden until the reader has guessed
    phone.get_by_role("button", name="About 8 times").press("Enter")
    assert "Right" not in phone.locator(".because").inner_text()
    says = phone.locator(".says")
    assert says.inner_text().startswith("Computed: 8 GPUs are ")
    slider.press("Home")
    assert says.inner_text() == "One GPU has nothing to sum."
    assert "the link has nothing to sum" in phone.locator(".live-figure").inner_text()
    slider.press("End")
    before = says.inner_text()
    tokens = phone.get_by_role("slider", name="tokens")
    tokens.press("ArrowRight")
    tokens.press("ArrowRight")
    assert tokens.get_attribute("aria-valuetext") == "75,000"
    assert says.inner_text() != before
    in_fp32 = says.inner_text()
    phone.get_by_label("gradients in bf16").press("Space")
    assert says.inner_text() != in_fp32
    phone.get_by_label("send during").press("Space")
    phone.get_by_role("combobox", name="GPU").select_option("1")
    phone.get_by_role("combobox", name="link").select_option("0")
    phone.get_by_role("button", name="Reset").press("Enter")
    assert says.inner_text() == before
    assert "none is measured" in phone.locator(".live-figure").inner_text()


def triangle_data():
    """What 3.2.3 gives its live figure, for three rows."""
    reads, others = ["BOS", "Ich", "habe"], ["BOS", "Wir", "hatte"]
    masked = [[["Ich", 91, 0], ["habe", 58, 0], ["jemanden", 96, 0]]]
    masked += [[["Ich", 91, 0], ["haben", 70, 9.5], ["jemanden", 80, 4]]]
    masked += [[["Ich", 91, 0], ["habe", 58, 0], ["ein", 40, 7]]]
    full = [[[".", 82, 0], ["habe", 27, 0], [".", 35, 0]]]
    full += [[[".", 80, 1], ["haben", 30, 6], [".", 30, 2]]]
    full += [[[".", 80, 2], ["habe", 20, 3], ["ein", 30, 4]]]
    answers = ["Ich", "habe", "jemanden"]
    tables = [masked, full]
    return {"reads": reads, "answers": answers, "others": others, "tables": tables}


def test_a_changed_token_moves_the_rows_that_may_read_it():
    states = [{"masked": True, "changed": changed} for changed in (0, 1, 2)]
    states += [{"masked": False, "changed": changed} for changed in (0, 2)]
    found = run_javascript(
        "return given.states.map((state) => triangle.compute(state, given.data));",
        {"states": states, "data": triangle_data()},
        [SOURCES / "triangle.js"],
    )
    assert [one["right"] for one in found] == [3, 2, 2, 1, 1]
    assert [one["moved"] for one in found] == [[], [2, 3], [3], [], [1, 2, 3]]
    reads = [row["reads"] for row in found[2]["rows"]]
    assert reads == ["BOS", "Ich", "hatte"]


def test_the_triangle_is_taken_off_by_keyboard_after_a_guess(browser):
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.set_content(live_figure("triangle", triangle_data()).data)
    slider = page.get_by_role("slider", name="step")
    assert slider.count() == 0  # hidden until the reader has guessed
    page.get_by_role("button", name="Tell me").press("Enter")
    says = page.locator(".says")
    assert "Step 3 sends 1 query to 3 keys and writes “jemanden”" in says.inner_text()
    slider.focus()
    page.keyboard.press("Home")
    assert "Step 1 sends 1 query to 1 key and writes “Ich”" in says.inner_text()
    assert page.locator(".hidden-key").count() == 3
    page.get_by_role("combobox").select_option("2")
    assert "moves row 3." in says.inner_text()
    page.get_by_role("checkbox").press("Space")
    assert page.locator(".hidden-key").count() == 0
    assert "moves all rows" in says.inner_text()
    assert "no step of writing can do that" in says.inner_text()
    slider.press("End")
    assert "step 3 has as many, but here the earlier rows" in says.inner_text()
    page.get_by_role("combobox").select_option("0")
    assert "Of 3 rows, 1 is right" in says.inner_text()
    page.get_by_role("button", name="Reset").press("Enter")
    assert "Of 3 rows, 3 are right" in says.inner_text()
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) == 0
    page.close()


def test_perplexity_and_right_tokens_are_counted_apart():
    rights = [[0.99, 0.99, 0.99, 0.3], [0.6] * 4, [0.95] * 3 + [0.004], [0.45] * 4]
    found = run_javascript(
        "return given.map((right) => perplexity.compute(right));",
        rights,
        [SOURCES / "perplexity.js"],
    )
    for one, right in zip(found, rights, strict=True):
        mean = -torch.tensor(right).double().log().mean()
        assert one["perplexity"] == pytest.approx(mean.exp().item())
    assert [one["correct"] for one in found] == [3, 4, 3, 0]
    assert found[2]["perplexity"] > found[3]["perplexity"]


def test_probabilities_are_moved_by_keyboard_after_a_guess(phone):
    phone.set_content(live_figure("perplexity", {}).data)
    figure = phone.locator(".live-figure")
    assert "0.30 wrong" in figure.inner_text()  # both models are seen
    assert phone.get_by_role("slider").first.is_disabled()
    assert "perplexity 1.36" not in figure.inner_text()
    phone.get_by_role("button", name="the unsure model").press("Enter")
    assert "Right" not in phone.locator(".because").inner_text()
    parts, says = phone.locator(".views > div"), phone.locator(".says")
    assert "perplexity 1.36, 3 of 4 right" in parts.first.inner_text()
    assert (
        "unsure model is right at 1 more token and has the worse" in says.inner_text()
    )
    parts.first.get_by_role("slider", name="token 4").press("Home")
    assert "perplexity 3.19, 3 of 4 right" in parts.first.inner_text()
    assert "has the better perplexity, too" in says.inner_text()
    for token in range(1, 5):
        parts.last.get_by_role("slider", name=f"token {token}").fill("0.5")
    assert "perplexity 2.00, 0 of 4 right" in parts.last.inner_text()
    assert "sure model is right at 3 more tokens and has the worse" in says.inner_text()
    parts.last.get_by_role("slider", name="token 1").press("End")
    phone.get_by_role("button", name="Reset").press("Enter")
    assert "perplexity 1.36, 3 of 4 right" in parts.first.inner_text()


def batch_data():
    """What 5.1 gives its live figure, for four pairs of other lengths."""
    lengths = [(2, 3), (7, 11), (4, 7), (7, 12)]
    pairs = [[[*range(3, 3 + m)], [*range(20, 20 + n)]] for m, n in lengths]
    pieces = ["PAD", "BOS", "EOS", *(f"p{number}" for number in range(3, 40))]
    orders = [[[0, 1], [2, 3]], [[0, 2], [1, 3]]]
    return {"pairs": pairs, "orders": orders, "pieces": pieces}


def test_a_batch_is_filled_and_shifted_as_the_package_does_it():
    data = batch_data()
    states = [
        {"sorted": is_sorted, "batch": 0, "row": 0, "column": 11}
        for is_sorted in (False, True)
    ]
    found = run_javascript(
        "return given.states.map((state) => batch.compute(state, given.data));",
        {"states": states, "data": data},
        [SOURCES / "batch.js"],
    )
    for one, order in zip(found, data["orders"], strict=True):
        for drawn, numbers in zip(one["batches"], order, strict=True):
            sides = ([data["pairs"][n][i] for n in numbers] for i in (0, 1))
            right = Batch.from_ids(*sides)
            assert drawn["source"] == right.src_ids.tolist()
            assert drawn["input"] == right.tgt_input.tolist()
            assert drawn["labels"] == right.labels.tolist()
        assert one["counted"] == 37
    assert [(one["cells"], one["padding"]) for one in found] == [(82, 21), (68, 7)]
    assert [one["place"] for one in found] == [
        11,
        7,
    ]  # the last column, if there is none
    assert found[0]["label"] == 0


def test_labels_of_a_batch_are_touched_by_keyboard_after_a_guess(phone):
    phone.set_content(live_figure("batch", batch_data()).data)
    label = phone.get_by_role("button", name="row 1, label 4: EOS, 2", exact=True)
    assert label.count() == 0  # hidden until the reader has guessed
    phone.get_by_role("button", name="82").press("Enter")
    assert "Right" not in phone.locator(".because").inner_text()
    says = phone.locator(".says")
    assert "the whole source and BOS p20. Its label is p21" in says.inner_text()
    label.first.press("Enter")
    assert "BOS p20 p21 p22. Its label is EOS: this loss" in says.inner_text()
    assert label.first.get_attribute("aria-pressed") == "true"
    assert phone.locator("[aria-pressed=true]").count() == 1
    empty = phone.get_by_role("button", name="row 1, label 12: PAD, 0", exact=True)
    empty.first.press("Enter")
    assert "Its label is PAD: no loss. Of 82 cells, 21 are PAD" in says.inner_text()
    phone.get_by_label("by length").press("Space")
    assert "Of 68 cells, 7 are PAD, and 37 have a loss" in says.inner_text()
    phone.get_by_role("button", name="Reset").press("Enter")
    assert "Of 82 cells" in says.inner_text()
    small = label.first.bounding_box()
    assert small["height"] >= 28
    assert small["width"] >= 22


BROKEN = {
    "sentences": [
        {
            "source": "today a dog sleeps .",
            **dict.fromkeys(
                ("right", "one", "attention", "transformer"), "heute schläft ein hund ."
            ),
            "gloss": "today a dog sleeps .",
        },
        {
            "source": "the king picks up my small coat .",
            "right": "der könig hebt meinen kleinen mantel auf .",
            "one": "der könig hebt meinen alten schlüssel auf .",
            "attention": "der könig hebt meinen kleinen mantel auf .",
            "transformer": "der könig hebt meinen großen mantel auf .",
            "gloss": "the king picks up my old key .",
        },
    ]
}


def test_a_sentence_breaks_where_its_translation_is_wrong():
    first, second = run_javascript(
        "return [0, 1].map((sentence) => breaks.compute({ sentence }, given));",
        BROKEN,
        [SOURCES / "breaks.js"],
    )
    parts = ("one", "gloss", "attention", "transformer")
    assert (first["length"], second["length"]) == (5, 8)
    assert not any(word["isNew"] for part in parts for word in first[part])
    new = [[w["word"] for w in second[part] if w["isNew"]] for part in parts]
    assert new == [["alten", "schlüssel"], ["old", "key"], [], ["großen"]]


def test_a_sentence_is_chosen_by_keyboard_after_a_guess(phone):
    phone.set_content(live_figure("breaks", BROKEN).data)
    slider = phone.get_by_role("slider", name="sentence")
    assert slider.count() == 0  # hidden until the reader has guessed
    phone.get_by_role("button", name="which things are meant").press("Enter")
    assert "Right. " in phone.locator(".because").inner_text()
    says = phone.locator(".says")
    assert "of 5 tokens: 0 with one vector, 0 with attention, 0" in says.inner_text()
    slider.focus()
    phone.keyboard.press("End")
    assert "of 8 tokens: 2 with one vector, 0 with attention, 1" in says.inner_text()
    marked = phone.locator("mark").all_inner_texts()
    assert marked == ["alten", "schlüssel", "old", "key", "großen"]
    phone.get_by_role("button", name="Reset").press("Enter")
    assert phone.locator("mark").count() == 0


def bets_data():
    """What 6.2 gives its live figure, for three rows."""
    ends = {"C5": -0.15, "C2": 0.0, "D1": 0.48}
    starts = {"C5": -0.14, "C2": -0.12, "D1": -0.16}
    rows = [
        {"name": row, "label": f"row {row}", "logs": [starts[row]] * 14 + [end]}
        for row, end in ends.items()
    ]
    steps = [*range(500, 7501, 500)]
    return {"steps": steps, "luck": [0.02] * 15, "bets": ["C5", "C2"], "rows": rows}


def test_bets_are_right_or_wrong_by_the_step():
    states = [{"at": at, "bets": {"C5": -1, "C2": 0}} for at in (0, 14)]
    first, last = run_javascript(
        "return given.states.map((state) => bets.compute(state, given.data));",
        {"states": states, "data": bets_data()},
        [SOURCES / "bets.js"],
    )
    assert [row["name"] for row in first["rows"]] == ["D1", "C5", "C2"]
    assert [row["name"] for row in last["rows"]] == ["C5", "C2", "D1"]
    assert [row["verdict"] for row in last["rows"]] == [-1, 0, 1]
    assert (first["right"], last["right"], last["made"]) == (1, 2, 2)
    assert last["rows"][2]["percent"] == pytest.approx(100 * math.expm1(0.48))


def test_bets_are_placed_by_keyboard_before_the_results(phone):
    phone.set_content(live_figure("bets", bets_data()).data)
    slider = phone.get_by_role("slider", name="step")
    assert slider.count() == 0  # hidden until the reader has bet
    group = phone.get_by_role("group", name="row C2")
    group.get_by_role("button", name="same").press("Enter")
    phone.get_by_role("button", name="Show the results").press("Enter")
    says = phone.locator(".says")
    assert "At step 7,500, “row C5” is best (\N{MINUS SIGN}14" in says.inner_text()
    assert "1 of your 1 bets is right" in says.inner_text()
    assert phone.locator("tbody tr, table tr").first.inner_text().startswith("row C5")
    slider.focus()
    phone.keyboard.press("Home")
    assert slider.get_attribute("aria-valuetext") == "500"
    assert "“row D1” is best" in says.inner_text()
    assert "0 of your 1 bets are right" in says.inner_text()
    assert "✗" in phone.locator("table").inner_text()
    phone.get_by_role("button", name="Reset").press("Enter")
    assert "your" not in says.inner_text()


PAIRS = {
    "layers": [{"name": "the paper’s", "factor": 6}, {"name": "Llama 3", "factor": 13}],
    "models": [
        {"name": "the paper", "layer": 0, "d": 512, "n": 27},
        {"name": "Llama 3.1 8B", "layer": 1, "d": 4096, "n": 131072},
    ],
}


@pytest.mark.parametrize("n", [27, 512, 3072])
def test_the_pairs_take_the_share_that_pytorch_counts(n):
    layer = EncoderLayer(ModelConfig(attention="explicit")).to("meta")
    x, mask = torch.empty(1, n, 512), torch.ones(1, 1, 1, n, dtype=torch.bool)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        layer(x.to("meta"), mask.to("meta"))
    rest = 2 * n * sum(p.numel() for p in layer.parameters() if p.dim() > 1)
    share = 1 - rest / counter.get_total_flops()
    found = run_javascript(
        "return pairs.compute(given.state, given.data);",
        {"state": {"layer": 0, "d": 512, "n": n}, "data": PAIRS},
        [SOURCES / "pairs.js"],
    )
    assert found["share"] == pytest.approx(share)
    assert found["half"] == 3072
    assert found["curve"][0] == pytest.approx([8, 8 / 3080])


def test_tokens_and_width_are_moved_by_keyboard_after_a_guess(phone):
    phone.set_content(live_figure("pairs", PAIRS).data)
    slider = phone.get_by_role("slider", name="tokens n")
    assert slider.count() == 0  # hidden until the reader has guessed
    phone.get_by_role("button", name="512 tokens: n = d").press("Enter")
    assert "Right" not in phone.locator(".because").inner_text()
    says = phone.locator(".says")
    assert "With 512 tokens and d = 512, the pairs take 14" in says.inner_text()
    assert "half at n = 6d = 3,072" in says.inner_text()
    phone.get_by_role("button", name="Llama 3.1 8B: n = 131,072").press("Enter")
    assert "take 71" in says.inner_text()
    assert phone.locator("[aria-pressed=true]").count() == 1
    phone.get_by_role("slider", name="width d").press("End")
    assert "d = 16,384" in says.inner_text()
    phone.get_by_role("combobox").select_option("0")
    slider.press("Home")
    assert "With 8 tokens" in says.inner_text()
    phone.get_by_role("button", name="the paper: n = 27").press("Enter")
    assert "take 0.87" in says.inner_text()
    phone.get_by_role("button", name="Reset").press("Enter")
    assert "With 512 tokens" in says.inner_text()


PRINTED = [65, 58, 60, 36, 50, 80, 28, 168, 53, 90, 213]


def printed_rows():
    """The rows of Table 3 whose parameter counts the paper prints, as 3 gives them."""
    names, rows = ["base", "B1", "B2", *(f"C{i}" for i in range(1, 8)), "big"], []
    for name in names:
        with torch.device("meta"):
            count = Transformer(TABLE_3[name]).num_parameters()
        width = TABLE_3[name].d_model
        fixed = count - width * TABLE_3[name].vocab_size
        rows.append({"name": name, "fixed": fixed, "width": width})
    for row, printed in zip(rows, PRINTED, strict=True):
        row["printed"] = printed
    return {"rows": rows}


def test_no_vocabulary_lights_all_rows_and_one_range_lights_ten():
    places = [*range(33_000, 45_001, 4)]
    found = run_javascript(
        "return given.places.map((vocabulary) => "
        "lamps.compute({ vocabulary }, given.data).lit);",
        {"places": places, "data": printed_rows()},
        [SOURCES / "lamps.js"],
    )
    lit = dict(zip(places, found, strict=True))
    assert lit[37_000] == 0
    assert max(found) == 10
    ten = [place for place, count in lit.items() if count == 10]
    assert (ten[0], ten[-1]) == (41_004, 41_208)


def test_the_vocabulary_is_moved_by_keyboard_after_a_guess(phone):
    phone.set_content(live_figure("lamps", printed_rows()).data)
    slider = phone.get_by_role("slider", name="vocabulary")
    assert slider.count() == 0  # hidden until the reader has guessed
    phone.get_by_role("button", name="Most of them").press("Enter")
    assert "Right" not in phone.locator(".because").inner_text()
    says = phone.locator(".says")
    assert "With 37,000 tokens, 0 of 11 counts are as printed." in says.inner_text()
    slider.focus()
    for _ in range(41):
        phone.keyboard.press("ArrowRight")
    assert "With 41,100 tokens, 10 of 11" in says.inner_text()
    assert "not big" in says.inner_text()
    assert phone.get_by_role("cell", name="yes").count() == 10
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert phone.evaluate(wide) == 0  # also where rows are lit
    phone.get_by_role("button", name="Reset").press("Enter")
    assert "With 37,000 tokens" in says.inner_text()


HOUSE = "Ein kleines Haus steht im Wald."
TRANSLATED = [
    ("Im Wald steht ein kleines Haus.", "In the forest stands a small house"),
    ("Ein kleines Haus steht steht.", "A small house stands stands"),
    ("Kein kleines Haus steht im Wald.", "No small house stands in the forest"),
]
PRESETS = {
    "reference": HOUSE,
    "meaning": "A small house stands in the forest.",
    "presets": [
        {"text": text, "english": english, "title": f"{i}"}
        for i, (text, english) in enumerate(TRANSLATED, start=1)
    ],
}


def test_bleu_while_one_writes_is_that_of_sacrebleu():
    texts = [
        HOUSE,
        "",
        ".",
        "Wald",
        "ein",
        "Haus Haus",
        *(text for text, _ in TRANSLATED),
    ]
    texts += [
        "im T-Shirt, 3-mal",
        "3.5 und 1,000 a.b",
        "&quot;Ja&quot; &lt; &amp;",
        "5,",
    ]
    texts += [
        "a b c d e a b c d",
        "b c d e f",
        "„Ja“ – ‘so’ …",
        "x_y @ [z] {w} ~ `v`",
        "-",
    ]
    pairs = [*product(texts, texts)]
    found = run_javascript(
        "return given.map(([translation, reference]) => "
        "({words: bleu.cut(translation), ...bleu.compute({translation, reference})}));",
        pairs,
        [SOURCES / "bleu.js"],
    )
    cut, smooth, formula = Tokenizer13a(), BLEU(), BLEU(smooth_method="none")
    for (translation, reference), one in zip(pairs, found, strict=True):
        assert one["words"] == cut(translation).split()
        theirs = smooth.corpus_score([translation], [[reference]])
        assert one["sacrebleu"] == pytest.approx(theirs.score, abs=1e-6)
        exact = formula.corpus_score([translation], [[reference]]).score
        assert one["formula"] == pytest.approx(exact, abs=1e-6)
        assert [len(row["right"]) for row in one["rows"]] == theirs.counts
        assert [row["total"] for row in one["rows"]] == theirs.totals


def test_bleu_is_written_by_keyboard_after_a_guess(phone):
    phone.set_content(live_figure("bleu", PRESETS).data)
    box = phone.get_by_role("textbox", name="translation")
    assert box.count() == 0  # hidden until the reader has guessed
    phone.get_by_role("button", name=TRANSLATED[0][0]).press("Enter")
    assert "In this order: 0.0, 45.5, 80.9." in phone.locator(".because").inner_text()
    assert "Right" not in phone.locator(".because").inner_text()
    says = phone.locator(".says")
    assert says.inner_text().startswith("BLEU 0.0")
    assert "smooths zeros" in says.inner_text()
    box.fill(HOUSE)
    assert says.inner_text() == "BLEU 100.0, with a brevity penalty of 1.000."
    box.press("End")
    box.press("Backspace")
    assert "Ein kleines Haus steht" in phone.locator("table").inner_text()
    assert says.inner_text().startswith("BLEU 84.6, with a brevity penalty of 0.846.")
    phone.get_by_role("textbox", name="reference").fill("Wald")
    phone.get_by_role("button", name="3", exact=True).press("Enter")
    assert says.inner_text().startswith("BLEU 80.9")
    box.fill("")
    assert says.inner_text() == "BLEU 0.0, with a brevity penalty of 0.000."
    phone.get_by_role("button", name="Reset").press("Enter")
    assert box.input_value() == TRANSLATED[0][0]


@pytest.mark.parametrize(
    ("old", "now", "new"),
    [
        ("a b c", "a b c", ""),
        ("a b c", "a x c", "x"),
        ("a b c", "b c d", "d"),
        ("a b a", "a c a", "c"),
        ("a", "x y", "x y"),
        ("", "x", "x"),
    ],
)
def test_words_that_changed_are_those_of_no_common_part(old, now, new):
    found = run_javascript(
        "return words.changedWords(given[0], given[1]);",
        [old.split(), now.split()],
        [PAGE_SOURCES / "words.js"],
    )
    assert [word["word"] for word in found] == now.split()
    assert [word["word"] for word in found if word["isNew"]] == new.split()


def test_the_residual_fades_by_keyboard_after_a_guess(phone):
    phone.set_content(live_figure("residual", FADED).data)
    slider = phone.get_by_role("slider", name="r")
    assert slider.count() == 0  # hidden until the reader has guessed
    phone.get_by_role("button", name="Tell me").press("Enter")
    assert phone.locator("mark").count() == 0
    slider.focus()
    phone.keyboard.press("Home")
    assert phone.locator(".output").inner_text().strip() == "Auf einer Mauer."
    assert "On a wall" in phone.locator(".live-figure").inner_text()
    assert phone.locator("mark").count() == 3
    phone.get_by_role("combobox").select_option("1")
    phone.get_by_role("button", name="Reset").press("Enter")
    assert "roten Ball" in phone.locator(".output").inner_text()


@pytest.mark.parametrize("name", [*MODULES])
def test_a_figure_loads_nothing_and_is_hidden_without_scripts(name):
    text = live_figure(name, {"</script>": "<b>"}).data
    assert text.startswith(
        f'<div class="own-theme live-figure" data-name="{name}" hidden>'
    )
    assert text.count("</script>") == 2
    text = text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|@import|url\(|\bsrc=|fetch\(|\bimport\b", text)
    style = re.sub(r"/\*.*?\*/", "", re.search(r"<style>(.*?)</style>", text, re.S)[1])
    for selectors in re.findall(
        r"([^{}]+)\{", re.sub(r"/\*.*?\*/", "", style, flags=re.S)
    ):
        for selector in selectors.split(",\n"):
            assert ".live-figure" in selector or selector.strip()[0] == "@"


def test_an_unknown_figure_is_refused():
    with pytest.raises(ValueError, match='no live figure "clock"; take one of query'):
        live_figure("clock", {})


@pytest.fixture
def page(browser):
    """A tab with the figure below its still picture; errors make the test fail."""
    tab = browser.new_page(viewport={"width": 390, "height": 900}, has_touch=True)
    errors = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.set_content(
        f'<!doctype html><img id="other" src="{PICTURE}" width="9"><figure>'
        f'<img id="still" src="{PICTURE}">{live_figure("query", DATA).data}</figure>'
    )
    yield tab
    tab.close()
    assert not errors


def says(page):
    return page.locator(".says").first.inner_text()


def test_the_still_picture_makes_room_for_the_figure(page):
    assert page.locator("#still").is_hidden()
    assert page.locator("#other").is_visible()
    assert page.locator(".live-figure").is_visible()
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) == 0


def test_every_control_obeys_the_keyboard(page):
    assert "73.11" in says(page)
    for name, key, share in [
        ("q₁", "End", "99.999"),  # (12, 0, 1, 0)
        ("q₁", "Home", "0.001"),
    ]:
        page.get_by_label(name).focus()
        page.keyboard.press(key)
        assert f"{share}\N{NO-BREAK SPACE}% “cold”" in says(page)
    page.get_by_role("button", name="Reset").press("Enter")
    assert "73.11" in says(page)
    page.get_by_label("divide by").first.press("Space")
    assert "88.08" in says(page)  # 4 and 2, not divided
    keys = page.locator("text.key")
    assert keys.all_text_contents() == ["key of cold", "key of tea"]
    page.get_by_label("add “hot”").press("Space")
    assert keys.first.text_content() == "key of cold and hot"
    assert says(page).count("46.83") == 2  # equal keys, equal weights
    wider = page.locator(".says").nth(1)
    assert "With 64 components, divided" in wider.inner_text()
    slider = page.get_by_role("slider", name="dₖ")
    assert slider.count() == 0  # hidden until the reader has guessed
    page.get_by_role("button", name="About 60 %").press("Enter")
    page.get_by_label("here, too").press("Space")
    assert "With 64 components, not divided" in wider.inner_text()
    mean = "over 2 queries, the largest of ten weights is 37\N{NO-BREAK SPACE}%"
    assert mean in wider.inner_text()  # 63 % and 10 %
    slider.press("ArrowLeft")
    assert "With 16 components" in wider.inner_text()


def test_the_tip_is_dragged_by_the_pointer(page):
    handle = page.locator(".handle").bounding_box()
    x, y = handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 60)
    assert float(re.search(r"[\d.]+", says(page))[0]) > 95
    page.mouse.up()
    page.mouse.move(x, y)
    assert float(re.search(r"[\d.]+", says(page))[0]) > 95


def test_nothing_is_told_before_a_guess_and_tasks_follow_each_other(page):
    tasks = page.locator(".tasks")
    assert "e²⁰" not in tasks.inner_text()
    assert "Try:" not in tasks.inner_text()
    page.get_by_role("button", name="It becomes about 99.995 %").press("Enter")
    assert "Right. " in tasks.inner_text()
    assert "e²⁰" in tasks.inner_text()
    assert "three times as long" in tasks.inner_text()
    for number in range(4):  # (5, 8, 9, 4): 30 more on both dot products
        page.get_by_label(f"q{'₁₂₃₄'[number]}").fill(str([6, 4, 6, 2][number]))
    assert "✓" in tasks.inner_text()
