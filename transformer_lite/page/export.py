"""Writes the page around a trained model: weights of 8 bits, and the scripts.

The page also opens as a file. There browsers refuse modules, workers and data that lie
in files of their own, so the modules are joined into one script, and the weights are a
script, too.

Paper: –
Chapter: 03_model_architecture, attention_visualizations
Tests: tests/package/page/test_export.py, tests/package/page/test_in_browser.py
"""

import base64
import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from torch import nn

from transformer_lite.inference.translator import Translator
from transformer_lite.page import EXPLORER, script_of, text_of
from transformer_lite.page.first_answer import first_answer
from transformer_lite.parsing.trees import TREES, TREES_WITH_WORDS
from transformer_lite.runs.files import renamed_when_whole
from transformer_lite.runs.folder import find_run
from transformer_lite.runs.weights import Weights, quantize, weights_of

WORKER = ("messages.js", "tokenizer.js", "transformer.js", "account.js", "worker.js")
"""The modules that run beside the page, each after those that it imports."""
PAGE = (
    *EXPLORER, "state.js", "link.js", "words.js", "sentence.js", "pieces.js",
    "python.js", "search.js", "account_panel.js", "attention.js", "experiments.js",
    "page.js",
)  # fmt: skip
"""The modules of the page itself."""
TITLE = "A Transformer in this page"
"""The title of index.html."""
WEIGHTS = ("pieces", "symbols", "tensors", "data")
"""What model.js holds of a model; the page itself knows the rest."""


def write_page(run: str | Path, out: Path, weights: Path | None = None) -> None:
    """Write a folder whose index.html translates or parses with a run's model.

    Args:
        run: The folder that `train` wrote, or the name of a model of the package.
        weights: The checkpoint; by default the run's default weights.

    Raises:
        ValueError: The folder holds no run, weights or tokenizer belong to another
            model, or `out` is already there.
    """
    model = exported(run, weights)
    with renamed_when_whole(out) as folder:
        write_files(model, folder)


def write_files(
    model: dict[str, Any],
    folder: Path,
    language: str = "en",
    messages: Mapping[str, str] | None = None,
) -> None:
    """Write index.html and all that it loads into a folder.

    Args:
        model: What `exported` returns.
        folder: A folder that is there; the book's, for example.
        language: Which one the page speaks, as HTML names it.
        messages: Translations to this language; without one, a message is English.
    """
    about = {name: of for name, of in model.items() if name not in WEIGHTS}
    weights = {name: model[name] for name in ("name", *WEIGHTS)}
    text = json.dumps(weights, ensure_ascii=False, separators=(",", ":"))
    title = html.escape((messages or {}).get(TITLE, TITLE))
    index = text_of("index.html").replace(TITLE, title)
    worker = script_of(*WORKER, messages=messages)
    page = script_of(*PAGE, messages=messages, WORKER=worker, MODEL=about)
    for name, content in (
        ("index.html", index.replace('lang="en"', f'lang="{language}"')),
        ("page.css", text_of("explorer.css", "page.css")),
        ("page.js", page),
        ("model.js", f"liveTranslatorModel({text});\n"),
    ):
        (folder / name).write_text(content, encoding="utf-8")


def exported(
    run: str | Path, weights: Path | None = None, bits: Literal[8, 32] = 8
) -> dict[str, Any]:
    """Return all that the scripts need of a model, for JSON.

    Arguments and errors are those of `write_page`. `bits` is for each number of a
    matrix: 32 keeps the exact weights, for comparison.
    """
    folder = find_run(run)
    translator = Translator.load(run, weights, device="cpu")
    tokenizer, data = translator.tokenizer, folder.training_data()
    is_parser = data["languages"][1] in (TREES, TREES_WITH_WORDS)
    parameters = parameters_for_json(weights_of(translator.model), bits)
    example = data.get("example", "")
    if bits == 8:
        _round_to_8_bits(translator.model)
    return {
        "name": folder.path.resolve().name,
        "task": "parsing" if is_parser else "translation",
        "languages": data["languages"],
        "example": example,
        "answer": first_answer(translator, example),
        "config": vars(translator.model.config),
        "search": vars(translator.search),
        "pieces": tokenizer.pieces(range(tokenizer.vocab_size)),
        "symbols": tokenizer.symbols,
        **parameters,
    }


def _round_to_8_bits(model: nn.Module) -> None:
    """Give the model the weights that the page computes with."""
    for parameter in model.parameters():
        if parameter.dim() == 2:
            numbers, scales = quantize(parameter.detach())
            parameter.data = numbers * scales[:, None]


def parameters_for_json(weights: Weights, bits: Literal[8, 32]) -> dict[str, Any]:
    """Return the name and shape of each tensor, and the numbers of all as one text."""
    tensors, data = [], bytearray()
    for name, tensor in weights.items():
        matrix = tensor.detach().float().reshape(-1, tensor.shape[-1])
        rows, columns = matrix.shape
        is_small = bits == 8 and tensor.dim() > 1
        size = 8 if is_small else 32
        tensors.append({"name": name, "rows": rows, "columns": columns, "bits": size})
        for part in reversed(quantize(matrix)) if is_small else [matrix]:
            data += part.contiguous().numpy().tobytes()
        data += bytes(-len(data) % 4)  # the next number of 32 bits begins at a multiple
    return {"tensors": tensors, "data": base64.b64encode(data).decode("ascii")}
