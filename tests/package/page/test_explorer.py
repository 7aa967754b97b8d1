"""The explorer shows what it is given, loads nothing, and refuses nonsense."""

import json
import re

import pytest
import torch

from transformer_lite_book.plots import AttentionMap, Start, attention_explorer

QUERIES, KEYS = ["der", "Hund"], ["the", "dog", "."]
# 2 layers, 5 heads, 2 queries, 3 keys
WEIGHTS = torch.rand(2, 5, 2, 3, generator=torch.Generator().manual_seed(0)).softmax(-1)
MAP = AttentionMap(WEIGHTS, QUERIES, KEYS)
TEXT = attention_explorer({"m": MAP}).data


def data(shown):
    """What the script reads."""
    pattern = r'<script type="application/json" class="attention-data">(.*?)</script>'
    return json.loads(re.search(pattern, shown.data, re.S)[1])


def test_every_weight_is_there_in_percent():
    read = data(attention_explorer({"cross": MAP}, Start(1, 4, query=1)))
    assert read["start"] == {"map": 0, "layer": 1, "head": 4, "query": 1}
    (shown,) = read["maps"]
    percent = torch.tensor(shown["weights"]).view(2, 5, 2, 3)
    assert (percent - 100 * WEIGHTS).abs().max() <= 0.5 + 1e-4
    assert (shown["name"], shown["queries"], shown["keys"]) == ("cross", QUERIES, KEYS)


def test_maps_keep_their_order_and_may_differ_in_size():
    other = AttentionMap(torch.full((3, 1, 1, 7), 1 / 7), ["a"], list("tuvwxyz"))
    shown = data(attention_explorer({"z": MAP, "a": other}))["maps"]
    assert [one["name"] for one in shown] == ["z", "a"]
    assert shown[1]["weights"] == [[[14] * 7]] * 3


def test_nothing_is_loaded_and_without_scripts_a_sentence_stands_there():
    text = TEXT.replace("http://www.w3.org/2000/svg", "")
    loads = r"https?:|//\w+\.\w|@import|url\(|\bsrc=|fetch\(|import\("
    assert not re.search(loads, text)
    assert '<p class="fallback">An interactive map' in text


@pytest.mark.parametrize(
    "word", ['"', "&amp;", "שלום", "고양이", "", "x" * 60, "</script>", "<b>"]
)
def test_words_of_any_kind_arrive_as_they_are(word):
    shown = attention_explorer(
        {word: AttentionMap(torch.ones(1, 1, 1, 1), [word], [word])}
    )
    (one,) = data(shown)["maps"]
    assert (one["name"], one["queries"], one["keys"]) == (word, [word], [word])
    assert shown.data.count("</script>") == 2


def test_a_style_reaches_nothing_outside_the_explorer():
    style = re.search(r"<style>(.*?)</style>", TEXT, re.S)[1]
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.S)
    for selectors in re.findall(r"([^{}]+)\{", style):
        for selector in selectors.split(",\n"):
            assert ".attention-explorer" in selector or selector.strip()[0] == "@"


def with_weight(value):
    weights = WEIGHTS.clone()
    weights[1, 3, 1, 0] = value
    return weights


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (with_weight(float("nan")), "'Hund' in layer 1, head 3 sum to nan"),
        (with_weight(-0.25), r"smallest is -0\.250; give"),
        (with_weight(5.0), r"'Hund' in layer 1, head 3 sum to 5\.\d+,"),
        (WEIGHTS.mT.softmax(-1), "2 queries and 3 keys do not fit"),
        (WEIGHTS[0], r"weights of shape \(5, 2, 3\); .*layers and heads"),
        (WEIGHTS[:0], r"weights of shape \(0, 5, 2, 3\)"),
    ],
)
def test_what_is_no_share_of_attention_is_refused(weights, message):
    with pytest.raises(ValueError, match=f"^cross: .*{message}"):
        attention_explorer({"cross": AttentionMap(weights, QUERIES, KEYS)})


@pytest.mark.parametrize(
    ("maps", "start", "message"),
    [
        ({"m": MAP}, Start(layer=2), "no layer 2; the first map has 2"),
        ({"m": MAP}, Start(head=5), "no head 5"),
        ({"m": MAP}, Start(query=-1), "no query -1"),
        ({}, Start(), "no map to explore"),
    ],
)
def test_a_start_that_is_not_there_is_refused(maps, start, message):
    with pytest.raises(ValueError, match=message):
        attention_explorer(maps, start)
