"""The choice of precision, and what bf16 does to a model."""

import subprocess
import sys

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lite.attention import ATTENTION, fused_attention
from transformer_lite.config import ModelConfig
from transformer_lite.loss import label_smoothed_loss
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import BOS, EOS, PAD
from transformer_lite.training.hardware import autocast, choose_precision

CPU = torch.device("cpu")
SRC = torch.tensor([[5, 7, 11, 13, EOS], [17, 6, EOS, PAD, PAD]])
TGT = torch.tensor([[BOS, 9, 10], [BOS, 15, PAD]])
LABELS = torch.tensor([[9, 10, EOS], [15, EOS, PAD]])

every_attention = pytest.mark.parametrize("attention", ATTENTION)


@pytest.mark.parametrize("requested", ["fp32", "bf16"])
@pytest.mark.parametrize("flags", ["fpu sse2", "amx_bf16"])
def test_what_is_asked_for_is_chosen_whatever_the_processor(tmp_path, requested, flags):
    info = tmp_path / "cpuinfo"
    info.write_text(f"flags\t\t: {flags}\n")
    assert choose_precision(requested, CPU, info) == requested


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("fpu avx2 amx_bf16 amx_tile", "bf16"),
        ("fpu avx512_bf16", "fp32"),
        ("fpu avx512f avx2", "fp32"),
        ("fpu not_amx_bf16_at_all", "fp32"),
    ],
)
def test_auto_is_bf16_where_the_processor_has_units_for_it(tmp_path, flags, expected):
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    assert choose_precision("auto", CPU, info) == expected


def test_auto_is_fp32_where_the_processor_is_unknown(tmp_path):
    assert choose_precision("auto", CPU, tmp_path / "nothing") == "fp32"


def test_auto_is_fp32_on_other_devices():
    assert choose_precision("auto", torch.device("meta")) == "fp32"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_auto_asks_the_gpu():
    major = torch.cuda.get_device_capability()[0]
    expected = "bf16" if major >= 8 else "fp16" if major == 7 else "fp32"
    assert choose_precision("auto", torch.device("cuda")) == expected


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        ((9, 0), "bf16"),
        ((8, 0), "bf16"),
        ((7, 5), "fp16"),
        ((7, 0), "fp16"),
        ((6, 1), "fp32"),
    ],
    ids=["H100", "A100", "T4", "V100", "GTX 1080"],
)
def test_auto_is_what_a_kind_of_gpu_has_matrix_units_for(
    monkeypatch, capability, expected
):
    def has_bf16(including_emulation):
        return including_emulation or capability >= (8, 0)

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", has_bf16)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert choose_precision("auto", torch.device("cuda")) == expected


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_matrix_products_inside_the_block_have_the_precision(precision, dtype):
    with autocast(precision, CPU):
        assert (torch.ones(3, 5) @ torch.ones(5, 7)).dtype == dtype
    assert (torch.ones(3, 5) @ torch.ones(5, 7)).dtype == torch.float32


def loss_and_gradient(attention, precision):
    """Loss and all gradients of one small model."""
    torch.manual_seed(1)
    shape = {"vocab_size": 29, "num_layers": 2, "d_model": 32, "d_ff": 67}
    model = Transformer(ModelConfig(**shape, dropout=0.0, attention=attention))
    with autocast(precision, CPU):
        logits = model(SRC, TGT)
    sums = label_smoothed_loss(logits, LABELS, 0.1, PAD)
    sums.loss.backward()
    return sums.loss.detach(), torch.cat([p.grad.flatten() for p in model.parameters()])


@every_attention
def test_loss_in_bf16_is_near_fp32(attention):
    rounded, exact = (loss_and_gradient(attention, p)[0] for p in ("bf16", "fp32"))
    assert rounded != exact
    assert_close(rounded, exact, rtol=0.02, atol=0)


@every_attention
def test_gradient_in_bf16_points_where_fp32s_does(attention):
    rounded, exact = (loss_and_gradient(attention, p)[1] for p in ("bf16", "fp32"))
    assert rounded.dtype == torch.float32
    assert (rounded - exact).norm() < 0.05 * exact.norm()


def test_attention_on_a_cpu_runs_in_fp32_under_bf16_autocast(monkeypatch):
    original, seen = F.scaled_dot_product_attention, []

    def kernel(query, key, value, **options):
        output = original(query, key, value, **options)
        seen.append((query.dtype, output.dtype))
        return output

    monkeypatch.setattr(F, "scaled_dot_product_attention", kernel)
    inputs = torch.randn(3, 2, 5, 7).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        assert fused_attention(*inputs).dtype == torch.bfloat16
    assert seen == [(torch.float32, torch.float32)]


SCRIPT = """
import resource
import torch
from transformer_lite.training.hardware import keep_freed_memory

def pages_cleared():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(4_000_000)  # 16 MB
        torch.ones(16_000_000)  # 64 MB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

keep_freed_memory()
pages_cleared()
print(pages_cleared())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="for the allocator of Linux")
def test_memory_is_not_cleared_again():
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 1_000  # without the call some 195,000 pages of 4 KB
