"""Figures of the book, each of which checks what it shows.

Paper: Figures 1–5
Chapter: 03_2_1_scaled_dot_product_attention, attention_visualizations
Tests: tests/book/test_plots.py
"""

import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import seaborn
import torch
from IPython import get_ipython
from IPython.display import Markdown
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import NullLocator
from matplotlib_inline.backend_inline import set_matplotlib_formats
from torch import Tensor

from transformer_lite.book.explorer import AttentionMap as AttentionMap
from transformer_lite.book.explorer import Start as Start
from transformer_lite.book.explorer import attention_explorer as attention_explorer

COLUMN, WIDE = 6.4, 8.7
"""Widths of a figure in inches: the text's, and that of a cell tagged full-width."""
TEXT = 9.5
"""Size of all text in a figure, in points."""

ATTENTION, RECURRENCE = "#0072B2", "#D55E00"
CONVOLUTION, FEED_FORWARD = "#009E73", "#8F4FB3"
"""Colours of the layers that the book compares. Colour-blind readers can tell the first
three apart (Okabe and Ito); lines say their names at their ends besides."""
QUERY, KEY, VALUE = "#C2255C", "#B07D00", "#0A8A80"
ENCODER, DECODER = "#4C9BD6", "#A65628"
EMBEDDING = "#6B7A1F"
"""The matrix that both embeddings and the output share."""
REFERENCE = "#7F868D"
"""Grey: what was predicted, what chance gives, what stands beside the comparison."""
INK, GRID = "#24292F", "#E8EAED"
WITHOUT = INK
"""Black: the same without the part that is studied."""

WEIGHTS = LinearSegmentedColormap.from_list(
    "weights", ["#FFFFFF", "#CFE3F2", ATTENTION, "#00436B"]
)
"""Colours of attention weights: white is 0, dark blue is 1."""
ANNOTATED_COLUMNS = 10
"""Up to so many keys, a heatmap prints its numbers instead of a colour bar."""
SMALLEST_PRINTED = 0.01
SMALLEST_DRAWN = 0.03
"""Of smaller weights, `attention_lines` draws no line unless it is told to."""


def use_book_style() -> None:
    """Give all figures that follow the book's fonts, colours and size."""
    seaborn.set_theme(
        style="whitegrid",
        rc={
            "figure.figsize": (COLUMN, 3.6),
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "font.size": TEXT,
            "axes.labelsize": TEXT,
            "axes.titlesize": TEXT,
            "xtick.labelsize": TEXT,
            "ytick.labelsize": TEXT,
            "legend.fontsize": TEXT,
            "legend.title_fontsize": TEXT,
            "legend.frameon": False,
            "text.color": INK,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.edgecolor": "#AEB4BA",
            "axes.linewidth": 0.8,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "grid.color": GRID,
            "grid.linewidth": 0.6,
            "lines.linewidth": 1.8,
            "axes.prop_cycle": plt.cycler(
                color=[ATTENTION, RECURRENCE, CONVOLUTION, FEED_FORWARD]
            ),
        },
    )
    # In a notebook: twice the dots, for screens that show them, and no margin cut off,
    # so that every figure is as wide as it was asked to be.
    if get_ipython() is not None:
        set_matplotlib_formats("retina", bbox_inches=None)


def label_ends(ax: Axes) -> None:
    """Write each line's label at its right end, in its colour, instead of a legend."""
    ax.figure.draw_without_rendering()
    lines = [line for line in ax.get_lines() if not line.get_label().startswith("_")]
    pixels_per_point = ax.figure.dpi / 72
    room = 1.3 * TEXT * pixels_per_point
    lowest = -math.inf
    ends = [(*ax.transData.transform(line.get_xydata()[-1]), line) for line in lines]
    rightmost = max(x for x, _, _ in ends)
    for x, y, line in sorted(ends, key=lambda end: end[1]):
        place = max(y, lowest + room)
        ax.annotate(
            line.get_label(),
            line.get_xydata()[-1],
            xytext=(
                7 + (rightmost - x) / pixels_per_point,
                (place - y) / pixels_per_point,
            ),
            textcoords="offset points",
            va="center",
            color=line.get_color(),
            annotation_clip=False,
        )
        lowest = place


def plain_ticks(
    ax: Axes,
    x: Sequence[int | float] = (),
    y: Sequence[int | float] = (),
    unit: str = "",
) -> None:
    """Mark these values, on whatever scale, as plain numbers: 0.001 and not 10⁻³.

    Args:
        unit: Stands behind each number of the y-axis.
    """
    for axis, values, behind in ((ax.xaxis, x, ""), (ax.yaxis, y, unit)):
        if len(values):
            axis.set_ticks(values, [_plain(value) + behind for value in values])
            axis.set_minor_locator(NullLocator())


def show_source(*objects: type | Callable) -> Markdown:
    """Show the package's own source of functions or classes."""
    blocks = []
    for item in objects:
        path = Path(inspect.getsourcefile(inspect.unwrap(item)))
        source = textwrap.dedent(inspect.getsource(item)).rstrip()
        package = next(p for p in path.parents if p.name == "transformer_lite")
        where = f"# {path.relative_to(package.parent).as_posix()}"
        if "." in item.__qualname__:
            where += f": {item.__qualname__}"
        blocks.append(f"```python\n{where}\n{source}\n```")
    return Markdown("\n\n".join(blocks))


def attention_heatmap(
    weights: Float[Tensor, "q_len k_len"],
    queries: Sequence[str],
    keys: Sequence[str],
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """Draw attention weights: a row for each query, a column for each key.

    Raises:
        ValueError: A row does not sum to 1, or labels and weights do not match.
    """
    weights = weights.detach().float().cpu()
    _check_labels(weights, queries, keys)
    _check_sums(weights)
    printed = len(keys) <= ANNOTATED_COLUMNS
    axes = seaborn.heatmap(
        weights,
        vmin=0,
        vmax=1,
        cmap=WEIGHTS,
        ax=ax,
        annot=_numbers(weights) if printed else None,
        fmt="",
        cbar=not printed,
        cbar_kws={"label": "weight"},
        linewidths=0.6,
        linecolor=GRID,
    )
    return _label(axes, queries, keys, title)


def attention_lines(
    weights: Float[Tensor, "q_len k_len"],
    queries: Sequence[str],
    keys: Sequence[str],
    ax: Axes | None = None,
    rows: Sequence[int] | None = None,
    color: str = ATTENTION,
    smallest: float = SMALLEST_DRAWN,
) -> Axes:
    """Draw a head as the paper does: a line from each query to each key it attends to.

    Args:
        rows: Queries whose lines are drawn, their words in bold; by default all.
        smallest: The smallest weight that a line is drawn for.

    Raises:
        ValueError: A row does not sum to 1, or labels and weights do not match.
    """
    weights = weights.detach().float().cpu()
    _check_labels(weights, queries, keys)
    _check_sums(weights)
    axes = ax or plt.gca()
    drawn = range(len(queries)) if rows is None else rows
    for row in drawn:
        for column, weight in enumerate(weights[row].tolist()):
            if weight >= smallest:
                look = {"linewidth": 0.3 + 5 * weight, "alpha": 0.15 + 0.75 * weight}
                axes.plot([row, column], [1, 0], color=color, zorder=0, **look)
    for words, height, side in ((queries, 1.04, "bottom"), (keys, -0.04, "top")):
        for place, word in enumerate(words):
            chosen = rows is not None and side == "bottom" and place in rows
            look = {"weight": "bold", "color": QUERY} if chosen else {}
            axes.text(place, height, word, ha="center", va=side, rotation=90, **look)
    axes.set(xlim=(-0.6, max(len(queries), len(keys)) - 0.4), ylim=(0, 1))
    axes.axis("off")
    return axes


def _check_labels(matrix: Tensor, queries: Sequence[str], keys: Sequence[str]) -> None:
    if tuple(matrix.shape) != (len(queries), len(keys)):
        raise ValueError(
            f"{len(queries)} query labels and {len(keys)} key labels do not fit a "
            f"matrix of shape {tuple(matrix.shape)}; queries are the rows"
        )


def _check_sums(weights: Tensor) -> None:
    sums = weights.sum(dim=1)
    if not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise ValueError(
            f"the rows sum to {[round(total, 3) for total in sums.tolist()]} and not "
            "to 1; give the weights after the softmax, queries down, keys across"
        )


def _plain(value: int | float) -> str:
    """Write a number without an exponent, and with commas from 10,000 on."""
    text = f"{value:,.12f}" if abs(value) >= 10_000 else f"{value:.12f}"
    return text.rstrip("0").rstrip(".")


def _numbers(weights: Tensor) -> list[list[str]]:
    """Return what a heatmap prints: nothing where a weight is nearly 0."""
    return [
        [f"{weight:.2f}" if weight >= SMALLEST_PRINTED else "" for weight in row]
        for row in weights.tolist()
    ]


def _label(
    axes: Axes, queries: Sequence[str], keys: Sequence[str], title: str | None
) -> Axes:
    axes.set_yticks([i + 0.5 for i in range(len(queries))], queries, rotation=0)
    upright = 0 if max(map(len, keys)) <= 3 else 45
    axes.set_xticks([i + 0.5 for i in range(len(keys))], keys, rotation=upright)
    if upright:
        plt.setp(axes.get_xticklabels(), ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("key (attended to)")
    axes.set_ylabel("query (attending)")
    if title:
        axes.set_title(title, pad=12)
    return axes
