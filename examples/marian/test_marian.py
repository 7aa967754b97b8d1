"""Published models are found, read and translate."""

import io
import re
import sys
from pathlib import Path

import marian
import pytest
import torch
from marian import REVISIONS, load_marian
from test_marian_tokenizer import ENGLISH, write_tokenizer
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

from transformer_lite.config import SearchConfig

NAME = "Helsinki-NLP/opus-mt-en-de"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a Marian model of random weights, saved by transformers."""
    folder = tmp_path_factory.mktemp("marian")
    size = write_tokenizer(folder, user_defined_symbols=["▁making"])
    config = MarianConfig(
        vocab_size=size,
        d_model=16,
        encoder_layers=5,
        decoder_layers=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        encoder_attention_heads=8,
        decoder_attention_heads=2,
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=300,
        pad_token_id=size - 1,
        decoder_start_token_id=size - 1,
        forced_eos_token_id=None,
    )
    torch.manual_seed(5)
    model = MarianMTModel(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter += 0.3 * torch.randn_like(parameter)
        model.final_logits_bias += torch.randn_like(model.final_logits_bias)
    model.generation_config.bad_words_ids = [[size - 1]]
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def hub(folder, monkeypatch):
    """Replace the download by the folder; list what is asked for."""
    asked = []

    def snapshot_download(repository, revision, allow_patterns):
        asked.append((repository, revision))
        return str(folder)

    monkeypatch.setattr(marian, "snapshot_download", snapshot_download)
    return asked


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_folder_translates_as_transformers_does(folder):
    theirs = MarianMTModel.from_pretrained(folder).eval()
    tokenizer = MarianTokenizer.from_pretrained(folder)
    search = SearchConfig(beam_size=1, alpha=0.0, max_extra=30)
    for text in ENGLISH:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        room = ids.size(1) - 1 + 30
        found = theirs.generate(
            input_ids=ids, num_beams=1, max_length=room, do_sample=False
        )
        expected = tokenizer.decode(found[0], skip_special_tokens=True)
        assert load_marian(folder, device="cpu").translate(text, search) == expected
        assert expected


def test_pickled_weights_are_read_alike(folder, tmp_path):
    for path in folder.iterdir():
        if path.name != "model.safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    tensors = MarianMTModel.from_pretrained(folder).state_dict()
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    ours = (load_marian(path).model.state_dict() for path in (tmp_path, folder))
    torch.testing.assert_close(*ours, atol=0, rtol=0)


def test_attention_has_the_pieces_of_both_languages(folder):
    found = load_marian(folder).attention(ENGLISH[0], "der rote Hund")
    assert "".join(found.source) == "▁the▁r<unk>d▁dog▁s<unk><unk>s▁a▁blu<unk><unk></s>"
    assert "".join(found.target) == "<s>▁d<unk>r▁rot<unk>▁Hund"
    sizes = len(found.target), len(found.source)
    assert found.encoder.shape == (5, 8, sizes[1], sizes[1])
    assert found.decoder.shape == (2, 2, sizes[0], sizes[0])
    assert found.cross.shape == (2, 2, *sizes)


def test_a_known_model_is_downloaded_at_its_commit(hub):
    load_marian(NAME)
    assert hub == [(NAME, REVISIONS[NAME])]


def test_another_model_is_downloaded_at_the_commit_that_is_given(hub):
    load_marian("some/model", revision="a" * 40)
    assert hub == [("some/model", "a" * 40)]


def test_another_model_without_a_commit_is_refused(hub):
    with pytest.raises(ValueError, match="some/model: no commit is known here; take"):
        load_marian("some/model")
    assert hub == []


def test_lines_are_translated(folder, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["marian.py", str(folder)])
    monkeypatch.setattr(sys, "stdin", io.StringIO("the dog\n\na cat\n"))
    marian.main()
    expected = load_marian(folder).translate(["the dog", "", "a cat"])
    assert capsys.readouterr().out.splitlines() == expected


def test_the_readme_draws_figure_3(hub, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    text = Path(__file__).with_name("README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(program, {})
    assert (tmp_path / "figure_3.png").stat().st_size > 10_000
