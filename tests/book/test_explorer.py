"""The explorer shows what it is given, loads nothing, and refuses nonsense."""

import json
import re

import pytest
import torch

from transformer_lite.book.explorer import (
    DARK_PAGES,
    LIGHT_PAGES,
    AttentionMap,
    Start,
    attention_explorer,
)

QUERIES, KEYS = ["der", "Hund"], ["the", "dog", "."]
# 2 layers, 5 heads, 2 queries, 3 keys
WEIGHTS = torch.rand(2, 5, 2, 3, generator=torch.Generator().manual_seed(0)).softmax(-1)
MAP = AttentionMap(WEIGHTS, QUERIES, KEYS)


def data(shown):
    """What the script reads."""
    pattern = r'<script type="application/json" class="attention-data">(.*?)</script>'
    return json.loads(re.search(pattern, shown.data, re.S)[1])


def test_every_weight_is_there_in_percent():
    (shown,) = data(attention_explorer({"cross": MAP}))["maps"]
    percent = torch.tensor(shown["weights"]).view(2, 5, 2, 3)
    assert (percent - 100 * WEIGHTS).abs().max() <= 0.5 + 1e-4
    assert (shown["name"], shown["queries"], shown["keys"]) == ("cross", QUERIES, KEYS)


def test_maps_keep_their_order_and_may_differ_in_size():
    other = AttentionMap(
        torch.full((3, 1, 7, 7), 1 / 7), list("abcdefg"), list("tuvwxyz")
    )
    shown = data(attention_explorer({"z": MAP, "a": other}))["maps"]
    assert [one["name"] for one in shown] == ["z", "a"]
    assert len(shown[1]["weights"]) == 3
    assert len(shown[1]["weights"][0][0]) == 49


def test_it_starts_where_it_is_told():
    start = data(attention_explorer({"m": MAP}, Start(1, 4, query=1)))["start"]
    assert start == {"map": 0, "layer": 1, "head": 4, "query": 1}


def test_it_starts_with_the_first_head_and_all_words():
    start = data(attention_explorer({"m": MAP}))["start"]
    assert start == {"map": 0, "layer": 0, "head": 0, "query": None}


def test_the_same_weights_give_the_same_text():
    assert attention_explorer({"m": MAP}).data == attention_explorer({"m": MAP}).data


def test_nothing_is_loaded_from_anywhere():
    text = attention_explorer({"m": MAP}).data.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(
        r"https?:|//\w+\.\w|@import|url\(|\bsrc=|fetch\(|import\(", text
    )


def test_without_scripts_a_sentence_stands_there():
    text = attention_explorer({"m": MAP}).data
    assert '<p class="fallback">An interactive map' in text


def test_a_word_cannot_end_the_script():
    weights = torch.ones(1, 1, 1, 1)
    shown = attention_explorer({"m": AttentionMap(weights, ["</script>"], ["<b>"])})
    assert data(shown)["maps"][0]["queries"] == ["</script>"]
    assert shown.data.count("</script>") == 2


@pytest.mark.parametrize("word", ['"', "&amp;", "שלום", "고양이", "", "x" * 60])
def test_words_of_any_kind_arrive_as_they_are(word):
    weights = torch.ones(1, 1, 1, 1)
    shown = attention_explorer({word: AttentionMap(weights, [word], [word])})
    (one,) = data(shown)["maps"]
    assert (one["name"], one["queries"], one["keys"]) == (word, [word], [word])


def test_a_word_of_another_direction_turns_nothing_around():
    text = attention_explorer({"m": MAP}).data
    assert text.count('dir: "auto"') == 2  # queries and keys
    assert text.count("apart(map.") == 2  # and both in the sentence below


def test_a_long_word_is_cut_off_and_pushes_nothing_aside():
    words = re.search(
        r"\.attention-explorer \.words \{(.*?)\}",
        attention_explorer({"m": MAP}).data,
        re.S,
    )[1]
    assert "min-width: 0" in words


def test_a_chosen_word_shows_every_line_and_no_lines_are_explained():
    text = attention_explorer({"m": MAP}).data
    assert "query === null ? weight < SMALLEST : from !== query || !weight" in text
    assert "no weight reaches ${SMALLEST} %" in text


def test_both_modes_have_all_colours_and_pages_can_choose():
    text = attention_explorer({"m": MAP}).data
    names = set(re.findall(r"(--\w+):", text))
    for name in names:
        assert text.count(f"{name}:") == 4, name  # by default, system, light, dark
    used = set(re.findall(r"var\((--\w+)\)", text))
    assert used <= names
    assert all(page in text for page in DARK_PAGES + LIGHT_PAGES)
    assert "prefers-color-scheme: dark" in text


def test_every_rule_of_the_style_is_its_own():
    style = re.search(
        r"<style>(.*?)</style>", attention_explorer({"m": MAP}).data, re.S
    )[1]
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.S)
    for selectors in re.findall(r"([^{}]+)\{", style):
        for selector in selectors.split(",\n"):
            assert ".attention-explorer" in selector or selector.strip()[0] == "@"


@pytest.mark.parametrize("role", ["radiogroup", "radio", "listbox", "option"])
def test_parts_say_what_they_are(role):
    assert f'role: "{role}"' in attention_explorer({"m": MAP}).data


@pytest.mark.parametrize("key", ["ArrowLeft", "ArrowDown", "Home", "End", "Escape"])
def test_keys_are_listened_to(key):
    assert key in attention_explorer({"m": MAP}).data


def test_weights_with_a_gradient_or_in_half_precision_are_shown():
    weights = WEIGHTS.bfloat16().float().requires_grad_()
    weights = weights / weights.sum(-1, keepdim=True)
    assert data(attention_explorer({"m": AttentionMap(weights, QUERIES, KEYS)}))


@pytest.mark.parametrize("factor", [2.0, 0.5, 1.01])
def test_rows_that_do_not_sum_to_one_are_refused(factor):
    weights = WEIGHTS.clone()
    weights[1, 3, 1] *= factor
    message = rf"^cross: .*'Hund' in layer 1, head 3 sum to {factor:.3f} and not to 1"
    with pytest.raises(ValueError, match=message):
        attention_explorer({"cross": AttentionMap(weights, QUERIES, KEYS)})


@pytest.mark.parametrize("value", [float("nan"), -0.25])
def test_what_is_no_share_is_refused(value):
    weights = WEIGHTS.clone()
    weights[0, 0, 0, 0] = value
    with pytest.raises(ValueError, match="negative or no numbers"):
        attention_explorer({"m": AttentionMap(weights, QUERIES, KEYS)})


def test_transposed_weights_are_refused():
    with pytest.raises(ValueError, match="2 query words and 3 key words do not fit"):
        attention_explorer({"m": AttentionMap(WEIGHTS.mT.softmax(-1), QUERIES, KEYS)})


@pytest.mark.parametrize("shape", [(5, 2, 3), (1, 2, 5, 2, 3), (0, 5, 2, 3)])
def test_weights_of_another_rank_are_refused(shape):
    shown = AttentionMap(torch.full(shape, 1 / 3), QUERIES, KEYS)
    with pytest.raises(ValueError, match=r"m: weights of shape .*layers, heads"):
        attention_explorer({"m": shown})


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (Start(layer=2), "no layer 2; the first map has 2"),
        (Start(head=5), "no head 5"),
        (Start(query=2), "no query 2"),
        (Start(query=-1), "no query -1"),
    ],
)
def test_a_start_that_is_not_there_is_refused(start, message):
    with pytest.raises(ValueError, match=message):
        attention_explorer({"m": MAP}, start)


def test_no_map_is_refused():
    with pytest.raises(ValueError, match="no map"):
        attention_explorer({})
