"""Figures show what they are given, and refuse what cannot be shown."""

import ast
import os
import re
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.colors import to_rgb
from matplotlib.text import Text
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from torch import nn
from torch.nn import functional as F

from transformer_lite import attention, layers
from transformer_lite_book import plots
from transformer_lite_book.plots import (
    attention_heatmap,
    attention_lines,
    show_source,
    torch_calls,
    use_book_style,
)

QUERIES, KEYS = ["der", "Hund"], ["the", "dog", "."]
WEIGHTS = torch.tensor([[0.75, 0.25, 0.0], [0.125, 0.75, 0.125]])


@pytest.fixture(autouse=True)
def clean_figures():
    plt.switch_backend("agg")
    with plt.rc_context():
        yield
    plt.close("all")


def labels(ticks):
    return [tick.get_text() for tick in ticks]


def test_source_is_the_packages_own_and_names_its_file():
    shown = show_source(attention.scaled_dot_product_attention).data
    head, listing = "```python\n# transformer_lite/attention.py\n", shown[:-4]
    assert shown.startswith(f"{head}def scaled_dot_product_attention(")
    assert shown.endswith("\n```")
    source = Path(attention.__file__).read_text(encoding="utf-8").splitlines()
    assert set(listing.removeprefix(head).replace('"""', "").splitlines()) <= {
        line.replace('"""', "") for line in source
    }


def test_source_leaves_out_the_sections_of_docstrings():
    shown = show_source(attention.scaled_dot_product_attention, layers.FeedForward).data
    assert not re.search("Args:|Returns:|Raises:", shown)
    for part in shown.split("\n\n```python\n"):
        ast.parse(part.removeprefix("```python\n").removesuffix("\n```"))


def test_source_of_a_method_is_not_indented_and_names_its_class():
    method = attention.MultiHeadAttention.forward
    shown = show_source(attention.fused_attention, method).data
    first = "# transformer_lite/attention.py: MultiHeadAttention.forward\n"
    assert f"\n```\n\n```python\n{first}def forward(" in shown


@pytest.mark.parametrize(
    "weights", [WEIGHTS, WEIGHTS.clone().requires_grad_(), WEIGHTS.bfloat16()]
)
def test_a_heatmap_has_a_row_for_each_query_from_the_top(weights):
    axes = attention_heatmap(weights, QUERIES, KEYS)
    cells = torch.as_tensor(axes.collections[0].get_array().reshape(2, 3).data)
    assert torch.equal(cells, WEIGHTS)
    assert labels(axes.get_yticklabels()) == QUERIES
    assert labels(axes.get_xticklabels()) == KEYS
    bottom, top = axes.get_ylim()
    assert bottom > top
    assert ("query" in axes.get_ylabel(), "key" in axes.get_xlabel()) == (True, True)


def test_a_heatmap_prints_weights_from_a_hundredth_on():
    weights = torch.tensor([[0.0098, 0.0102, 0.98]])
    axes = attention_heatmap(weights, ["the"], ["the", "dog", "the"])
    assert labels(axes.texts) == ["", "0.01", "0.98"]
    assert labels(axes.get_xticklabels()) == ["the", "dog", "the"]


def test_a_number_in_a_heatmap_stands_out_from_its_cell():
    weights = torch.arange(2, 101)[:, None] / 100
    weights = torch.cat([weights, 1 - weights], dim=1)
    axes = attention_heatmap(weights, ["der"] * 99, ["the", "dog"])
    for number, weight in zip(axes.texts, weights.flatten().tolist(), strict=True):
        colors = plots.WEIGHTS(weight), to_rgb(number.get_color())
        darker, lighter = sorted(map(luminance, colors))
        assert (lighter + 0.05) / (darker + 0.05) > 3


def luminance(color):
    """As WCAG 2.2 defines it."""
    red, green, blue = (
        x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in color[:3]
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("num_keys", "axes_drawn"), [(10, 1), (11, 2)])
def test_a_heatmap_has_a_colour_bar_or_numbers(num_keys, axes_drawn):
    weights = torch.full((2, num_keys), 1 / num_keys)
    axes = attention_heatmap(weights, QUERIES, ["k"] * num_keys)
    assert len(axes.figure.axes) == axes_drawn
    assert bool(axes.texts) == (axes_drawn == 1)


def test_a_heatmap_goes_where_it_is_told():
    right = plt.subplots(ncols=2)[1][1]
    assert attention_heatmap(WEIGHTS, QUERIES, KEYS, ax=right, title="Head 1") is right
    assert right.get_title() == "Head 1"


@pytest.mark.parametrize("draw", [attention_heatmap, attention_lines])
def test_what_is_no_share_of_attention_is_refused(draw):
    with pytest.raises(ValueError, match=r"'der' sum to 2\.000, .*softmax"):
        draw(2 * WEIGHTS, QUERIES, KEYS)


def ends(axes):
    """The width of each line, by its query and key."""
    return {tuple(line.get_xdata()): line.get_linewidth() for line in axes.get_lines()}


def test_a_line_is_the_wider_the_larger_its_weight():
    axes = attention_lines(WEIGHTS, QUERIES, KEYS)
    widths = ends(axes)
    assert set(widths) == {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)}  # one weight is 0
    assert widths[0, 0] == widths[1, 1] > widths[0, 1] > widths[1, 0] == widths[1, 2]
    assert labels(axes.texts) == QUERIES + KEYS


def test_lines_are_drawn_of_chosen_queries_and_from_a_weight_on():
    axes = attention_lines(WEIGHTS, QUERIES, KEYS, rows=[1])
    assert set(ends(axes)) == {(1, 0), (1, 1), (1, 2)}
    bold = [text.get_text() for text in axes.texts if text.get_weight() == "bold"]
    assert bold == ["Hund"]
    few = attention_lines(WEIGHTS, QUERIES, KEYS, plt.figure().gca(), smallest=0.25)
    assert set(ends(few)) == {(0, 0), (0, 1), (1, 1)}


def test_no_colour_means_two_things():
    meanings = "ATTENTION RECURRENCE CONVOLUTION FEED_FORWARD REFERENCE"
    meanings += " QUERY KEY VALUE ENCODER DECODER"
    colours = {getattr(plots, name) for name in meanings.split()}
    assert len(colours) == len(meanings.split())


def test_a_figure_in_book_style_is_a_column_wide_with_text_of_one_size():
    use_book_style()
    figure = attention_heatmap(WEIGHTS, QUERIES, KEYS, title="Head 1").figure
    figure.canvas.draw()
    assert figure.get_size_inches().tolist() == [plots.COLUMN, 3.6]
    assert {text.get_fontsize() for text in figure.findobj(Text)} == {plots.TEXT}


@pytest.mark.parametrize("word", ["$", "$$", "$x$", "A$2$", "$a_{$"])
@pytest.mark.parametrize("draw", [attention_heatmap, attention_lines])
def test_dollar_signs_are_drawn_as_they_are(draw, word):
    axes = draw(torch.ones(1, 1), [word], [word])
    axes.figure.draw_without_rendering()
    ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]
    texts = [text for text in [*ticks, *axes.texts] if text.get_text() == word]
    assert len(texts) == 2
    assert not any(text.get_parse_math() for text in texts)


@pytest.fixture
def asian_font(tmp_path):
    """A font that has two characters, under the name of one with many."""
    builder = FontBuilder(1000)
    glyphs = dict.fromkeys([".notdef", "one", "two"], TTGlyphPen(None).glyph())
    builder.setupGlyphOrder(list(glyphs))
    builder.setupCharacterMap({ord("世"): "one", ord("界"): "two"})
    builder.setupGlyf(glyphs)
    builder.setupHorizontalMetrics(dict.fromkeys(glyphs, (1000, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Malgun Gothic", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(tmp_path / "font.ttf")
    before = list(font_manager.fontManager.ttflist)
    font_manager.fontManager.addfont(tmp_path / "font.ttf")
    yield
    font_manager.fontManager.ttflist = before


@pytest.mark.usefixtures("asian_font")
@pytest.mark.filterwarnings("error")  # matplotlib warns of a missing letter
def test_korean_and_chinese_are_drawn_where_a_font_is_installed():
    use_book_style()
    axes = attention_heatmap(torch.ones(1, 1), ["dog 世界"], ["世界"])
    axes.figure.canvas.draw()


def test_a_notebook_shows_its_figures_whatever_backend_the_environment_names():
    cells = [
        "from transformer_lite_book import plots\nplots.use_book_style()",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
    ]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    client = NotebookClient(notebook, kernel_name="python3")
    client.execute(env={**os.environ, "MPLBACKEND": "agg"})
    silent, figure = (cell.outputs for cell in notebook.cells)
    assert silent == []
    assert any("image/png" in output.get("data", {}) for output in figure)


@pytest.mark.parametrize("ends", [(1.0, 3.0, 2.0), (1.0, 1.01, 1.02), (1.0, 1.0, 1.0)])
def test_labels_stand_at_the_ends_of_lines_and_on_nothing_else(ends):
    use_book_style()
    axes = plt.subplots()[1]
    axes.axhline(1)  # has no label and gets none
    lines = {}
    for number, end in enumerate(ends):
        name = f"line {number}"
        (lines[name],) = axes.plot([0, 1 + number / 10], [0.0, end], label=name)
    plots.label_ends(axes)
    axes.figure.draw_without_rendering()
    assert sorted(labels(axes.texts)) == list(lines)
    for text in axes.texts:
        line = lines[text.get_text()]
        assert text.get_color() == line.get_color()
        assert tuple(text.xy) == tuple(line.get_xydata()[-1])
    boxes = [text.get_window_extent() for text in axes.texts]
    for one, other in combinations(boxes, 2):
        assert one.y1 <= other.y0 or other.y1 <= one.y0
    points = [
        axes.transData.transform(line.get_xydata()[-1]) for line in lines.values()
    ]
    assert min(box.x0 for box in boxes) > max(x for x, _ in points)


def test_ticks_are_plain_numbers_on_a_logarithmic_axis():
    axes = plt.subplots()[1]
    axes.set(xscale="log", yscale="log", xlim=(1, 1e5), ylim=(1e-6, 10))
    plots.plain_ticks(axes, x=[4, 1024, 65536], y=[1e-6, 0.25, 1], unit=" ms")
    axes.figure.draw_without_rendering()
    assert labels(axes.get_xticklabels()) == ["4", "1024", "65,536"]
    assert labels(axes.get_yticklabels()) == ["0.000001 ms", "0.25 ms", "1 ms"]
    assert not labels(axes.get_xticklabels(minor=True))
    axes.set(xscale="linear", xlim=(-2, 1))
    plots.plain_ticks(axes, x=[-1.5, 0])
    assert labels(axes.get_xticklabels()) == ["−1.5", "0"]  # not a hyphen


# What an answer calls


@pytest.mark.parametrize(
    "softmax",
    [
        lambda x: x.softmax(-1),
        lambda x: torch.softmax(x, -1),
        lambda x: F.softmax(x, dim=-1),
        nn.Softmax(dim=-1),
    ],
)
def test_every_way_to_call_a_function_is_heard(softmax):
    assert "softmax" in torch_calls(softmax, torch.ones(2, 3))


def test_calls_are_in_order_and_no_others_are_heard():
    names = torch_calls(lambda x: (x.exp() + 1).sum(), torch.ones(2))
    assert names == ["exp", "add", "sum"]


def test_a_loop_makes_more_calls_for_longer_inputs():
    def loop(x):
        return torch.stack([row * 2 for row in x])

    calls = [len(torch_calls(loop, torch.ones(n))) for n in (2, 20)]
    assert calls[1] - calls[0] == 18
