"""An interactive map of all layers and heads, for a notebook's stored output.

It is plain HTML, JavaScript and SVG, asks no server for anything, and draws the same in
the book, in Jupyter and in Colab: light or dark, by mouse or by keyboard.

Paper: Figures 3–5
Chapter: attention_visualizations
Tests: tests/book/test_explorer.py
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from IPython.display import HTML
from jaxtyping import Float
from torch import Tensor

STYLE = Path(__file__).with_name("explorer.css")
SCRIPT = Path(__file__).with_name("explorer.js")

DARK = """\
  --ground: #121212;
  --ink: #ced6dd;
  --muted: #9ca4af;
  --edge: #48566b;
  --weight: #5eb3ea;
  --query: #ff8fb1;
  --key: #e3b341;"""
DARK_PAGES = (
    'html[data-theme="dark"]',  # the book
    'body[data-jp-theme-light="false"]',  # Jupyter
    'html[theme="dark"]',  # Colab
    "body.vscode-dark",
)
LIGHT_PAGES = (
    'html[data-theme="light"]',
    'body[data-jp-theme-light="true"]',
    'html[theme="light"]',
    "body.vscode-light",
)
FALLBACK = (
    "An interactive map of attention weights stands here, where scripts may run: "
    "in the book, in Colab, or in Jupyter once the notebook is trusted."
)
TOLERANCE = 1e-3
"""A row's sum may differ from 1 by so much."""


class AttentionMap(NamedTuple):
    """One kind of attention in one sentence, and the words to write beside it."""

    weights: Float[Tensor, "layers heads q_len k_len"]
    queries: Sequence[str]
    keys: Sequence[str]


class Start(NamedTuple):
    """What is shown first; layers, heads and words are counted from 0."""

    layer: int = 0
    head: int = 0
    query: int | None = None


def attention_explorer(
    maps: Mapping[str, AttentionMap], start: Start | None = None
) -> HTML:
    """Make an explorer of attention weights in every layer and head.

    Args:
        maps: What can be chosen, by the name to choose it by.
        start: What the first of them shows first.

    Raises:
        ValueError: A map's weights are no shares of 1, or its words do not match them;
            the message names the map. Or there is nothing to start with.
    """
    start = start or Start()
    if not maps:
        raise ValueError("there is no map to explore; give at least one")
    for name, shown in maps.items():
        _check(name, shown)
    first = next(iter(maps.values()))
    _check_start(start, first)
    data = {
        "maps": [{"name": name} | _plain(shown) for name, shown in maps.items()],
        "start": {"map": 0} | start._asdict(),
    }
    # "<" is written so that no word can end the script element.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")
    return HTML(
        '<div class="own-theme attention-explorer">\n'
        f"<style>\n{_style()}</style>\n"
        f'<p class="fallback">{FALLBACK}</p>\n'
        f'<script type="application/json" class="attention-data">{text}</script>\n'
        f"<script>\n{SCRIPT.read_text(encoding='utf-8')}</script>\n"
        "</div>"
    )


def _check(name: str, shown: AttentionMap) -> None:
    """Refuse what would be drawn and would be wrong."""
    weights, queries, keys = shown
    if weights.dim() != 4 or 0 in weights.shape:
        raise ValueError(
            f"{name}: weights of shape {tuple(weights.shape)}; give them as "
            "(layers, heads, queries, keys), of one sentence"
        )
    if tuple(weights.shape[2:]) != (len(queries), len(keys)):
        raise ValueError(
            f"{name}: {len(queries)} query words and {len(keys)} key words do not fit "
            f"weights of shape {tuple(weights.shape)}; queries come before keys"
        )
    weights = weights.detach().double()
    if not bool((weights >= 0).all()):  # NaN is not either
        raise ValueError(
            f"{name}: some weights are negative or no numbers; give them after the "
            "softmax"
        )
    wrong = (weights.sum(dim=-1) - 1).abs() > TOLERANCE
    if bool(wrong.any()):
        layer, head, query = wrong.nonzero()[0].tolist()
        total = weights[layer, head, query].sum().item()
        raise ValueError(
            f"{name}: the weights of {queries[query]!r} in layer {layer}, head {head} "
            f"sum to {total:.3f} and not to 1; give them after the softmax, and add up "
            "those of a word's pieces"
        )


def _check_start(start: Start, shown: AttentionMap) -> None:
    sizes = dict(zip(Start._fields, shown.weights.shape, strict=False))
    for field, value in start._asdict().items():
        if value is not None and not 0 <= value < sizes[field]:
            raise ValueError(
                f"start: there is no {field} {value}; the first map has "
                f"{sizes[field]}, counted from 0"
            )


def _plain(shown: AttentionMap) -> dict:
    """Return the words and each head's weights in percent, which the script reads."""
    percent = (100 * shown.weights.detach().double()).round().int().flatten(2)
    return {
        "queries": list(shown.queries),
        "keys": list(shown.keys),
        "weights": percent.tolist(),
    }


def _style() -> str:
    """Return the style sheet, with dark colours where a page or the system is dark."""
    text = STYLE.read_text(encoding="utf-8")
    light = text.partition(".attention-explorer {\n")[2].partition("  background")[0]
    inside = ".attention-explorer"
    dark_pages = ",\n".join(f"{page} {inside}" for page in DARK_PAGES)
    light_pages = ",\n".join(f"{page} {inside}" for page in LIGHT_PAGES)
    return (
        f"{text}@media (prefers-color-scheme: dark) {{\n{inside} {{\n{DARK}\n}}\n}}\n"
        f"{light_pages} {{\n{light}}}\n{dark_pages} {{\n{DARK}\n}}\n"
    )
