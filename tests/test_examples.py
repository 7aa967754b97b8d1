"""The examples run."""

import ast
import os
import re
import subprocess
import sys

import nbformat
import pytest
import torch
from loading import ROOT, load


def test_training_by_hand_lowers_the_loss(tmp_path):
    options = ["--num-pairs", "200", "--steps", "51", "--batch-size", "8"]
    shown = subprocess.run(
        [sys.executable, ROOT / "examples" / "train_by_hand.py", *options],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
    ).stdout
    first, *_, last = map(float, re.findall(r"loss (\S+)", shown))
    assert last < first - 0.5
    assert shown.count("translation  ") == 3


def processes(number, example, *options):
    """What an example says that this many processes run."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    words = [*torchrun, str(number)] if number > 1 else []
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment["PYTHONWARNINGS"] = "error:FSDP2"  # such as of views
    return subprocess.run(
        [sys.executable, *words, ROOT / "examples" / example, *options],
        check=True,
        capture_output=True,
        text=True,
        env=environment | {"CUDA_VISIBLE_DEVICES": ""},
    ).stdout


def sharded(folder, number):
    """The weights of an example after three steps, and what its processes said."""
    file = folder / f"{number}.pt"
    shown = processes(number, "fsdp2.py", "--steps", "3", "--out", file)
    kept = [int(n.replace(",", "")) for n in re.findall(r"keeps (\S+)", shown)]
    return torch.load(file), kept, re.findall(r"loss (\S+)", shown)


@pytest.mark.skipif(
    torch.__version__ < "2.7", reason="fully_shard on CPUs needs PyTorch 2.7"
)
def test_two_processes_that_share_all_tensors_train_the_model_of_one(tmp_path):
    whole, (all_numbers,), losses = sharded(tmp_path, 1)
    parts, kept, other_losses = sharded(tmp_path, 2)
    assert whole.keys() == parts.keys()
    for name, weight in whole.items():
        torch.testing.assert_close(parts[name], weight, rtol=0, atol=1e-12)
    assert len(set(losses)) == 3
    assert other_losses == losses
    assert sum(kept) == all_numbers
    assert kept[0] == pytest.approx(all_numbers / 2, rel=0.02)


def test_two_processes_with_half_of_adams_moments_take_the_steps_of_adam():
    pattern = r"process (\d) of 2: (\S+) of (\S+) moments, weights at most (\S+) apart"
    found = re.findall(pattern, processes(2, "sharded_adam.py"))
    assert sorted(rank for rank, *_ in found) == ["0", "1"]
    for _, own, whole, apart in found:
        own, whole = (int(number.replace(",", "")) for number in (own, whole))
        assert own == -(-whole // 4) * 2  # the weights are rounded up to pairs
        assert float(apart) < 1e-12


@pytest.mark.parametrize(
    ("example", "missing"),
    [("marian/marian.py", "huggingface_hub"), ("ctranslate2/export.py", "ctranslate2")],
)
def test_an_example_names_the_command_that_installs_what_it_needs(
    tmp_path, example, missing
):
    (tmp_path / f"{missing}.py").write_text("raise ImportError('it is missing')")
    ended = subprocess.run(
        [sys.executable, ROOT / "examples" / example],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )
    install = f"-r examples/{example.partition('/')[0]}/requirements.txt"
    assert re.fullmatch(
        rf"\w+\.py: error: it is missing; .*: pip install .*{install}\n", ended.stderr
    )
    readme = (ROOT / "examples" / example).with_name("README.md").read_text("utf-8")
    command = ended.stderr.strip().partition("root: ")[2]
    assert f"\n{command}\n" in readme


def test_the_course_in_colab_has_the_parts_of_the_course():
    tool = load("tools/make_course.py")
    written = nbformat.read(tool.PATH, as_version=4)
    assert written == tool.course(), "run: book/tools/make_course.py"
    for cell in written.cells:
        if cell.source.startswith("%%writefile"):
            ast.parse(cell.source.partition("\n")[2])
