"""The benchmarks' tables are those of their results, and the GPU's script runs."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from transformer_lite.batching import Batch
from transformer_lite.config import BASE
from transformer_lite.model import Transformer

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


def script(name):
    """A script of the benchmarks, imported."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def gpu():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield script("gpu")


def test_the_page_shows_the_results():
    path = FOLDER / "results.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert script("report").render(results) in page, "run: python benchmarks/report.py"


def test_the_gpus_script_runs_through_everything_at_a_tiny_size(gpu, tmp_path):
    out = tmp_path / "gpu.json"
    subprocess.run(
        [sys.executable, FOLDER / "gpu.py", "--tiny", "--out", out],
        check=True,
        capture_output=True,
        env={**os.environ, "COMMIT": "0123456789ab"},
    )
    results = json.loads(out.read_text(encoding="utf-8"))
    assert results["conditions"]["commit"] == "0123456789ab"
    assert list(results) == [
        "conditions",
        *(name for name, _ in gpu.sections(gpu.tiny_size())),
    ]
    assert not [name for name, found in results.items() if "error" in found]
    assert results["tests"]["exit_code"] == 0
    assert results["training base, ours"]["share_of_measured_peak"] > 0
    assert results["beam 4 base, bf16"]["output_tokens_per_sentence"] > 1
    assert results["profile base, not compiled"]["largest"]


def test_useful_operations_are_those_that_pytorch_counts(gpu):
    shape = {"vocab_size": 101, "num_layers": 2, "d_model": 24, "d_ff": 34}
    config = replace(BASE, **shape, num_heads=3, attention="explicit")
    counted = 0
    for src, tgt in (([5] * 6, [7] * 10), ([5] * 2, [7] * 4)):
        batch = Batch.from_ids([src], [tgt])
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            Transformer(config)(batch.src_ids, batch.tgt_input)
        counted += 3 * counter.get_total_flops()
    padded = Batch.from_ids([[5] * 6, [5] * 2], [[7] * 10, [7] * 4])
    assert gpu.useful_flops(config, padded) == pytest.approx(counted)


def test_lengths_are_like_those_of_wmt14(gpu):
    lengths = gpu.lengths_like_wmt14(20_000, seed=3)
    assert lengths.shape == (20_000, 2)
    assert lengths.mean() == pytest.approx(29, abs=1)
    assert lengths.min() >= 1
    assert lengths.max() == 200
