"""The paper's numbers as code."""

import math

import pytest
import torch

from transformer_lite.attention import scaled_dot_product_attention
from transformer_lite.config import (
    BASE,
    BIG,
    TABLE_3,
    ModelConfig,
    SearchConfig,
    TrainConfig,
)
from transformer_lite.embeddings import sinusoidal_encoding
from transformer_lite.model import Transformer
from transformer_lite.optimizer import noam_rate

# Table 3. A cell that the paper leaves blank has the base row's value; None is a
# parameter count, in millions, that the paper does not print.
#  row:   N  d_model d_ff  h  d_k  d_v  P_drop positions    parameters
PRINTED = {
    "base": (6, 512, 2048, 8, 64, 64, 0.1, "sinusoidal", 65),
    "A1": (6, 512, 2048, 1, 512, 512, 0.1, "sinusoidal", None),
    "A2": (6, 512, 2048, 4, 128, 128, 0.1, "sinusoidal", None),
    "A3": (6, 512, 2048, 16, 32, 32, 0.1, "sinusoidal", None),
    "A4": (6, 512, 2048, 32, 16, 16, 0.1, "sinusoidal", None),
    "B1": (6, 512, 2048, 8, 16, 64, 0.1, "sinusoidal", 58),
    "B2": (6, 512, 2048, 8, 32, 64, 0.1, "sinusoidal", 60),
    "C1": (2, 512, 2048, 8, 64, 64, 0.1, "sinusoidal", 36),
    "C2": (4, 512, 2048, 8, 64, 64, 0.1, "sinusoidal", 50),
    "C3": (8, 512, 2048, 8, 64, 64, 0.1, "sinusoidal", 80),
    "C4": (6, 256, 2048, 8, 32, 32, 0.1, "sinusoidal", 28),
    "C5": (6, 1024, 2048, 8, 128, 128, 0.1, "sinusoidal", 168),
    "C6": (6, 512, 1024, 8, 64, 64, 0.1, "sinusoidal", 53),
    "C7": (6, 512, 4096, 8, 64, 64, 0.1, "sinusoidal", 90),
    "D1": (6, 512, 2048, 8, 64, 64, 0.0, "sinusoidal", None),
    "D2": (6, 512, 2048, 8, 64, 64, 0.2, "sinusoidal", None),
    "D3": (6, 512, 2048, 8, 64, 64, 0.1, "sinusoidal", None),
    "D4": (6, 512, 2048, 8, 64, 64, 0.1, "sinusoidal", None),
    "E": (6, 512, 2048, 8, 64, 64, 0.1, "learned", None),
    "big": (6, 1024, 4096, 16, 64, 64, 0.3, "sinusoidal", 213),
}
COUNTED = [row for row, cells in PRINTED.items() if cells[-1] and row != "big"]


def millions(row, vocab_size):
    """Parameters of a row's model, counted without memory for them."""
    shape = {name: getattr(TABLE_3[row], name) for name in ModelConfig.__annotations__}
    with torch.device("meta"):
        model = Transformer(ModelConfig(**shape | {"vocab_size": vocab_size}))
    return model.num_parameters() / 1e6


@pytest.mark.parametrize("row", PRINTED)
def test_a_row_of_table_3_is_as_printed(row):
    config = TABLE_3[row]
    by_default = config.d_model // config.num_heads
    cells = (
        *(config.num_layers, config.d_model, config.d_ff, config.num_heads),
        *(config.d_k or by_default, config.d_v or by_default),
        *(config.dropout, config.positions),
    )
    assert cells == PRINTED[row][:-1]
    assert TABLE_3.keys() == PRINTED.keys()


@pytest.mark.parametrize("row", COUNTED)
def test_parameter_count_is_the_papers_with_a_vocabulary_of_41_100(row):
    assert round(millions(row, vocab_size=41_100)) == PRINTED[row][-1]


@pytest.mark.parametrize("row", PRINTED)
def test_parameter_count_is_the_sum_over_the_matrices_of_the_paper(row):
    layers, d_model, d_ff, heads, d_k, d_v, _, positions, _ = PRINTED[row]
    attention = heads * (2 * d_model * d_k + d_model * d_v + d_v * d_model)
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    encoder = layers * (attention + feed_forward + 2 * norm)
    decoder = layers * (2 * attention + feed_forward + 3 * norm)
    learned = 2 * 1_024 * d_model if positions == "learned" else 0
    total = 997 * d_model + encoder + decoder + learned
    assert 1e6 * millions(row, vocab_size=997) == pytest.approx(total, abs=0.5)


def test_base_is_the_default_and_has_the_vocabulary_of_section_5_1():
    assert ModelConfig() == BASE == TABLE_3["base"]
    assert BASE.vocab_size == 37_000
    assert BIG == TABLE_3["big"]


def test_training_is_that_of_section_5():
    config = TrainConfig()
    assert (config.batch_tokens, config.max_steps) == (25_000, 100_000)
    assert (config.warmup_steps, config.label_smoothing) == (4_000, 0.1)
    assert (config.rate_scale, config.average_checkpoints) == (1.0, 5)


def test_search_is_that_of_section_6_1():
    config = SearchConfig()
    assert (config.beam_size, config.alpha, config.max_extra) == (4, 0.6, 50)


@pytest.mark.parametrize("d_k", [16, 256])
def test_scores_that_enter_the_softmax_have_variance_one(d_k):
    generator = torch.Generator().manual_seed(d_k)
    query, key = torch.randn(2, 211, d_k, generator=generator).unbind()
    _, weights = scaled_dot_product_attention(query, key, key)
    scores = weights.log()  # each row less a constant
    assert scores.var(dim=-1).mean().item() == pytest.approx(1, rel=0.05)


def test_wavelengths_run_from_2_pi_to_nearly_20_000_pi():
    """The sine and the cosine of position 1 tell each pair's angle per position."""
    sin, cos = sinusoidal_encoding(2, 512)[1].double().unflatten(0, (256, 2)).unbind(1)
    wavelengths = 2 * math.pi / torch.atan2(sin, cos)
    ratios = wavelengths[1:] / wavelengths[:-1]
    assert wavelengths[0].item() == pytest.approx(2 * math.pi, rel=1e-6)
    last = wavelengths[-1] * 10_000 ** (2 / 512)
    assert last.item() == pytest.approx(10_000 * 2 * math.pi, rel=1e-6)
    assert (ratios - 10_000 ** (2 / 512)).abs().max() < 1e-5


@pytest.mark.parametrize(("d_model", "peak"), [(512, "6.99e-04"), (1_024, "4.94e-04")])
def test_the_rate_peaks_at_step_4_000(d_model, peak):
    rates = {step: noam_rate(step, d_model, 4_000) for step in range(1, 12_001)}
    assert max(rates, key=rates.get) == 4_000
    assert f"{rates[4_000]:.2e}" == peak
