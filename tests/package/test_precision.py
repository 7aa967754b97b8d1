"""The choice of precision and device."""

import pytest
import torch

from transformer_lite.precision import (
    autocast,
    choose_device,
    choose_precision,
    peak_tflops,
    tf32_if_chosen,
)

CPU = torch.device("cpu")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("requested", ["fp32", "tf32", "bf16", "fp16"])
def test_what_is_asked_for_is_chosen_whatever_the_processor(tmp_path, requested):
    info = tmp_path / "cpuinfo"
    info.write_text("flags\t\t: amx_bf16\n")
    assert choose_precision(requested, CPU, info) == requested


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("fpu avx2 amx_bf16 amx_tile", "bf16"),
        ("fpu avx512_bf16", "fp32"),
        ("fpu not_amx_bf16_at_all", "fp32"),
    ],
)
def test_auto_is_bf16_where_the_processor_has_units_for_it(tmp_path, flags, expected):
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    assert choose_precision("auto", CPU, info) == expected
    assert choose_precision("auto", CPU, tmp_path / "nothing") == "fp32"
    assert choose_precision("auto", torch.device("meta")) == "fp32"


@pytest.mark.parametrize(
    ("capability", "expected"),
    [((9, 0), "bf16"), ((8, 0), "bf16"), ((7, 5), "fp16"), ((6, 1), "fp32")],
    ids=["H100", "A100", "T4", "GTX 1080"],
)
def test_auto_is_what_a_gpu_has_matrix_units_for(monkeypatch, capability, expected):
    def has_bf16(including_emulation):
        return including_emulation or capability >= (8, 0)

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", has_bf16)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert choose_precision("auto", torch.device("cuda")) == expected


@pytest.mark.gpu
@needs_gpu
def test_auto_asks_the_gpu():
    major = torch.cuda.get_device_capability()[0]
    expected = "bf16" if major >= 8 else "fp16" if major == 7 else "fp32"
    assert choose_precision("auto", torch.device("cuda")) == expected


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_matrix_products_inside_the_block_have_the_precision(precision, dtype):
    with autocast(precision, CPU):
        assert (torch.ones(3, 5) @ torch.ones(5, 7)).dtype == dtype
    assert (torch.ones(3, 5) @ torch.ones(5, 7)).dtype == torch.float32


@pytest.mark.parametrize(("precision", "inside"), [("tf32", "high"), ("bf16", None)])
def test_tf32_is_allowed_inside_the_block_alone(precision, inside):
    before = torch.get_float32_matmul_precision()
    with tf32_if_chosen(precision):
        assert torch.get_float32_matmul_precision() == (inside or before)
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize(
    ("name", "precision", "peak"),
    [
        ("NVIDIA H200", "bf16", 989),
        ("NVIDIA A100-SXM4-40GB", "tf32", 156),
        ("Tesla T4", "fp16", 65),
        ("Tesla T4", "fp32", None),
        ("NVIDIA L40S", "bf16", None),
    ],
)
def test_the_peak_is_that_of_the_data_sheet(monkeypatch, name, precision, peak):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: name)
    assert peak_tflops(precision, torch.device("cuda")) == peak
    assert peak_tflops(precision, CPU) is None


def test_the_device_is_the_one_asked_for_or_a_gpu_if_there_is_one():
    assert choose_device("cpu") == CPU
    assert choose_device().type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_apples_gpu_is_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"device = mps: .* no float64.*; use cpu"):
        choose_device("mps")
    with pytest.raises(ValueError, match="device = cdua: unknown; use cpu or cuda"):
        choose_device("cdua")


def test_a_gpu_is_refused_where_there_is_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ValueError, match="device = cuda: PyTorch finds no GPU"):
        choose_device("cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match="device = cuda:1: PyTorch finds 1 GPU"):
        choose_device("cuda:1")
