"""The page's folder holds all that it needs, and the weights are rounded as stated."""

import re
import shutil

import pytest
import torch
from command_line import fails, run
from javascript import run_javascript

from transformer_lite.page.export import exported, write_page
from transformer_lite.runs.folder import PRETRAINED, find_run
from transformer_lite.runs.weights import read_weights
from transformer_lite.tokenizer import UNK, Tokenizer
from transformer_lite_book.recordings import HEADS


@pytest.mark.parametrize("bits", [8, 32])
def test_unpacked_weights_are_those_that_were_packed(bits):
    model = exported("multi30k_en_de", bits=bits)
    weights = read_weights(find_run("multi30k_en_de").default_weights())
    names = [name for name in weights if "layers.2" in name or "embedding" in name]
    body = """
        const parameters = worker.unpack(given.model);
        return given.names.map((name) => parameters[name]);
    """
    found = run_javascript(body, {"model": model, "names": names})
    for name, numbers in zip(names, found, strict=True):
        expected = weights[name].float().flatten()
        torch.testing.assert_close(torch.tensor(numbers), expected, msg=name)


def test_the_folder_is_complete_and_asks_nobody(tmp_path):
    run("page", "tatoeba_en_de", "--out", tmp_path / "page")
    text = {
        path.name: path.read_text("utf-8") for path in (tmp_path / "page").iterdir()
    }
    assert sorted(text) == ["index.html", "model.js", "page.css", "page.js"]
    assert set(re.findall(r'(?:src|href)="([^"]+)"', text["index.html"])) == {
        "page.css", "page.js", "data:,"
    }  # fmt: skip
    addresses = re.findall(r"https?://[^\"\s]+", text["page.js"] + text["page.css"])
    assert set(addresses) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    script = text["page.js"]
    assert not re.search(r"^\s*(import|export) ", script, flags=re.M)
    assert "_SOURCE" not in script


def test_the_books_model_takes_at_most_8_mb():
    assert len(exported("tatoeba_en_de_wide")["data"]) * 3 / 4 <= 8e6


def test_bad_input_gets_one_line(tmp_path, capsys):
    out = tmp_path / "page"
    assert "holds no run" in fails(capsys, "page", tmp_path, "--out", out)
    (tmp_path / "there").mkdir()
    there = ("page", "tatoeba_en_de", "--out", tmp_path / "there")
    assert "already there" in fails(capsys, *there)
    assert not (tmp_path / "page").exists()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (find_run("craft_parser").default_weights(), "in the file and .* in the model"),
        (HEADS, "missing in the (file|model)"),
    ],
)
def test_weights_of_another_model_are_refused(tmp_path, weights, message):
    with pytest.raises(ValueError, match=message):
        write_page("tatoeba_en_de", tmp_path / "page", weights)
    assert not any(tmp_path.iterdir())


def test_the_vocabulary_of_another_model_is_refused(tmp_path):
    run = shutil.copytree(find_run("tatoeba_en_de").path, tmp_path / "run")
    shutil.copy(find_run("multi30k_en_de").tokenizer, run)
    with pytest.raises(ValueError, match=r"tokenizer\.model: damaged, or another file"):
        write_page(run, tmp_path / "page")
    assert not (tmp_path / "page").exists()


@pytest.mark.parametrize("name", sorted(path.name for path in PRETRAINED.iterdir()))
def test_the_page_of_every_model_of_the_package_opens_with_an_example(name):
    run = find_run(name)
    ids = Tokenizer.load(run.tokenizer).encode(run.training_data()["example"])
    assert 3 < len(ids) < 15
    assert UNK not in ids
