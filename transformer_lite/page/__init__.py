"""A web page around a trained model, and the explorer of its attention."""

import json
import re
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent
EXPLORER = ("messages.js", "dom.js", "explorer.js")
"""The modules of the attention explorer; its style sheet is explorer.css."""
MESSAGE = re.compile(r"(?<!\w)t`((?:\$\{[^{}`]*\}|[^`$])*)`")
"""A message in a script; its values hold neither braces nor other templates."""


def text_of(*names: str) -> str:
    """Return the text of several of the page's files, one after the other."""
    return "\n".join((SOURCES / name).read_text(encoding="utf-8") for name in names)


def messages_of(*modules: str) -> list[str]:
    """Return what modules say to a reader, with numbered places for the values."""
    code = re.sub(r"/\*.*?\*/", "", text_of(*modules), flags=re.S)
    found = []
    for message in MESSAGE.findall(code):
        places = count()
        text = re.sub(r"\$\{[^{}]*\}", lambda _, n=places: f"{{{next(n)}}}", message)
        found.append(text.replace("\\u00a0", "\xa0"))
    return list(dict.fromkeys(found))


def json_of(value: Any) -> str:
    """Return a value as JSON that cannot end the script element around it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def script_of(
    *modules: str, messages: Mapping[str, str] | None = None, **constants: Any
) -> str:
    """Join modules into one script, because a page that opens as a file loads none.

    Args:
        modules: Each after those that it imports.
        messages: Translations of what the modules say, and of more; by default the
            script speaks English.
        constants: What the script finds under these names, as JSON.
    """
    said = messages or {}
    used = {text: said.get(text, text) for text in messages_of(*modules)}
    if used := {text: new for text, new in used.items() if new != text}:
        constants["MESSAGES"] = used
    names = "".join(
        f"const {name} = {json_of(constants[name])};\n" for name in constants
    )
    code = re.sub(r"^(import [^;]*;\n|export )", "", text_of(*modules), flags=re.M)
    return f'(() => {{\n"use strict";\n{names}{code}}})();\n'
