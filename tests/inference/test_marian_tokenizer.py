"""Texts of Marian's models become our ids, as by the tokenizer of transformers."""

import io
import json

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.inference.marian_tokenizer import MarianTokenizer, Numbering
from transformer_lite.tokenizer import BOS, EOS, PAD, UNK

ENGLISH = [
    "the red dog sees a blue cat",
    "a cat hears the dogs",
    "Hello, world! It's 5.",
]
GERMAN = ["der rote Hund sieht", "eine blaue Katze hört die Hunde", "Grüße – „ja“, 5 €"]
KOREAN = ["고양이가 개를 본다", "나는 밥을 먹었다"]


def sentencepiece_of(lines):
    """A serialized model of these lines."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 3),
        model_writer=model,
        vocab_size=60,
        model_type="unigram",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def pieces_of(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def write_tokenizers(folder, left_out=(), separate=False):
    """The files of a Marian model, a few pieces left without a number."""
    sides = {"source": sentencepiece_of(ENGLISH), "target": sentencepiece_of(GERMAN)}
    pieces = {}
    for side, model in sides.items():
        (folder / f"{side}.spm").write_bytes(model)
        pieces[side] = pieces_of(model)
    lists = {"target_vocab.json": pieces["target"], "vocab.json": pieces["source"]}
    if not separate:
        both = [*pieces["source"], *pieces["target"], ">>deu<<", ">>nld<<"]
        lists = {"vocab.json": both}
    for name, known in lists.items():
        numbered = dict.fromkeys(["</s>", "<unk>", *known])
        numbered = [piece for piece in numbered if piece not in ("<s>", *left_out)]
        # So that padding, the last, has one number in both, as it has in real models.
        numbered += [f"unused{i}" for i in range(200 - len(numbered))]
        numbers = {piece: number for number, piece in enumerate([*numbered, "<pad>"])}
        (folder / name).write_text(json.dumps(numbers), encoding="utf-8")
    settings = {"source_lang": "en", "target_lang": "de", "separate_vocabs": separate}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def numbering_of(folder, name="vocab.json"):
    size = len(json.loads((folder / name).read_text(encoding="utf-8")))
    return Numbering.read(folder / name, size)


class Both:
    """Our tokenizers of a folder and theirs."""

    def __init__(self, folder):
        transformers = pytest.importorskip("transformers")
        own = folder / "target_vocab.json"
        self.numberings = {
            "source": numbering_of(folder),
            "target": numbering_of(folder, own.name if own.exists() else "vocab.json"),
        }
        self.source, self.target = (
            MarianTokenizer.load(folder / f"{side}.spm", numbering.pieces)
            for side, numbering in self.numberings.items()
        )
        self.theirs = transformers.MarianTokenizer.from_pretrained(str(folder))

    def renumbered(self, side, ids):
        return [self.numberings[side].order[id_] for id_ in ids]


@pytest.fixture(scope="module", params=["one vocabulary", "two vocabularies"])
def both(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    separate = request.param == "two vocabularies"
    write_tokenizers(folder, left_out=["▁cat", "e"], separate=separate)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)  # of sacremoses
        return Both(folder)


TEXTS = [
    *ENGLISH,
    *GERMAN,
    *KOREAN,
    "",
    " two  spaces ",
    "x</s>y"[:1],
    "①½ ﬁ Ａ\u3000b",
]


@pytest.mark.parametrize("text", TEXTS)
def test_sources_have_the_same_ids(both, text):
    ids = [*both.source.encode(text), EOS]
    assert both.renumbered("source", ids) == both.theirs(text)["input_ids"]


@pytest.mark.parametrize("text", TEXTS)
def test_targets_have_the_same_ids(both, text):
    ids = [*both.target.encode(text), EOS]
    theirs = both.theirs(text_target=text)["input_ids"]
    assert both.renumbered("target", ids) == theirs


@settings(max_examples=40, deadline=None)
@given(text=st.text(st.sampled_from("the dogcaüß,.5고 '"), max_size=20))
def test_any_text_has_the_same_ids(both, text):
    ids = [*both.source.encode(text), EOS]
    assert both.renumbered("source", ids) == both.theirs(text)["input_ids"]


every_output = pytest.mark.parametrize(
    "text", [*ENGLISH, *GERMAN, "", "der Hund 고 sieht"]
)


@every_output
def test_outputs_become_the_same_text(both, text):
    ids = [id_ for id_ in both.target.encode(text) if id_ != UNK]
    expected = both.theirs.decode(both.renumbered("target", ids))
    assert both.target.decode(ids) == expected
    assert both.target.decode([BOS, *ids, UNK, EOS, PAD]) == expected


@every_output
def test_special_tokens_vanish_as_theirs_do(both, text):
    ids = [BOS, *both.target.encode(text), EOS, PAD, PAD]
    theirs = both.renumbered("target", ids)
    expected = both.theirs.decode(theirs, skip_special_tokens=True)
    assert both.target.decode(ids) == expected


def test_known_text_comes_back(tmp_path):
    numbering = numbering_of(write_tokenizers(tmp_path))
    target = MarianTokenizer.load(tmp_path / "target.spm", numbering.pieces)
    for text in GERMAN[:2]:
        assert target.decode(target.encode(text)) == text


def test_a_piece_without_a_number_is_unknown(tmp_path):
    model = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_of(ENGLISH))
    first, *others = model.encode("the dog", out_type=str)
    numbering = numbering_of(write_tokenizers(tmp_path, left_out=[first]))
    source = MarianTokenizer.load(tmp_path / "source.spm", numbering.pieces)
    ids = source.encode("the dog")
    assert ids[0] == UNK
    assert source.pieces(ids) == ["<unk>", *others]
    assert source.decode([UNK]) == ""


# Languages to choose


@pytest.mark.parametrize("text", [">>deu<< the dog", ">>nld<<the", ">>deu<<"])
def test_a_known_code_is_one_token(both, text):
    if not both.source.languages:
        pytest.skip("of two vocabularies there are none with codes")
    ids = both.source.encode(text)
    assert both.source.pieces(ids)[0] == text[:7]
    assert both.renumbered("source", [*ids, EOS]) == both.theirs(text)["input_ids"]


def test_the_codes_are_listed(tmp_path):
    numbering = numbering_of(write_tokenizers(tmp_path))
    source = MarianTokenizer.load(tmp_path / "source.spm", numbering.pieces)
    assert source.languages == [">>deu<<", ">>nld<<"]


@pytest.mark.parametrize("code", [">>xyz<<", ">>zh<<", ">>cmn_Hans<<"])
def test_an_unknown_code_is_refused(tmp_path, code):
    numbering = numbering_of(write_tokenizers(tmp_path))
    source = MarianTokenizer.load(tmp_path / "source.spm", numbering.pieces)
    with pytest.raises(ValueError, match=f"{code} is no code.*one of >>deu<< >>nld<<"):
        source.encode(f"{code} the dog")
    without = MarianTokenizer((tmp_path / "source.spm").read_bytes(), ["<unk>"] * 4)
    with pytest.raises(ValueError, match=f"{code} is no code.*leave it out"):
        without.encode(code)


def test_what_cannot_be_a_code_is_text(tmp_path):
    numbering = numbering_of(write_tokenizers(tmp_path))
    source = MarianTokenizer.load(tmp_path / "source.spm", numbering.pieces)
    assert source.encode(">>the dog<<")
    assert source.encode("the >>xyz<< dog")


# The numbering


def numbers_in(path, pieces):
    path.write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    return path


def test_two_pieces_with_one_number_are_named(tmp_path):
    path = tmp_path / "vocab.json"
    numbers = {"</s>": 0, "<unk>": 1, "a": 2, "b": 2, "<pad>": 3}
    path.write_text(json.dumps(numbers), encoding="utf-8")
    with pytest.raises(ValueError, match=r"vocab\.json.*'a' and 'b' have the number 2"):
        Numbering.read(path, 4)


def test_special_tokens_come_first_and_the_rest_in_order(tmp_path):
    path = numbers_in(tmp_path / "vocab.json", ["</s>", "<unk>", "a", "b", "<pad>"])
    numbering = Numbering.read(path, 5)
    assert numbering.order == [4, 4, 0, 1, 2, 3]
    assert numbering.pieces == ["<pad>", "<s>", "</s>", "<unk>", "a", "b"]
    assert Numbering.read(path, 5, start=2).order == [4, 2, 0, 1, 2, 3]


def test_a_row_without_a_piece_is_nameless(tmp_path):
    path = numbers_in(tmp_path / "vocab.json", ["</s>", "<unk>", "a", "<pad>"])
    numbering = Numbering.read(path, 6)
    assert numbering.order == [3, 3, 0, 1, 2, 4, 5]
    assert numbering.pieces[-2:] == ["<unk>", "<unk>"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"vocab.json: not a numbered list .*download"),
        ("[1]", "vocab.json: not a numbered list"),
        ("{", "vocab.json: not a numbered list"),
        ('{"</s>": "x", "<unk>": 1, "<pad>": 2}', "vocab.json: not a numbered list"),
        ('{"</s>": 0, "<unk>": 1}', "vocab.json: has no piece '<pad>'"),
        ('{"</s>": 0, "<unk>": 1, "<pad>": 5}', "numbers up to 5 .* of 5 tokens"),
    ],
)
def test_a_damaged_vocabulary_is_named(tmp_path, content, message):
    path = tmp_path / "vocab.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=message):
        Numbering.read(path, 5)


@pytest.mark.parametrize("content", [None, b"no model", b""])
def test_a_damaged_sentencepiece_model_is_named(tmp_path, content):
    path = tmp_path / "source.spm"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"source.spm: not a sentencepiece model"):
        MarianTokenizer.load(path, ["<pad>", "<s>", "</s>", "<unk>"])
