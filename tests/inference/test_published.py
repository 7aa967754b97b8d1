"""Published models are downloaded, read and searched as they ask to be."""

import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from test_marian_tokenizer import ENGLISH, write_tokenizers

from transformer_lite.cli import main
from transformer_lite.config import SearchConfig
from transformer_lite.inference import published
from transformer_lite.inference.export import export_ctranslate2
from transformer_lite.inference.parallel import parallel_translator
from transformer_lite.inference.published import is_published, load_published

SENTENCES = [*ENGLISH, "", "the dog", "a cat"]
NAME = "Some-Body/opus-mt-en-xx"


def write_model(folder, separate=False, **changes):
    """A folder with a Marian model of random weights, saved by transformers."""
    transformers = pytest.importorskip("transformers")
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizers(folder, separate=separate)
    sizes = [
        len(json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(folder.glob("*vocab.json"), reverse=True)
    ]
    settings = {
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[-1],
        "share_encoder_decoder_embeddings": not separate,
        "d_model": 12,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 3,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 64,
        "pad_token_id": sizes[-1] - 1,
        "decoder_start_token_id": sizes[-1] - 1,
        "forced_eos_token_id": None,
    }
    torch.manual_seed(5)
    model = transformers.MarianMTModel(transformers.MarianConfig(**settings | changes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter += 0.3 * torch.randn_like(parameter)
        model.final_logits_bias += torch.randn_like(model.final_logits_bias)
    model.generation_config.num_beams = 3
    model.generation_config.bad_words_ids = [[sizes[-1] - 1]]
    model.generation_config.renormalize_logits = True
    model.save_pretrained(folder)
    return model.eval()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of transformers and the folder that it was saved to."""
    folder = tmp_path_factory.mktemp("published") / "model"
    return write_model(folder), folder


@pytest.fixture
def copy(model, tmp_path):
    """A copy of the folder, to be damaged."""
    for path in model[1].iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


@pytest.fixture(scope="module")
def translator(model):
    return load_published(model[1])


# A folder


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("separate", [False, True])
def test_a_folder_translates_as_transformers_does(tmp_path, separate):
    """Text in, text out; greedily, for both end otherwise what does not end."""
    transformers = pytest.importorskip("transformers")
    theirs = write_model(tmp_path / "model", separate)
    tokenizer = transformers.MarianTokenizer.from_pretrained(str(tmp_path / "model"))
    ours = load_published(tmp_path / "model")
    search = SearchConfig(beam_size=1, alpha=0.0, max_extra=30)
    for text in ENGLISH:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        room = ids.size(1) - 1 + 30
        found = theirs.generate(
            input_ids=ids, num_beams=1, max_length=room, do_sample=False
        )
        expected = [i for i in found[0, 1:].tolist() if i > 0]
        (output,) = ours.hypotheses([text], search)
        vocab = tokenizer.target_encoder if separate else tokenizer.encoder
        pieces = ["<unk>" if i == 1 else p for p, i in vocab.items()]
        assert ours.target.pieces(output.ids) == [pieces[i] for i in expected]
        assert len(expected) > 3


@pytest.mark.parametrize("separate", [False, True])
def test_attention_is_drawn_with_pieces_of_both_languages(tmp_path, separate):
    write_model(tmp_path / "model", separate)
    translator = load_published(tmp_path / "model")
    found = translator.attention(ENGLISH[0], "der rote Hund")
    assert "".join(found.source) == "▁the▁red▁dog▁sees▁a▁blue▁cat</s>"
    assert "".join(found.target) == "<s>▁der▁rote▁Hund"
    sizes = len(found.target), len(found.source)
    assert found.encoder.shape == (1, 2, sizes[1], sizes[1])
    assert found.decoder.shape == (2, 3, sizes[0], sizes[0])
    assert found.cross.shape == (2, 3, *sizes)


def test_a_stream_is_the_translations(translator):
    expected = translator.translate(SENTENCES)
    assert list(translator.stream(SENTENCES)) == expected
    assert len(set(expected)) >= 4


def test_workers_translate_alike(translator):
    with parallel_translator(translator, 2) as several:
        assert several.translate(SENTENCES) == translator.translate(SENTENCES)


def test_pickled_weights_are_read_alike(model, copy):
    theirs, _ = model
    (copy / "model.safetensors").unlink()
    torch.save(theirs.state_dict(), copy / "pytorch_model.bin")
    expected = load_published(model[1])
    for own, other in zip(
        load_published(copy).model.parameters(),
        expected.model.parameters(),
        strict=True,
    ):
        assert torch.equal(own, other)


# How it is searched


def test_the_models_own_settings_are_taken(translator):
    assert translator.search == SearchConfig(beam_size=3, alpha=1.0, max_extra=32)


@pytest.mark.parametrize("file", ["generation_config.json", "config.json"])
def test_an_older_model_has_its_settings_in_its_configuration(copy, file):
    (copy / "generation_config.json").unlink()
    settings = json.loads((copy / "config.json").read_text())
    settings |= {"num_beams": 6, "length_penalty": 0.5}
    (copy / file).write_text(json.dumps(settings))
    search = load_published(copy).search
    assert (search.beam_size, search.alpha) == (6, 0.5)


@pytest.mark.parametrize("settings", ["{}", '{"num_beams": null}'])
def test_a_model_without_settings_has_the_papers_beam(copy, settings):
    (copy / "generation_config.json").write_text(settings)
    assert load_published(copy).search.beam_size == SearchConfig().beam_size


# What is refused


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", None, "has no config.json; give a Marian model, all of its"),
        ("config.json", b"{", "config.json: cannot be read .*download"),
        ("config.json", b"[]", "config.json: holds no table"),
        ("config.json", b'{"model_type": "t5"}', "config.json: model_type = 't5'"),
        ("vocab.json", None, "has no vocab.json; give a Marian model, all of its"),
        ("vocab.json", b"[]", "vocab.json: not a numbered list"),
        ("source.spm", None, "has no source.spm; give a Marian model, all of its"),
        ("source.spm", b"", "source.spm: not a sentencepiece model"),
        ("target.spm", b"", "target.spm: not a sentencepiece model"),
        ("model.safetensors", b"half", "model.safetensors: not a file of weights"),
        ("model.safetensors", None, "has no model.safetensors or pytorch_model.bin"),
        ("generation_config.json", b"{", "generation_config.json: cannot be read"),
        *(
            ("generation_config.json", content, r"num_beams = .* whole number from 1")
            for content in (b'{"num_beams": 0}', b'{"num_beams": "4"}')
        ),
        *(
            ("generation_config.json", content, r"length_penalty = .* only 0 or more")
            for content in (b'{"length_penalty": -1}', b'{"length_penalty": [1]}')
        ),
    ],
)
def test_a_damaged_folder_is_named(copy, file, content, message):
    if content is None:
        (copy / file).unlink()
    else:
        (copy / file).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_published(copy)


def test_weights_of_another_shape_are_named(copy):
    settings = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(settings | {"d_model": 24}))
    message = r"model.safetensors: .* has the shape .* which is not .*; take config"
    with pytest.raises(ValueError, match=message):
        load_published(copy)


class Harm:
    """What runs a program when it is unpickled."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('harm done')",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Harm(), "refused: it holds exec beside .*; give .* as model.safetensors"),
        ({"a": Harm()}, "refused: it holds exec beside"),
        ([1, 2], "not a table of tensors .*download"),
        ({"step": 7}, "not a table of tensors .'step' is of the type int"),
        (b"", "not a file of weights"),
        (b"half", "not a file of weights"),
    ],
)
def test_a_pickle_that_is_no_weights_does_no_harm(copy, content, message):
    (copy / "model.safetensors").unlink()
    path = copy / "pytorch_model.bin"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        torch.save(content, path)
    with pytest.raises(ValueError, match=rf"pytorch_model\.bin: {message}"):
        load_published(copy)


def test_a_published_model_is_not_exported(translator, tmp_path):
    with pytest.raises(ValueError, match="ct2-transformers-converter"):
        export_ctranslate2(translator, tmp_path / "out")


def test_a_run_is_not_published(model, tmp_path):
    assert is_published("hf:Helsinki-NLP/opus-mt-en-de")
    assert is_published(model[1])
    assert not is_published(tmp_path)
    (tmp_path / "config.json").write_text('{"data": "x"}')
    assert not is_published(tmp_path)


# A stand-in for Hugging Face


class Hub:
    """A server that has files, or answers with a status, or breaks off."""

    def __init__(self):
        self.files, self.status, self.broken, self.asked = {}, {}, set(), []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                hub.answer(self)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, request):
        file = request.path.removeprefix(f"/{NAME}/resolve/main/")
        self.asked.append(file)
        content = self.files.get(file)
        status = self.status.get(file, 404 if content is None else 200)
        request.send_response(status)
        content = content if status == 200 else b"no"
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        with suppress(ConnectionError):
            request.wfile.write(content[:9] if file in self.broken else content)


@pytest.fixture
def hub(model, monkeypatch, tmp_path):
    """A stand-in that has the model, and an empty cache."""
    hub = Hub()
    hub.files = {path.name: path.read_bytes() for path in model[1].iterdir()}
    hub.cache = tmp_path / "cache"
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint + "/")
    monkeypatch.setattr(published.pooch, "os_cache", lambda name: hub.cache / name)
    yield hub
    hub.server.shutdown()
    hub.server.server_close()


def cached(hub):
    folder = hub.cache / "transformer_lite" / "huggingface" / "Some-Body"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_model_is_downloaded_once(hub, translator):
    expected = translator.translate(SENTENCES)
    assert load_published(f"hf:{NAME}").translate(SENTENCES) == expected
    assert "pytorch_model.bin" not in hub.asked
    assert cached(hub) == ["opus-mt-en-xx"]
    hub.asked.clear()
    assert load_published(f"hf:{NAME}").translate(SENTENCES) == expected
    assert hub.asked == []


def test_without_safetensors_the_pickled_weights_are_downloaded(hub, model):
    del hub.files["model.safetensors"], hub.files["generation_config.json"]
    torch.save(model[0].state_dict(), hub.cache.with_name("weights"))
    hub.files["pytorch_model.bin"] = hub.cache.with_name("weights").read_bytes()
    assert load_published(f"hf:{NAME}").model.config.d_model == 12


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_broken_download_leaves_nothing_and_can_be_repeated(hub, file):
    hub.broken.add(file)
    with pytest.raises(ValueError, match=rf"{file}: cannot be downloaded .*try again"):
        load_published(f"hf:{NAME}")
    assert cached(hub) == []
    hub.broken.clear()
    assert load_published(f"hf:{NAME}").model.config.d_model == 12


def test_without_a_network_the_remedy_is_named(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    message = (
        r"config.json: cannot be downloaded \(ConnectionError\).*HF_ENDPOINT.*fold"
    )
    with pytest.raises(ValueError, match=message) as caught:
        load_published(f"hf:{NAME}")
    assert "\n" not in str(caught.value)


def test_another_kind_of_model_is_refused_before_its_weights_come(hub):
    hub.files["config.json"] = b'{"model_type": "bert"}'
    with pytest.raises(ValueError, match="model_type = 'bert' is not computed here"):
        load_published(f"hf:{NAME}")
    assert hub.asked == ["config.json"]
    assert cached(hub) == []


@pytest.mark.parametrize("status", [401, 403])
def test_a_model_that_is_not_there_is_named(hub, status):
    hub.status["config.json"] = status
    with pytest.raises(ValueError, match=f"hf:{NAME}: there is no such model, or not"):
        load_published(f"hf:{NAME}")


@pytest.mark.parametrize("file", ["config.json", "vocab.json", "model.safetensors"])
def test_a_model_without_a_file_that_it_needs_is_named(hub, file):
    del hub.files[file]
    with pytest.raises(ValueError, match=f"hf:{NAME}: has no {file}.* give a Marian"):
        load_published(f"hf:{NAME}")
    assert cached(hub) == []


@pytest.mark.parametrize(
    "name", ["hf:", "hf:en-de", "hf:a/b/c", "hf:../..", "hf:a b/c"]
)
def test_what_is_no_name_is_refused(name):
    with pytest.raises(
        ValueError, match="not the name of a model; give hf:OWNER/MODEL"
    ):
        load_published(name)


# The command line


def test_translate_takes_a_folder_or_a_name(hub, model, translator, tmp_path, capsys):
    (tmp_path / "in").write_text("the dog\n\na cat\n")
    expected = translator.translate(["the dog", "a cat"])
    for name in (str(model[1]), f"hf:{NAME}"):
        main(["translate", name, str(tmp_path / "in")])
        shown = capsys.readouterr()
        assert shown.out == f"{expected[0]}\n\n{expected[1]}\n"
        assert f"weights: {name}\n" in shown.err
        assert "begin each line with a language: >>deu<< >>nld<<\n" in shown.err


def test_translate_takes_settings_of_the_search(model, translator, tmp_path, capsys):
    (tmp_path / "in").write_text("the dog\n")
    search = SearchConfig(beam_size=1, alpha=0.0, max_extra=32)
    expected = translator.translate("the dog", search)
    options = ["--beam", "1", "--alpha", "0"]
    main(["translate", str(model[1]), str(tmp_path / "in"), *options])
    assert capsys.readouterr().out == f"{expected}\n"


@pytest.mark.parametrize("by_name", [True, False])
def test_evaluate_says_how_a_published_model_is_scored(model, capsys, by_name):
    name = f"hf:{NAME}" if by_name else str(model[1])
    with pytest.raises(SystemExit):
        main(["evaluate", name])
    shown = capsys.readouterr().err
    assert f"{name}: a published model, and scores are those of a run" in shown
    assert f"(transformer-lite translate {name} FILE --out OUT)" in shown


def test_a_checkpoint_of_a_published_model_is_refused(model, capsys):
    with pytest.raises(SystemExit):
        main(["translate", str(model[1]), "--weights", "x.safetensors"])
    assert "--weights x.safetensors: " in capsys.readouterr().err
