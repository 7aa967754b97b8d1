"""A web page around a trained model, and the explorer of its attention."""

import json
import re
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent
EXPLORER = ("dom.js", "explorer.js")
"""The modules of the attention explorer; its style sheet is explorer.css."""


def text_of(*names: str) -> str:
    """Return the text of several of the page's files, one after the other."""
    return "\n".join((SOURCES / name).read_text(encoding="utf-8") for name in names)


def script_of(*modules: str, **constants: Any) -> str:
    """Join modules into one script, because a page that opens as a file loads none.

    Args:
        modules: Each after those that it imports.
        constants: What the script finds under these names, as JSON.
    """
    names = "".join(
        f"const {name} = {json.dumps(constants[name])};\n" for name in constants
    )
    code = re.sub(r"^(import [^;]*;\n|export )", "", text_of(*modules), flags=re.M)
    return f'(() => {{\n"use strict";\n{names}{code}}})();\n'
