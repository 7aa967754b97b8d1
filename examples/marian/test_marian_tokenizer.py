"""Texts become the ids that the tokenizer of transformers gives them."""

import io
import json

import pytest
import sentencepiece
from marian_tokenizer import MarianTokenizer
from transformers import MarianTokenizer as Theirs

from transformer_lite.tokenizer import BOS, EOS, PAD, UNK

ENGLISH = ["the red dog sees a blue cat", "a cat hears the dogs", "Hello! It's 5."]
GERMAN = ["der rote Hund sieht", "eine blaue Katze hört die Hunde", "Grüße – „ja“, 5 €"]
TEXTS = [*ENGLISH, *GERMAN, "고양이", "", " two  spaces ", "①½ ﬁ Ａ\u3000b"]
NO_PIECE = ("▁cat", "e")
"""Pieces that the vocabulary leaves without a number."""


def sentencepiece_of(lines, **options):
    """Return a serialized model of these lines."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 3),
        model_writer=model,
        vocab_size=60,
        model_type="unigram",
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def write_tokenizer(folder, **options):
    """Write the files of a Marian tokenizer; return the size of its vocabulary."""
    numbered = {"</s>": 0, "<unk>": 1}
    for side, lines in (("source", ENGLISH), ("target", GERMAN)):
        model = sentencepiece_of(lines, **options)
        (folder / f"{side}.spm").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
        for piece in pieces:
            if piece not in ("<s>", *NO_PIECE):
                numbered.setdefault(piece, len(numbered))
    for piece in (">>deu<<", ">>nld<<", "<pad>"):
        numbered[piece] = len(numbered)
    (folder / "vocab.json").write_text(json.dumps(numbered), encoding="utf-8")
    settings = {"source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return len(numbered)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Our tokenizer and theirs, of one folder."""
    folder = tmp_path_factory.mktemp("model")
    write_tokenizer(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)  # of sacremoses
        return MarianTokenizer.load(folder), Theirs.from_pretrained(str(folder))


def renumbered(tokenizer, ids):
    return [tokenizer.rows[id_] for id_ in ids]


@pytest.mark.parametrize("text", [*TEXTS, ">>deu<< the dog", ">>nld<<the", "x >>y<<"])
def test_sources_have_the_same_ids(both, text):
    ours, theirs = both
    assert renumbered(ours, [*ours.encode(text), EOS]) == theirs(text)["input_ids"]


@pytest.mark.parametrize("text", TEXTS)
def test_targets_have_the_same_ids(both, text):
    ours, theirs = both
    ids = renumbered(ours, [*ours.encode_target(text), EOS])
    assert ids == theirs(text_target=text)["input_ids"]


@pytest.mark.parametrize("text", [*GERMAN, *ENGLISH, "", "der Hund 고 sieht"])
def test_outputs_become_the_same_text(both, text):
    ours, theirs = both
    ids = [BOS, *ours.encode_target(text), EOS, PAD, PAD]
    expected = theirs.decode(renumbered(ours, ids), skip_special_tokens=True)
    assert ours.decode(ids) == expected


def test_special_tokens_come_first(both):
    assert both[0].pieces(range(5)) == ["<pad>", "<s>", "</s>", "<unk>", "▁"]


def test_a_piece_without_a_number_is_unknown(both):
    assert both[0].encode("a cat")[-1] == UNK


def test_several_sources_have_the_ids_of_each(both):
    assert both[0].encode_all(ENGLISH) == [both[0].encode(text) for text in ENGLISH]


def test_an_unknown_language_is_refused(both):
    message = ">>xyz<< is no language of this model; it has >>deu<< >>nld<<"
    with pytest.raises(ValueError, match=message):
        both[0].encode(">>xyz<< the dog")
