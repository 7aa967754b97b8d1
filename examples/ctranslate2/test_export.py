"""An exported model translates as the model of the package."""

import os
import re
import subprocess
import sys
from pathlib import Path

import ctranslate2
import pytest
import torch
from export import export_ctranslate2

from transformer_lite import Translator
from transformer_lite.config import ModelConfig, SearchConfig
from transformer_lite.model import Transformer
from transformer_lite.tokenizer import BOS, EOS

HERE = Path(__file__).parent
RUN = "multi30k_en_de"
SENTENCES = [
    "A dog runs on the beach.",
    "Two men in blue shirts are standing on a ladder.",
    "A little girl climbs into a wooden playhouse.",
    "A man in a blue shirt is standing on a ladder cleaning a window.",
    "People are sitting at tables outside a restaurant.",
    "A young woman is reading a book in the park.",
]


@pytest.fixture(scope="module")
def translator():
    return Translator.load(RUN, device="cpu")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder that the command line writes."""
    folder = tmp_path_factory.mktemp("export") / "model"
    subprocess.run([sys.executable, HERE / "export.py", RUN, folder], check=True)
    return folder


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_are_equal(exported, translator, beam_size):
    tokenizer = translator.tokenizer
    sources = [tokenizer.pieces(tokenizer.encode(text)) for text in SENTENCES]
    found = ctranslate2.Translator(str(exported), intra_threads=1).translate_batch(
        sources, beam_size=beam_size, length_penalty=0, min_decoding_length=0
    )
    search = SearchConfig(beam_size=beam_size, alpha=0.0)
    expected = [
        tokenizer.pieces(out.ids) for out in translator.hypotheses(SENTENCES, search)
    ]
    assert [result.hypotheses[0] for result in found] == expected


def test_scores_of_tokens_are_equal_with_learned_positions(translator, tmp_path):
    tokenizer = translator.tokenizer
    shape = {"num_layers": 1, "d_model": 48, "d_ff": 80, "num_heads": 3, "max_len": 89}
    torch.manual_seed(3)
    config = ModelConfig(vocab_size=tokenizer.vocab_size, positions="learned", **shape)
    random = Translator(Transformer(config).eval(), tokenizer, SearchConfig())
    export_ctranslate2(random, tmp_path / "model")
    ids = [tokenizer.encode(text) for text in SENTENCES[:2]]
    (scored,) = ctranslate2.Translator(str(tmp_path / "model")).score_batch(
        *([tokenizer.pieces(part)] for part in ids)
    )
    tgt = torch.tensor([[BOS, *ids[1], EOS]])
    with torch.no_grad():
        logits = random.model(torch.tensor([[*ids[0], EOS]]), tgt[:, :-1])
    expected = logits.log_softmax(dim=-1)[0].gather(1, tgt[0, 1:, None])[:, 0]
    torch.testing.assert_close(
        torch.tensor(scored.log_probs), expected, atol=1e-4, rtol=0
    )


def test_the_program_in_the_readme_translates(exported, translator):
    text = (HERE / "README.md").read_text(encoding="utf-8")
    program, *_ = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shown = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        cwd=exported,
    ).stdout
    expected = translator.translate("A dog runs.", SearchConfig(alpha=0.0))
    assert shown == f"{expected}\n"


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux's loader")
@pytest.mark.parametrize(
    ("imports", "is_shared"),
    [("ctranslate2, torch", False), ("torch, ctranslate2", True), ("export", False)],
)
def test_imported_before_pytorch_it_keeps_an_openmp_of_its_own(
    imports, is_shared, tmp_path
):
    subprocess.run(
        [sys.executable, "-c", f"import {imports}"],
        check=True,
        cwd=HERE,
        env={**os.environ, "LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": tmp_path / "log"},
    )
    (log,) = tmp_path.iterdir()
    users = r"(libctranslate2|libtorch_cpu)\S* \[0\] to (\S+) .*`GOMP_parallel'"
    openmp = dict(re.findall(users, log.read_text(encoding="utf-8")))
    assert (len({*openmp.values()}) == 1) == is_shared


@pytest.mark.parametrize("width", [{"d_k": 11}, {"d_v": 11}])
def test_heads_of_another_width_are_refused(translator, tmp_path, width):
    config = ModelConfig(vocab_size=9, d_model=48, num_heads=3, **width)
    other = Translator(Transformer(config), translator.tokenizer, SearchConfig())
    with pytest.raises(ValueError, match=r"11.*width d_model / num_heads = 16 alone"):
        export_ctranslate2(other, tmp_path / "model")


def test_an_existing_folder_is_left_alone(translator, tmp_path):
    with pytest.raises(ValueError, match="already there"):
        export_ctranslate2(translator, tmp_path)
    assert list(tmp_path.iterdir()) == []
