"""Writes the page around a trained model: weights of 8 bits, and the scripts.

The page also opens as a file. There browsers refuse modules, workers and data that lie
in files of their own, so the modules are joined into one script, and the weights are a
script, too.

Paper: –
Chapter: 03_model_architecture, attention_visualizations
Tests: tests/package/page/test_export.py, tests/package/page/test_in_browser.py
"""

import base64
import json
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int8
from torch import Tensor

from transformer_lite.page import EXPLORER
from transformer_lite.runs.files import renamed_when_whole
from transformer_lite.runs.folder import find_run
from transformer_lite.runs.weights import Weights, read_weights
from transformer_lite.tokenizer import Tokenizer

SOURCES = Path(__file__).parent
WORKER = ("tokenizer.js", "transformer.js", "worker.js")
"""The modules that run beside the page, each after those it imports."""


class Quantized(NamedTuple):
    """A matrix in numbers of 8 bits: row i is `numbers[i] * scales[i]`."""

    numbers: Int8[Tensor, "rows columns"]
    scales: Float[Tensor, " rows"]


def quantize(matrix: Float[Tensor, "rows columns"]) -> Quantized:
    """Round each row to 255 evenly spaced numbers, the largest of which is exact."""
    largest = matrix.abs().amax(dim=1).clamp(min=1e-12)  # also of a row of zeros
    scales = largest / 127
    return Quantized((matrix / scales[:, None]).round().to(torch.int8), scales)


def rounded_to_8_bits(weights: Weights) -> Weights:
    """Return the weights that the page computes with, to score them in Python."""
    rounded = dict(weights)
    for name, tensor in weights.items():
        if tensor.dim() > 1:
            numbers, scales = quantize(tensor.float())
            rounded[name] = numbers * scales[:, None]
    return rounded


def write_page(run: str | Path, out: Path, weights: Path | None = None) -> None:
    """Write a folder whose index.html translates with a run's model.

    Args:
        run: The folder that `train` wrote, or the name of a model of the package.
        out: The folder to make.
        weights: The checkpoint; by default the run's default weights.

    Raises:
        ValueError: The folder holds no run, or `out` is already there.
    """
    model = exported(run, weights)
    with renamed_when_whole(out) as folder:
        write_files(model, folder)


def write_files(model: dict[str, Any], folder: Path) -> None:
    """Write index.html and all that it loads into a folder.

    Args:
        model: What `exported` returns.
        folder: A folder that is there; the book's, for example.
    """
    worker = "\n".join(_without_modules(SOURCES / name) for name in WORKER)
    explorer = EXPLORER.read_text(encoding="utf-8")
    page = (SOURCES / "page.js").read_text(encoding="utf-8")
    script = page.replace("EXPLORER_SOURCE;", explorer)
    script = script.replace('"WORKER_SOURCE"', json.dumps(worker))
    styles = [EXPLORER.with_suffix(".css"), SOURCES / "page.css"]
    text = json.dumps(model, ensure_ascii=False, separators=(",", ":"))
    for name, content in (
        ("index.html", (SOURCES / "index.html").read_text(encoding="utf-8")),
        ("page.css", "\n".join(path.read_text(encoding="utf-8") for path in styles)),
        ("page.js", script),
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
    recipe = folder.recipe()
    tokenizer = Tokenizer.load(folder.tokenizer)
    tensors = read_weights(Path(weights or folder.default_weights()))
    source, target = folder.training_data()["languages"]
    return {
        "name": folder.path.resolve().name,
        "languages": [source, target],
        "config": vars(recipe.model),
        "search": vars(recipe.search),
        "pieces": tokenizer.pieces(range(tokenizer.vocab_size)),
        "symbols": tokenizer.symbols,
        **parameters_for_json(tensors, bits),
    }


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


def _without_modules(path: Path) -> str:
    """Return a module's text as part of one script: without `import` and `export`."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^import [^;]*;\n", "", text, flags=re.M)
    return re.sub(r"^export ", "", text, flags=re.M)
