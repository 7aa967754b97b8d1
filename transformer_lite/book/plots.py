"""Figures of the book, each of which checks what it shows.

Paper: Figures 1–5
Chapter: 03_2_1_scaled_dot_product_attention, attention_visualizations
Tests: tests/book/test_plots.py
"""

import inspect
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import seaborn
import torch
from IPython.display import Markdown
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from torch import Tensor

WEIGHTS = "viridis"
"""Colour map of attention weights: dark is 0, bright is 1."""
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
"""Colours that colour-blind readers can tell apart (Okabe and Ito)."""
MAY, MAY_NOT = "#56B4E9", "#3B3B3B"
ANNOTATED_COLUMNS = 10
"""Up to so many keys, a heatmap prints its numbers too."""


def use_book_style() -> None:
    """Give all figures that follow the book's fonts, colours and size."""
    seaborn.set_theme(context="notebook", style="whitegrid")
    plt.rcParams.update(
        {
            "figure.figsize": (6.4, 3.6),
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "axes.prop_cycle": plt.cycler(color=[BLUE, ORANGE, GREEN]),
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )


def show_source(*objects: type | Callable) -> Markdown:
    """The package's own source of functions or classes, for a notebook to show."""
    blocks = []
    for item in objects:
        path = Path(inspect.getsourcefile(inspect.unwrap(item)))
        source = textwrap.dedent(inspect.getsource(item)).rstrip()
        package = next(p for p in path.parents if p.name == "transformer_lite")
        where = f"# {path.relative_to(package.parent).as_posix()}"
        blocks.append(f"```python\n{where}\n{source}\n```")
    return Markdown("\n\n".join(blocks))


def attention_heatmap(
    weights: Float[Tensor, "q_len k_len"],
    queries: Sequence[str],
    keys: Sequence[str],
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """A heatmap of attention weights: a row for each query, a column for each key.

    Raises:
        ValueError: A row does not sum to 1, or labels and weights do not match.
    """
    weights = weights.detach().float().cpu()
    _check_labels(weights, queries, keys)
    sums = weights.sum(dim=1)
    if not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise ValueError(
            f"the rows sum to {[round(total, 3) for total in sums.tolist()]} and not "
            "to 1; give the weights after the softmax, queries down, keys across"
        )
    axes = seaborn.heatmap(
        weights,
        vmin=0,
        vmax=1,
        cmap=WEIGHTS,
        ax=ax,
        annot=len(keys) <= ANNOTATED_COLUMNS,
        fmt=".2f",
        cbar_kws={"label": "weight"},
    )
    return _label(axes, queries, keys, title)


def mask_heatmap(
    mask: Bool[Tensor, "q_len k_len"],
    queries: Sequence[str],
    keys: Sequence[str],
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    """A mask: a row for each query, a column for each key, light where it may look.

    Raises:
        ValueError: Labels and mask do not match.
    """
    _check_labels(mask, queries, keys)
    axes = seaborn.heatmap(
        mask.cpu(),
        vmin=0,
        vmax=1,
        cmap=[MAY_NOT, MAY],
        ax=ax,
        cbar=False,
        linewidths=1,
        linecolor="white",
    )
    axes.legend(
        handles=[
            Patch(color=MAY, label="may attend"),
            Patch(color=MAY_NOT, label="may not"),
        ],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.02),
        ncols=2,
        frameon=False,
    )
    return _label(axes, queries, keys, title)


def _check_labels(matrix: Tensor, queries: Sequence[str], keys: Sequence[str]) -> None:
    if tuple(matrix.shape) != (len(queries), len(keys)):
        raise ValueError(
            f"{len(queries)} query labels and {len(keys)} key labels do not fit a "
            f"matrix of shape {tuple(matrix.shape)}; queries are the rows"
        )


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
