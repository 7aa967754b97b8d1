"""What chapters show: figures, the package's source, and what an answer calls.

Figures of attention check that they are given attention weights. The interactive one
is plain HTML, JavaScript and SVG. It loads nothing, and draws the same in the book, in
Jupyter and in Colab: light or dark, by mouse or by keyboard.

Paper: Figures 1–5
Chapter: 02_background, 03_2_1_scaled_dot_product_attention, attention_visualizations
Tests: tests/book/test_plots.py, tests/package/page/test_explorer.py
"""

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import seaborn
from IPython import get_ipython
from IPython.display import HTML, Markdown
from jaxtyping import Float
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.ticker import NullLocator
from matplotlib_inline.backend_inline import set_matplotlib_formats
from torch import Tensor
from torch.overrides import TorchFunctionMode

from transformer_lite_book.live_figures import explorer

NARROW, COLUMN, WIDE = 4.6, 6.4, 8.7
"""Widths of a figure in inches: of a cell tagged narrow, which a phone shows whole; of
the text; of a cell tagged full-width."""
TEXT = 9.5
"""Size of all text in a figure, in points."""

ATTENTION, RECURRENCE = "#0072B2", "#D55E00"
CONVOLUTION, FEED_FORWARD = "#009E73", "#8F4FB3"
"""Colours of the layers that the book compares. Colour-blind readers can tell the first
three apart (Okabe and Ito), and lines have their names at their ends."""
QUERY, KEY, VALUE = "#C2255C", "#B07D00", "#0A8A80"
ENCODER, DECODER = "#4C9BD6", "#A65628"
EMBEDDING = "#6B7A1F"
"""The matrix that both embeddings and the output share."""
REFERENCE = "#7F868D"
"""Grey: predictions, chance, and other values for reference."""
REFERENCE_INK = "#59616A"
"""Grey of small text, for which `REFERENCE` is too faint."""
INK, GRID = "#24292F", "#E8EAED"
WITHOUT = INK
"""Black: a model without the part that is studied."""

WEIGHTS = LinearSegmentedColormap.from_list(
    "weights", ["#FFFFFF", "#CFE3F2", ATTENTION, "#00436B"]
)
"""Colours of attention weights: white is 0, dark blue is 1."""
ANNOTATED_COLUMNS = 10
"""A heatmap with more keys has a colour bar instead of numbers."""
SMALLEST_PRINTED = 0.01
LARGEST_IN_INK = 0.55
"""A heatmap prints larger weights in white."""
SMALLEST_DRAWN = 0.03
"""The smallest weight that `attention_lines` draws, unless a call says otherwise."""

ASIAN_FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK KR", "Source Han Sans SC", "WenQuanYi Zen Hei",
    "PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Arial Unicode MS",
    "Microsoft YaHei", "Malgun Gothic", "NanumGothic", "Droid Sans Fallback",
)  # fmt: skip
"""Fonts with Chinese, Japanese or Korean; figures use those that are installed.

Where there is none, `attention_explorer` shows such text: a browser finds a font."""


def use_book_style() -> None:
    """Set fonts, colours and size of all figures from now on.

    In a notebook they are shown below their cell, also where `MPLBACKEND` names a
    backend that shows nothing.
    """
    seaborn.set_theme(style="whitegrid")
    installed = set(font_manager.get_font_names())
    plt.rc("font", family=["sans-serif", *(f for f in ASIAN_FONTS if f in installed)])
    plt.rc("figure", figsize=(COLUMN, 3.6), dpi=110)
    plt.rc("figure.constrained_layout", use=True)
    plt.rc("font", size=TEXT)
    plt.rc("text", color=INK)
    plt.rc("axes", labelsize=TEXT, titlesize=TEXT, labelcolor=INK, linewidth=0.8)
    plt.rc("axes", edgecolor="#AEB4BA")
    plt.rc("axes.spines", top=False, right=False)
    plt.rc(("xtick", "ytick"), labelsize=TEXT, color=INK)
    plt.rc("legend", fontsize=TEXT, title_fontsize=TEXT, frameon=False)
    plt.rc("grid", color=GRID, linewidth=0.6)
    plt.rc("lines", linewidth=1.8)
    colors = [ATTENTION, RECURRENCE, CONVOLUTION, FEED_FORWARD]
    plt.rc("axes", prop_cycle=plt.cycler(color=colors))
    # In a notebook: twice the dots, for sharp screens, and no margin cut off, so that
    # every figure has the width that it was given.
    shell = get_ipython()
    if hasattr(shell, "kernel"):
        shell.run_line_magic("matplotlib", "inline")
        set_matplotlib_formats("retina", bbox_inches=None)


def label_ends(ax: Axes) -> None:
    """Write each line's label at its right end in its colour, instead of a legend."""
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
    """Put ticks at these values, written as plain numbers: 0.001 and not 10⁻³.

    Args:
        unit: Text after each number of the y-axis.
    """
    for axis, values, behind in ((ax.xaxis, x, ""), (ax.yaxis, y, unit)):
        if len(values):
            axis.set_ticks(values, [_plain(value) + behind for value in values])
            axis.set_minor_locator(NullLocator())


SECTIONS = re.compile(r'\n\n +(?:Args|Returns|Raises):\n.*?\n *(?=""")', re.DOTALL)
"""What a docstring has on arguments, results and errors."""


def show_source(*objects: type | Callable) -> Markdown:
    """Show the package's own source of functions or classes.

    The docstrings' sections on arguments, results and errors are left out. The API
    reference has them.
    """
    blocks = []
    for item in objects:
        path = Path(inspect.getsourcefile(inspect.unwrap(item)))
        source = SECTIONS.sub("", textwrap.dedent(inspect.getsource(item)).rstrip())
        package = next(p for p in path.parents if p.name.startswith("transformer_lite"))
        where = f"# {path.relative_to(package.parent).as_posix()}"
        if "." in item.__qualname__:
            where += f": {item.__qualname__}"
        blocks.append(f"```python\n{where}\n{source}\n```")
    return Markdown("\n\n".join(blocks))


class _Recorder(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(
        self, func: Callable, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def torch_calls(function: Callable[..., Any], *args: Any) -> list[str]:
    """List the PyTorch functions that `function(*args)` calls, in order.

    A function and the method of the same name count as one (`softmax`). A call inside
    a function of PyTorch counts only if that function is written in Python.
    """
    with _Recorder() as recorder:
        function(*args)
    return recorder.names


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
    _require_attention(weights, queries, keys)
    printed = len(keys) <= ANNOTATED_COLUMNS
    numbers = [
        [f"{weight:.2f}" if weight >= SMALLEST_PRINTED else "" for weight in row]
        for row in weights.tolist()
    ]
    axes = seaborn.heatmap(
        weights,
        vmin=0,
        vmax=1,
        cmap=WEIGHTS,
        ax=ax,
        annot=numbers if printed else None,
        fmt="",
        cbar=not printed,
        cbar_kws={"label": "weight"},
        linewidths=0.6,
        linecolor=GRID,
    )
    for number, weight in zip(axes.texts, weights.flatten().tolist(), strict=printed):
        number.set_color("white" if weight > LARGEST_IN_INK else INK)
    slope = 0 if max(map(len, keys)) <= 3 else 45
    for axis, words, turned in ((axes.yaxis, queries, 0), (axes.xaxis, keys, slope)):
        places = [i + 0.5 for i in range(len(words))]
        axis.set_ticks(places, words, rotation=turned, parse_math=False)  # "$" is text
    if slope:
        plt.setp(axes.get_xticklabels(), ha="left", rotation_mode="anchor")
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("key (attended to)")
    axes.set_ylabel("query (attending)")
    if title:
        axes.set_title(title, pad=12)
    return axes


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
    _require_attention(weights, queries, keys)
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
            look |= {"ha": "center", "va": side, "rotation": 90, "parse_math": False}
            axes.text(place, height, word, **look)
    axes.set(xlim=(-0.6, max(len(queries), len(keys)) - 0.4), ylim=(0, 1))
    axes.axis("off")
    return axes


class AttentionMap(NamedTuple):
    """One kind of attention in one sentence, with the words of its rows and columns."""

    weights: Float[Tensor, "layers heads q_len k_len"]
    queries: Sequence[str]
    keys: Sequence[str]


class Start(NamedTuple):
    """What an explorer shows first; layers, heads and words are counted from 0."""

    layer: int = 0
    head: int = 0
    query: int | None = None


def attention_explorer(
    maps: Mapping[str, AttentionMap], start: Start | None = None
) -> HTML:
    """Make an interactive map of attention weights in every layer and head.

    Args:
        maps: What readers can choose, by its name.
        start: What the first of them shows first, by default its first head.

    Raises:
        ValueError: There is no map, or its weights are no attention weights, or its
            words do not match them; the message names the map. Or the first map has no
            such start.
    """
    if not maps:
        raise ValueError("there is no map to explore; give at least one")
    shown = []
    for name, (weights, queries, keys) in maps.items():
        weights = weights.detach().double().cpu()
        try:
            _require_attention(weights, queries, keys, heads=weights.shape[:2])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        percent = (100 * weights).round().int().flatten(2).tolist()
        words = {"name": name, "queries": list(queries), "keys": list(keys)}
        shown.append({**words, "weights": percent})
    start = start or Start()
    sizes = next(iter(maps.values())).weights.shape
    for field, value, size in zip(Start._fields, start, sizes[:3], strict=True):
        if value is not None and not 0 <= value < size:
            raise ValueError(
                f"start: there is no {field} {value}; the first map has {size}, "
                "counted from 0"
            )
    return explorer({"maps": shown, "start": {"map": 0, **start._asdict()}})


def _require_attention(
    weights: Tensor,
    queries: Sequence[str],
    keys: Sequence[str],
    heads: Sequence[int] = (),
) -> None:
    """Refuse what would be drawn and would be wrong.

    Args:
        heads: The axes before queries and keys: none, or layers and heads.
    """
    if tuple(weights.shape) != (*heads, len(queries), len(keys)) or 0 in weights.shape:
        raise ValueError(
            f"{len(queries)} queries and {len(keys)} keys do not fit weights of shape "
            f"{tuple(weights.shape)}; the last two axes are queries and keys, and "
            "before them an explorer needs layers and heads"
        )
    sum_is_1 = (weights.sum(dim=-1) - 1).abs() < 1e-3  # False for NaN
    right = sum_is_1 & (weights >= 0).all(dim=-1)
    if not right.all():
        *head, query = (~right).nonzero()[0].tolist()
        where = " in layer {}, head {}".format(*head) if head else ""
        row = weights[*head, query]
        raise ValueError(
            f"the weights of {queries[query]!r}{where} sum to {row.sum().item():.3f}, "
            f"and the smallest is {row.min().item():.3f}; give weights after the "
            "softmax, queries down, keys across, those of a word's pieces added up"
        )


def _plain(value: int | float) -> str:
    """Write a number without an exponent, with commas from 10,000 on, and with "−"."""
    text = f"{value:,.12f}" if abs(value) >= 10_000 else f"{value:.12f}"
    return text.rstrip("0").rstrip(".").replace("-", "−")
