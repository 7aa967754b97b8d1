"""The solution to "Spot the bug" of The Multi-GPU Trainer, which the chapter names."""

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import torch

from transformer_lite.batching import Batch
from transformer_lite.config import ModelConfig
from transformer_lite.model import Transformer
from transformer_lite.training.step import Objective

ROOT = Path(__file__).resolve().parents[2]
CHAPTER = ROOT / "notebooks" / "the_multi_gpu_trainer.ipynb"


def test_the_mended_line_gives_two_processes_the_gradient_of_one(tmp_path):
    cells = nbformat.read(CHAPTER, as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    (text,) = [text for text in sources if text.startswith("%%writefile wrapped.py\n")]
    (solution,) = [text for text in sources if "(wrapped(*inputs)" in text]
    (mended,) = re.findall(r"^\(wrapped\(.+\.backward\(\)$", solution, re.M)
    (line,) = [line for line in text.splitlines() if line.endswith(".backward()")]
    program = text.partition("\n")[2].replace(line, mended)
    (tmp_path / "mended.py").write_text(program, "utf-8")

    torch.manual_seed(1)
    shape = {"vocab_size": 17, "num_layers": 1, "d_model": 6, "d_ff": 7, "num_heads": 2}
    objective = Objective(Transformer(ModelConfig(**shape)).double(), 0.1)
    lists = [([[5, 7, 11]], [[5, 7, 11, 13, 3]]), ([[13, 11]], [[7]])]
    batches = [Batch.from_ids(*sides) for sides in lists]
    inputs = [(b.src_ids, b.tgt_input, b.labels, b.real) for b in batches]
    for rank in (0, 1):
        torch.save((objective, inputs[rank]), tmp_path / f"own-{rank}.pt")
    command = "-m torch.distributed.run --standalone --nproc-per-node 2 mended.py"
    path = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    run = [sys.executable, *command.split()]
    subprocess.run(run, cwd=tmp_path, env=os.environ | path, check=True)

    objective.eval()
    for one in inputs:
        objective(*one).loss.backward()
    tokens = sum(batch.tokens for batch in batches)
    for rank in (0, 1):
        found = torch.load(tmp_path / f"gradient-{rank}-of-2.pt")
        for gradient, parameter in zip(found, objective.parameters(), strict=True):
            torch.testing.assert_close(gradient, parameter.grad / tokens)
