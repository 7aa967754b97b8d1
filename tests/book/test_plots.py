"""Figures show what they are given, and refuse what cannot be shown."""

from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import torch
from IPython.display import Markdown
from matplotlib.colors import to_hex
from matplotlib.text import Text

from transformer_lite import attention
from transformer_lite.book import plots
from transformer_lite.book.plots import (
    attention_heatmap,
    attention_lines,
    show_source,
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


def cells(axes):
    """What a heatmap shows, row by row."""
    return torch.as_tensor(axes.collections[0].get_array().reshape(2, 3).data)


def test_source_is_the_packages_own():
    shown = show_source(attention.scaled_dot_product_attention)
    assert isinstance(shown, Markdown)
    listing = shown.data.removesuffix("\n```").partition("attention.py\n")[2]
    assert listing.startswith("def scaled_dot_product_attention(")
    assert listing.endswith("return weights @ value, weights")
    assert listing in Path(attention.__file__).read_text(encoding="utf-8")


def test_source_is_a_block_of_python_that_names_its_file():
    shown = show_source(attention.scaled_dot_product_attention).data
    assert shown.startswith("```python\n# transformer_lite/attention.py\n")
    assert shown.endswith("\n```")


def test_source_of_a_method_is_not_indented_and_names_its_class():
    shown = show_source(attention.MultiHeadAttention.forward).data
    first = "# transformer_lite/attention.py: MultiHeadAttention.forward\n"
    assert f"```python\n{first}def forward(" in shown


def test_sources_of_several_objects_stand_one_below_the_other():
    shown = show_source(attention.fused_attention, attention.MultiHeadAttention).data
    assert shown.count("```python\n") == 2
    assert shown.index("def fused_attention") < shown.index("class MultiHead")


def test_attention_heatmap_has_a_row_for_each_query():
    axes = attention_heatmap(WEIGHTS, QUERIES, KEYS)
    assert torch.equal(cells(axes), WEIGHTS)
    assert labels(axes.get_yticklabels()) == QUERIES
    assert labels(axes.get_xticklabels()) == KEYS


def test_rows_are_drawn_from_the_top():
    axes = attention_heatmap(WEIGHTS, QUERIES, KEYS)
    bottom, top = axes.get_ylim()
    assert bottom > top


def test_attention_heatmap_prints_its_numbers():
    axes = attention_heatmap(WEIGHTS, QUERIES, KEYS)
    assert labels(axes.texts) == ["0.75", "0.25", "", "0.12", "0.75", "0.12"]


def test_weights_of_less_than_a_hundredth_stay_unprinted():
    weights = torch.tensor([[0.0098, 0.0102, 0.98]])
    axes = attention_heatmap(weights, QUERIES[:1], KEYS)
    assert labels(axes.texts) == ["", "0.01", "0.98"]


@pytest.mark.parametrize(("num_keys", "axes_drawn"), [(10, 1), (11, 2)])
def test_a_heatmap_has_a_colour_bar_or_numbers(num_keys, axes_drawn):
    weights = torch.full((2, num_keys), 1 / num_keys)
    axes = attention_heatmap(weights, QUERIES, ["k"] * num_keys)
    assert len(axes.figure.axes) == axes_drawn
    assert bool(axes.texts) == (axes_drawn == 1)


def test_no_weight_is_white_and_all_of_it_is_dark_blue():
    mesh = attention_heatmap(torch.eye(2), QUERIES, KEYS[:2]).collections[0]
    light, dark = mesh.to_rgba(0.0), mesh.to_rgba(1.0)
    assert to_hex(light) == "#ffffff"
    assert dark[0] < dark[1] < dark[2] < 0.5


def test_a_wide_heatmap_prints_no_numbers():
    axes = attention_heatmap(torch.full((2, 16), 1 / 16), QUERIES, ["k"] * 16)
    assert not axes.texts


def test_colours_always_span_zero_to_one():
    axes = attention_heatmap(WEIGHTS, QUERIES, KEYS)
    assert axes.collections[0].get_clim() == (0, 1)


def test_a_word_may_occur_twice():
    axes = attention_heatmap(WEIGHTS, ["the", "the"], ["the", "dog", "the"])
    assert labels(axes.get_xticklabels()) == ["the", "dog", "the"]


def test_weights_that_still_have_a_gradient_can_be_drawn():
    weights = WEIGHTS.clone().requires_grad_()
    assert torch.equal(cells(attention_heatmap(weights, QUERIES, KEYS)), WEIGHTS)


def test_half_precision_weights_can_be_drawn():
    axes = attention_heatmap(WEIGHTS.bfloat16(), QUERIES, KEYS)
    assert torch.equal(cells(axes), WEIGHTS)


def test_a_heatmap_goes_where_it_is_told():
    _, (_, right) = plt.subplots(ncols=2)
    assert attention_heatmap(WEIGHTS, QUERIES, KEYS, ax=right, title="Head 1") is right
    assert right.get_title() == "Head 1"


def test_axes_say_which_side_attends():
    axes = attention_heatmap(WEIGHTS, QUERIES, KEYS)
    assert "quer" in axes.get_ylabel()
    assert "key" in axes.get_xlabel()


@pytest.mark.parametrize("draw", [attention_heatmap, attention_lines])
@pytest.mark.parametrize("factor", [2.0, 0.5, float("nan")])
def test_weights_that_do_not_sum_to_one_are_refused(draw, factor):
    with pytest.raises(ValueError, match=r"rows sum to .*softmax"):
        draw(WEIGHTS * factor, QUERIES, KEYS)


@pytest.mark.parametrize("draw", [attention_heatmap, attention_lines])
def test_transposed_weights_are_refused(draw):
    with pytest.raises(ValueError, match=r"2 query labels and 3 key .*\(3, 2\)"):
        draw(WEIGHTS.T, QUERIES, KEYS)


def ends(axes):
    """Query, key and width of each line."""
    return [
        (*map(int, line.get_xdata()), line.get_linewidth()) for line in axes.get_lines()
    ]


def test_a_line_leads_from_each_query_to_each_key_that_it_looks_at():
    lines = {
        (query, key) for query, key, _ in ends(attention_lines(WEIGHTS, QUERIES, KEYS))
    }
    assert lines == {(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)}  # one weight is 0


def test_a_line_is_the_wider_the_larger_its_weight():
    widths = {
        (q, k): width for q, k, width in ends(attention_lines(WEIGHTS, QUERIES, KEYS))
    }
    assert widths[0, 0] == widths[1, 1] > widths[0, 1] > widths[1, 0] == widths[1, 2]


def test_only_the_lines_of_chosen_queries_are_drawn():
    axes = attention_lines(WEIGHTS, QUERIES, KEYS, rows=[1])
    assert {query for query, _, _ in ends(axes)} == {1}
    bold = [text.get_text() for text in axes.texts if text.get_weight() == "bold"]
    assert bold == ["Hund"]


def test_smaller_weights_can_be_left_out():
    axes = attention_lines(WEIGHTS, QUERIES, KEYS, smallest=0.25)
    assert {(query, key) for query, key, _ in ends(axes)} == {(0, 0), (0, 1), (1, 1)}


def test_every_word_of_both_rows_is_written():
    axes = attention_lines(WEIGHTS, QUERIES, KEYS)
    assert labels(axes.texts) == QUERIES + KEYS


def test_book_style_has_colours_that_everybody_can_tell_apart():
    use_book_style()
    colours = plt.rcParams["axes.prop_cycle"].by_key()["color"]
    assert colours[:3] == [plots.ATTENTION, plots.RECURRENCE, plots.CONVOLUTION]


def test_no_colour_means_two_things():
    meanings = "ATTENTION RECURRENCE CONVOLUTION FEED_FORWARD REFERENCE"
    meanings += " QUERY KEY VALUE ENCODER DECODER"
    colours = {getattr(plots, name) for name in meanings.split()}
    assert len(colours) == len(meanings.split())


def test_all_text_of_a_figure_has_one_size():
    use_book_style()
    axes = attention_heatmap(WEIGHTS, QUERIES, KEYS, title="Head 1")
    sizes = {text.get_fontsize() for text in axes.figure.findobj(Text)}
    assert sizes == {plots.TEXT}


def three_lines(*ends):
    """Axes with a line for each value that it ends at."""
    use_book_style()
    axes = plt.subplots()[1]
    for number, end in enumerate(ends):
        axes.plot([0, 1 + number / 10], [0.0, end], label=f"line {number}")
    plots.label_ends(axes)
    axes.figure.draw_without_rendering()
    return axes


def test_labels_stand_at_the_ends_of_lines_in_their_colours():
    axes = three_lines(1.0, 3.0, 2.0)
    assert sorted(labels(axes.texts)) == ["line 0", "line 1", "line 2"]
    by_label = {line.get_label(): line for line in axes.get_lines()}
    for text in axes.texts:
        line = by_label[text.get_text()]
        assert text.get_color() == line.get_color()
        assert tuple(text.xy) == tuple(line.get_xydata()[-1])


@pytest.mark.parametrize("ends", [(1.0, 3.0, 2.0), (1.0, 1.01, 1.02), (1.0, 1.0, 1.0)])
def test_labels_lie_on_no_other_label_and_on_no_line(ends):
    axes = three_lines(*ends)
    boxes = [text.get_window_extent() for text in axes.texts]
    for one, other in combinations(boxes, 2):
        assert one.y1 <= other.y0 or other.y1 <= one.y0
    rightmost = max(
        axes.transData.transform(line.get_xydata()[-1])[0] for line in axes.get_lines()
    )
    assert all(box.x0 > rightmost for box in boxes)


def test_lines_without_a_label_get_none():
    axes = plt.subplots()[1]
    axes.axhline(1)
    axes.plot([0, 1], [0, 1], label="named")
    plots.label_ends(axes)
    assert labels(axes.texts) == ["named"]


def test_ticks_are_plain_numbers_on_a_logarithmic_axis():
    axes = plt.subplots()[1]
    axes.set(xscale="log", yscale="log", xlim=(1, 1e5), ylim=(1e-6, 10))
    plots.plain_ticks(axes, x=[4, 1024, 65536], y=[1e-6, 0.25, 1], unit=" ms")
    axes.figure.draw_without_rendering()
    assert labels(axes.get_xticklabels()) == ["4", "1024", "65,536"]
    assert labels(axes.get_yticklabels()) == ["0.000001 ms", "0.25 ms", "1 ms"]
    assert not labels(axes.get_xticklabels(minor=True))


def test_ticks_of_an_axis_that_is_not_named_stay():
    axes = plt.subplots()[1]
    before = axes.get_yticks().tolist()
    plots.plain_ticks(axes, x=[0, 1])
    assert axes.get_yticks().tolist() == before


def test_a_figure_in_book_style_is_drawn_without_a_warning():
    use_book_style()
    axes = attention_heatmap(WEIGHTS, QUERIES, KEYS, title="Head 1")
    axes.figure.canvas.draw()
    assert axes.figure.get_size_inches().tolist() == [plots.COLUMN, 3.6]
