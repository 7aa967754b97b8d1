"""Figures that move: a still picture, and a script that takes its place.

A cell draws the still picture with matplotlib and ends with `live_figure`. GitHub, PDF
and a page without scripts show the picture. In the book, in Jupyter and in Colab the
script hides it and draws the same with controls. Nothing is loaded from elsewhere.

Paper: Figures 1–5
Chapter: 03_1_encoder_and_decoder_stacks, 03_2_2_multi_head_attention
Tests: tests/book/test_live_figures.py
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from IPython.display import HTML

from transformer_lite.page import script_of

MODULES = {
    "query": ("transformer.js",),
    "residual": (),
    "heads": (),
    "transplant": (),
    "unit": (),
    "cards": (),
    "triangle": (),
    "perplexity": (),
    "batch": (),
    "breaks": (),
    "bets": (),
    "pairs": (),
    "lamps": (),
    "bleu": (),
}
"""The figures, each with the modules of the model's page that it computes with."""
SOURCES = Path(__file__).parent / "live"


def stored_sweep(name: str) -> dict[str, Any]:
    """Return what a figure shows at each place of its controls, computed beforehand."""
    return json.loads((SOURCES / f"{name}.json").read_text(encoding="utf-8"))


def live_figure(name: str, data: Mapping[str, Any]) -> HTML:
    """Return the output that moves, for a cell whose still picture is drawn already.

    Args:
        name: Which figure, one of `MODULES`.
        data: What its script is given, as JSON.

    Raises:
        ValueError: There is no such figure.
    """
    if name not in MODULES:
        known = ", ".join(MODULES)
        raise ValueError(f'there is no live figure "{name}"; take one of {known}')
    own = (str(SOURCES / file) for file in ("live.js", f"{name}.js", "begin.js"))
    script = script_of("dom.js", "words.js", *MODULES[name], *own, NAME=name)
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")  # so that no word can end the script element
    style = (SOURCES / "live.css").read_text(encoding="utf-8")
    return HTML(
        f'<div class="own-theme live-figure" data-name="{name}" hidden>\n'
        f"<style>\n{style}</style>\n"
        f'<script type="application/json">{text}</script>\n'
        f"<script>\n{script}</script>\n"
        "</div>"
    )
