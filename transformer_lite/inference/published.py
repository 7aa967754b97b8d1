"""Translators that others have trained and published: Marian's, from Hugging Face.

They search as their own settings say, in our way, which differs from that of
transformers in this:

- Its ``length_penalty`` p divides a log-probability by length^p, α divides it by
  ((5 + length) / 6)^α. The two rank alike without a penalty, p = α = 0, and nearly
  alike for long outputs with p = α, which is what we take.
- It goes on while an unfinished output is likelier than the least of those finished,
  ours at the latest until as many are finished as there are beams (D13), as it does
  with ``early_stopping=True``.
- It ends what reaches the longest length at no cost; ours pays for that EOS (D10).

Without a penalty, with early stopping and room enough, the outputs are equal.

Paper: §6.1
Chapter: attention_visualizations
Tests: tests/inference/test_published.py
"""

import json
import math
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pooch
import torch
from safetensors.torch import load_file
from torch import Tensor

from transformer_lite.config import SearchConfig
from transformer_lite.files import new_folder
from transformer_lite.inference.marian import MarianConfig, assemble
from transformer_lite.inference.marian_tokenizer import MarianTokenizer, Numbering
from transformer_lite.inference.translator import Translator

REMEDY = "download the model again"

HUB = "hf:"
"""What the name of a model on Hugging Face begins with here."""

ENDPOINT_VARIABLE = "HF_ENDPOINT"
"""Environment variable: a mirror of Hugging Face, as its own programs call it."""

WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Files of weights; the first that is there is read."""

NEEDED = ("vocab.json", "source.spm", "target.spm")
OPTIONAL = ("target_vocab.json", "generation_config.json")


def is_published(model: str | Path) -> bool:
    """Whether it names a published model or a folder of one, rather than a run.

    A run's `config.json` is a recipe; that of a published model says its type.
    """
    try:
        return _is_on_hub(model) or "model_type" in _json(Path(model, "config.json"))
    except ValueError:
        return False


def _is_on_hub(model: str | Path) -> bool:
    return str(model).startswith(HUB)


def load_published(model: str | Path) -> Translator:
    """The translator of a Marian model.

    Args:
        model: "hf:" and its name on Hugging Face, as "hf:Helsinki-NLP/opus-mt-en-de",
            from where it is downloaded once; or a folder with the same files.

    Raises:
        ValueError: It cannot be downloaded, a file is missing or damaged, or it is a
            model that is not computed here; the message names the file.
    """
    model = Path(model)
    folder = _downloaded(model.as_posix()) if _is_on_hub(model) else model
    _require((folder / "config.json").exists(), model, "config.json")
    config = _config(folder / "config.json")
    for file in NEEDED:
        _require((folder / file).exists(), model, file)
    shared, own = folder / "vocab.json", folder / "target_vocab.json"
    source = Numbering.read(shared, config.side_size("encoder"))
    target = Numbering.read(
        own if own.exists() else shared,
        config.side_size("decoder"),
        config.decoder_start_token_id,
    )
    tokenizers = [
        MarianTokenizer.load(folder / f"{side}.spm", numbering.pieces)
        for side, numbering in (("source", source), ("target", target))
    ]
    path = next((folder / n for n in WEIGHTS if (folder / n).exists()), None)
    _require(path is not None, model, " or ".join(WEIGHTS))
    try:
        transformer = assemble(config, _tensors(path), source.order, target.order)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if torch.cuda.is_available():
        transformer.cuda()
    search = _search(folder, config.max_position_embeddings)
    return Translator(transformer.eval(), tokenizers[0], search, tokenizers[1])


def _config(path: Path) -> MarianConfig:
    try:
        return MarianConfig.from_dict(_json(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _json(path: Path) -> dict[str, Any]:
    """The table in a JSON file."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot be read ({error}); {REMEDY}") from error
    if not isinstance(table, dict):
        raise ValueError(f"holds no table of settings; {REMEDY}")
    return table


def _tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by their names; a pickle with anything else is refused."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise anything
        if other := re.search(r"GLOBAL ([\w.]+)", str(error)):
            raise ValueError(
                f"refused: it holds {other[1]} beside tensors, and to read that can "
                f"run any program; give the same weights as {WEIGHTS[0]}"
            ) from error
        raise ValueError(
            f"not a file of weights ({type(error).__name__}); {REMEDY}"
        ) from error
    table = tensors if isinstance(tensors, dict) else {"": tensors}
    for name, value in table.items():
        if not isinstance(value, Tensor):
            raise ValueError(
                f"not a table of tensors ({name!r} is of the type "
                f"{type(value).__name__}); {REMEDY}"
            )
    return tensors


def _search(folder: Path, max_len: int) -> SearchConfig:
    """How a model asks to be searched; an older one does so in `config.json`."""
    path = folder / "generation_config.json"
    path = path if path.exists() else folder / "config.json"
    default = SearchConfig()
    try:
        given = {name: v for name, v in _json(path).items() if v is not None}
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    beams = given.get("num_beams", default.beam_size)
    penalty = given.get("length_penalty", 1.0)  # as transformers has it
    if type(beams) is not int or beams < 1:
        raise ValueError(f"{path}: num_beams = {beams!r}; write a whole number from 1")
    if type(penalty) not in (int, float) or not 0 <= penalty < math.inf:
        raise ValueError(
            f"{path}: length_penalty = {penalty!r}, and only 0 or more is computed "
            "here; write such a number"
        )
    extra = min(default.max_extra, max_len // 2)
    return replace(default, beam_size=beams, alpha=penalty, max_extra=extra)


def _downloaded(name: str) -> Path:
    """The folder of a model on Hugging Face, which appears when all of it is there."""
    repository = name.removeprefix(HUB)
    if not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", repository):
        raise ValueError(f"{name}: not the name of a model; give hf:OWNER/MODEL")
    folder = pooch.os_cache("transformer_lite") / "huggingface" / repository
    if folder.is_dir():
        return folder
    with new_folder(folder) as partial:
        # Before all that is large.
        config = partial / "config.json"
        _require(_fetch(repository, config), name, "config.json")
        _config(config)
        for file in NEEDED:
            _require(_fetch(repository, partial / file), name, file)
        for file in OPTIONAL:
            _fetch(repository, partial / file)
        found = any(_fetch(repository, partial / file) for file in WEIGHTS)
        _require(found, name, " or ".join(WEIGHTS))
    return folder


def _require(found: bool, name: str | Path, file: str) -> None:
    if not found:
        raise ValueError(
            f"{name}: has no {file}; give a Marian model, all of its files, such as "
            "hf:Helsinki-NLP/opus-mt-en-de"
        )


def _fetch(repository: str, path: Path) -> bool:
    """Download a file of a model; whether there is one."""
    endpoint = os.environ.get(ENDPOINT_VARIABLE, "https://huggingface.co").rstrip("/")
    url = f"{endpoint}/{repository}/resolve/main/{path.name}"
    bar = path.name in WEIGHTS
    try:
        pooch.HTTPDownloader(progressbar=bar, chunk_size=2**20)(url, str(path), None)
    except OSError as error:  # requests' errors are such
        path.unlink(missing_ok=True)
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status == 404:
            return False
        if status in (401, 403):
            raise ValueError(
                f"hf:{repository}: there is no such model, or not for everybody; "
                "check the name on https://huggingface.co"
            ) from error
        raise ValueError(
            f"{url}: cannot be downloaded ({type(error).__name__}); try again "
            f"later, name a mirror by {ENDPOINT_VARIABLE}, or give a folder with the "
            "model's files"
        ) from error
    return True
