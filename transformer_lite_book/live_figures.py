"""Figures that move: scripts, most of them in the place of a still picture.

A cell draws the still picture with matplotlib and ends with `live_figure`. GitHub, PDF
and a page without scripts show the picture. In the book, in Jupyter and in Colab the
script hides it and draws the same with controls. Nothing is loaded from elsewhere.

Paper: Figures 1–5
Chapter: 03_1_encoder_and_decoder_stacks, 03_2_2_multi_head_attention
Tests: tests/book/test_live_figures.py, tests/book/test_messages.py
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from IPython.display import HTML

from transformer_lite.page import EXPLORER, json_of, messages_of, script_of, text_of

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
WORDS = {
    "bets": ("label",),
    "bleu": ("meaning", "english", "title"),
    "cards": ("name", "source"),
    "explorer": ("name",),
    "heads": ("rows",),
    "pairs": ("name",),
}
"""Where a figure's data hold words for readers; the rest are names and tokens."""
SOURCES = Path(__file__).parent / "live"
TOUR = ("messages.js", "dom.js", str(SOURCES / "live.js"), str(SOURCES / "tour.js"))
"""The modules of the live translator's guided tour."""
FALLBACK = (
    "An interactive map of attention weights stands here, where scripts may run: "
    "in the book, in Colab, or in Jupyter once the notebook is trusted."
)
STORED = re.compile(
    r'<div class="own-theme (?:attention-(explorer)|live-figure" data-name="(\w+))"'
    r'.*?<script type="application/json"[^>]*>(.*?)</script>',
    re.S,
)
"""A figure in a notebook's outputs: its name and its data."""

Translate = Callable[[str], str]


def stored_sweep(name: str) -> dict[str, Any]:
    """Return what a figure shows at each place of its controls, computed beforehand."""
    return json.loads((SOURCES / f"{name}.json").read_text(encoding="utf-8"))


def live_figure(name: str, data: Mapping[str, Any], translate: Translate = str) -> HTML:
    """Return the output that moves, for a cell whose still picture is drawn already.

    Args:
        name: Which figure, one of `MODULES`.
        data: What its script is given, as JSON.
        translate: Gives what readers see for an English message.

    Raises:
        ValueError: There is no such figure.
    """
    if name not in MODULES:
        known = ", ".join(MODULES)
        raise ValueError(f'there is no live figure "{name}"; take one of {known}')
    own = (str(SOURCES / file) for file in ("live.js", f"{name}.js", "begin.js"))
    modules = ("messages.js", "dom.js", "words.js", *MODULES[name], *own)
    style = (SOURCES / "live.css").read_text(encoding="utf-8")
    return HTML(
        f'<div class="own-theme live-figure" data-name="{name}" hidden>\n'
        f"<style>\n{style}</style>\n"
        f'<script type="application/json">{_json(name, data, translate)}</script>\n'
        f"<script>\n{_script(modules, translate, NAME=name)}</script>\n"
        "</div>"
    )


def explorer(data: Mapping[str, Any], translate: Translate = str) -> HTML:
    """Return an attention explorer; its data are what explorer.js takes."""
    text = _json("explorer", data, translate)
    return HTML(
        '<div class="own-theme attention-explorer">\n'
        f"<style>\n{text_of('explorer.css')}</style>\n"
        f'<p class="fallback">{translate(FALLBACK)}</p>\n'
        f'<script type="application/json" class="attention-data">{text}</script>\n'
        f"<script>\n{_script((*EXPLORER, 'explorers.js'), translate)}</script>\n"
        "</div>"
    )


def renewed(html: str, translate: Translate = str) -> str:
    """Return an output as this module makes it now from the data in it.

    An output that is no figure of this module stays as it is.
    """
    stored = STORED.match(html)
    if not stored:
        return html
    is_explorer, name, text = stored.groups()
    data = json.loads(text)
    if is_explorer:
        return explorer(data, translate).data
    return live_figure(name, data, translate).data


def _script(modules: tuple[str, ...], translate: Translate, **constants: str) -> str:
    messages = {text: translate(text) for text in messages_of(*modules)}
    return script_of(*modules, messages=messages, **constants)


def _json(name: str, data: Any, translate: Translate) -> str:
    """Return a figure's data as a script element holds them."""
    return json_of(_told(data, WORDS.get(name, ()), translate))


def _told(
    data: Any, places: tuple[str, ...], translate: Translate, is_said: bool = False
) -> Any:
    """Return data with the words at these places translated."""
    if isinstance(data, Mapping):
        return {
            key: _told(each, places, translate, key in places)
            for key, each in data.items()
        }
    if isinstance(data, list | tuple):
        return [_told(each, places, translate, is_said) for each in data]
    return translate(data) if is_said else data
