"""The benchmarks' tables are those of their results, and the GPU's script runs."""

import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from results import provenance
from transformer_lite.batching import Batch
from transformer_lite.config import BASE
from transformer_lite.model import Transformer

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
NOT_EVERYWHERE = "beartype IPython nbval pooch seaborn transformers tyro".split()
"""What Python may lack where it has torch and the packages that README.md names."""


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
    results = json.loads(path.read_text(encoding="utf-8"))
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert script("report").render(results) in page, "run: python benchmarks/report.py"


def test_a_missing_peer_is_a_row_of_the_table():
    rate = {"best": 4.0, "median": 3.0, "ours_is_faster_by": 1.0, "equal": 7}
    other = {**rate, "ours_is_faster_by": 1.5}
    part = {
        "unit": "sentences/s",
        "rates": {"ours": rate, "other": other},
        "missing": {"third": "No module named 'third'"},
    }
    table = script("report").table(part, 1, "note", {"ours": "a", "other": "b"})
    assert table[2:-1] == [
        "| ours | 4.0 | 3.0 | 1.00 × | a |",
        "| other | 4.0 | 3.0 | 1.50 × | b |",
        "| third | – | – | – | No module named 'third' |",
    ]


def test_systems_take_turns_in_processes_of_their_own(tmp_path, monkeypatch):
    (tmp_path / "systems.py").write_text(
        "import os\n"
        "def begin(name):\n"
        "    if name == 'missing':\n"
        "        raise ModuleNotFoundError('No module named third')\n"
        "    return lambda: (name, os.getpid())\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(FOLDER)
    begin = importlib.import_module("systems").begin
    in_turn = script("turns").in_turn
    given, missing = in_turn(begin, ["one", "two", "missing"], passes=2)
    assert missing == {"missing": "No module named third"}
    processes = {process for turns in given.values() for _, process in turns}
    assert len(processes) == 2
    assert os.getpid() not in processes
    assert {name: [n for n, _ in turns] for name, turns in given.items()} == {
        "one": ["one"] * 2,
        "two": ["two"] * 2,
    }


# On a GPU


def test_a_trial_of_everything_needs_little_more_than_torch(gpu, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {NOT_EVERYWHERE}:\n"
        "            raise ModuleNotFoundError(f'No module named {name}')\n"
        "sys.meta_path.insert(0, Missing())\n"
    )
    options = ["--tiny", "--seconds", "3000", "--out", tmp_path]
    subprocess.run(
        [sys.executable, FOLDER / "gpu.py", *options],
        check=True,
        capture_output=True,
        env={**os.environ, "COMMIT": "0123456789ab", "PYTHONPATH": str(tmp_path)},
    )
    results = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    conditions = results.pop("conditions")
    assert conditions["commit"] == "0123456789ab"
    assert conditions["is_tiny"]
    assert list(results) == [section.name for section in gpu.SECTIONS]
    parts = {
        (section, name): part
        for section, found in results.items()
        for name, part in found.items()
        if not name.endswith("_seconds")
    }
    assert not [name for name, part in parts.items() if "error" in part]
    left_out = {name for name, part in parts.items() if "left_out" in part}
    assert left_out == {("training speed", "base, Marian")}
    assert parts["tests", "pytest"]["exit_code"] == 0
    assert parts["training speed", "base, ours"]["model_flops_utilization"] > 0
    weights = parts["training speed", "memory, base"]
    assert weights["moments"] == 2 * weights["weights"]
    assert len(parts["chapters' tables", "one token more"]["lengths"]) == 2
    assert parts["trace", "base"]["largest"]
    assert (tmp_path / "step_base.png").exists()
    trained = parts["training for real", "Multi30k"]["results"]
    assert [run["name"] for run in trained] == ["gpu/toy-1"]
    assert trained[0]["scores"].keys() == {"valid", "test"}
    with tarfile.open(tmp_path / "results.tar.gz") as archive:
        assert "results/gpu/toy-1.test.txt.gz" in archive.getnames()
    assert parts["search", "base"]["output_tokens_per_sentence"] > 1


def test_without_a_history_a_variable_names_the_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("COMMIT", raising=False)
    assert provenance.recorded_commit() is None
    monkeypatch.setenv("COMMIT", "0123456789ab")
    assert provenance.recorded_commit() == "0123456789ab"


class Sections:
    """Sections that take as long as they like, until they are stopped."""

    def __init__(self, wanted):
        self.wanted, self.now, self.allowed = wanted, 0.0, {}

    def run(self, section, seconds):
        self.allowed[section.name] = seconds
        self.now += min(seconds, self.wanted.get(section.name, 1e9))
        yield "part", {"number": 1}

    def clock(self):
        return self.now


def run_all(gpu, wanted, budget):
    """The results, the seconds that each section got, and the seconds of all."""
    fake, written = Sections(wanted), []
    gpu.run_all(
        gpu.SECTIONS, fake.run, budget, lambda r: written.append({**r}), fake.clock
    )
    return written[-1], fake.allowed, fake.now


def test_sections_are_in_the_order_of_their_worth_and_fit_in_nine_minutes(gpu):
    results, allowed, seconds = run_all(gpu, {}, gpu.BUDGET)
    assert allowed == {section.name: section.seconds for section in gpu.SECTIONS}
    assert list(results) == [
        "tests",
        "training speed",
        "chapters' tables",
        "trace",
        "training for real",
        "search",
    ]
    assert seconds == gpu.BUDGET == 540


def test_time_that_is_left_goes_to_the_next_sections(gpu):
    quick = {"tests": 20, "training speed": 100, "chapters' tables": 30, "trace": 5}
    _, allowed, seconds = run_all(gpu, quick, gpu.BUDGET)
    assert allowed["training for real"] == 540 - (20 + 100 + 30 + 5) - 35
    assert allowed["search"] == 35
    assert seconds == 540


def test_what_matters_less_is_shortened_or_left_out_where_time_is_short(gpu):
    results, allowed, seconds = run_all(gpu, {}, budget=275)
    assert allowed == {"tests": 80, "training speed": 170, "chapters' tables": 25}
    assert seconds == 275
    assert results["search"]["left_out"] == "only 0 of 275 seconds were left"


def test_a_section_is_stopped_at_the_end_of_its_time(gpu, tmp_path):
    setup = gpu.tiny_setup(tmp_path, tmp_path)
    found = dict(gpu.run_apart(setup, gpu.SECTIONS[0], 0.5))
    assert found == {"stopped": {"left_out": "the rest: 0 seconds were over"}}
    assert multiprocessing.active_children() == []


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
    workload = sys.modules["gpu_workload"]
    assert workload.useful_flops(config, padded) == pytest.approx(counted)


def test_lengths_are_like_those_of_wmt14(gpu):
    lengths = sys.modules["gpu_workload"].lengths_like_wmt14(20_000, seed=3)
    assert lengths.shape == (20_000, 2)
    assert lengths.mean() == pytest.approx(29, abs=1)
    assert lengths.min() >= 1
    assert lengths.max() == 200


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("pytorch_flash::flash_fwd_kernel<cutlass::bfloat16_t>", "attention"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32", "matrix products"),
        ("vectorized_layer_norm_kernel<float, float>", "normalization"),
        ("multi_tensor_apply_kernel<FusedAdamMathFunctor>", "optimizer"),
        ("fused_dropout_kernel_vec", "dropout"),
        ("Memcpy HtoD (Pinned -> Device)", "copies"),
        ("vectorized_elementwise_kernel<4, AddFunctor>", "everything else"),
    ],
)
def test_a_kernel_is_named_by_what_it_does(gpu, kernel, kind):
    assert sys.modules["gpu_trace"].kind_of(kernel) == kind
