"""Text becomes ids and comes back unchanged."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_lite.tokenizer import BOS, EOS, PAD, UNK, Tokenizer, is_blank

LINES = [
    "The dog sees two  cats, and the cats see the dog.",
    "Der Hund sieht zwei Katzen; die Übermütigen fliehen nämlich äußerst flink!",
    "한국어 문장은 띄어쓰기가 있습니다",
    "中文句子没有空格。",
    "emoji 🙂 👩‍👩‍👧 🇰🇷 ❤️",
    "combining e\u0301 a\u0308\u0323 n\u0303, composed é ä ñ",
    "ligature ﬁ, wide Ａ, half ½, no-break\u00a0space, ideographic\u3000space",
    "line\u2028separator, next\u0085line, tab\tstop, <s> </s> <pad> <unk>",
    "signs 1 < 2 / 3 > 2",
]
ALPHABET = sorted(set("".join(LINES)))
FEW_LETTERS = ["ab ba aab abb bab aba abab baba bb aa"] * 3


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(LINES * 2, 200)


@settings(max_examples=40, deadline=None)
@given(text=st.text(ALPHABET, max_size=60))
def test_decoding_the_encoding_gives_the_text_back(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", " \t\u3000", "\u200b\ufeff", "\1\x1b", "\u0301", "\ufe0f\u034f"),
        *("▁ \u2800", "\u115f\u1160", "\u3164\uffa0", "\U000e0100", "\u0e31"),
    ],
)
def test_a_text_that_shows_nothing_is_blank(text):
    assert is_blank(text)


@pytest.mark.parametrize(
    "text",
    [
        *"a7.+é中한あ🙂\u2801",
        *("ที่", "مُ", "कि", "ഴി", "❤\ufe0f", "1\ufe0f\u20e3", "🇰🇷"),
        *"\uf8ff\U0001fae8",  # a company's sign, and an emoji new in Unicode 15
    ],
)
def test_a_text_of_any_script_is_not_blank(text):
    assert not is_blank(text)


def test_a_character_outside_the_coverage_is_unknown(tokenizer):
    ids = tokenizer.encode("Ж")
    assert UNK in ids
    assert tokenizer.decode(ids).strip() == "⁇"


def test_a_character_of_a_very_long_line_is_within_the_coverage():
    tokenizer = Tokenizer.train([*LINES, "ж" * 5000], 160)
    assert tokenizer.decode(tokenizer.encode("жж")) == "жж"


def test_decoding_drops_padding_and_both_ends(tokenizer):
    ids = tokenizer.encode("the dog")
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "the dog"


def test_saved_and_loaded_encodes_alike(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.model")
    loaded = Tokenizer.load(tmp_path / "tokenizer.model")
    assert loaded.encode_all(LINES) == tokenizer.encode_all(LINES)


def test_a_vocabulary_too_large_names_the_largest_that_works():
    with pytest.raises(ValueError, match=r"vocab_size = 5000 .* at most") as caught:
        Tokenizer.train(FEW_LETTERS, 5000)
    largest = int(re.search(r"at most (\d+)", str(caught.value))[1])
    assert Tokenizer.train(FEW_LETTERS, largest).vocab_size == largest
    with pytest.raises(ValueError, match=f"at most {largest}"):
        Tokenizer.train(FEW_LETTERS, largest + 1)


def test_a_vocabulary_too_small_names_the_smallest_that_works():
    with pytest.raises(ValueError, match=r"vocab_size = 7 .* characters") as caught:
        Tokenizer.train(LINES, 7)
    smallest = max(int(number) for number in re.findall(r"\d+", str(caught.value)))
    assert Tokenizer.train(LINES, smallest).vocab_size == smallest
    with pytest.raises(ValueError, match="characters"):
        Tokenizer.train(LINES, smallest - 1)


def test_sizes_that_no_corpus_allows_are_refused():
    with pytest.raises(ValueError, match="vocab_size = 4 is impossible; give at least"):
        Tokenizer.train(LINES, 4)
    with pytest.raises(ValueError, match="vocab_sentences = 100 is impossible; give"):
        Tokenizer.train(LINES, 200, vocab_sentences=100)


def test_all_texts_together_encode_as_each_alone(tokenizer):
    assert tokenizer.encode_all(LINES) == [tokenizer.encode(line) for line in LINES]


CHARACTERS = [chr(0x4E00 + i) for i in range(500)]


def known_characters(vocab_sentences):
    tokenizer = Tokenizer.train(CHARACTERS, 8 + vocab_sentences, vocab_sentences)
    return [c for c in CHARACTERS if UNK not in tokenizer.encode(c)]


def test_as_many_sentences_as_asked_for_are_drawn_from_everywhere():
    drawn = [CHARACTERS.index(character) for character in known_characters(127)]
    assert len(drawn) == 127
    assert drawn[0] < 100
    assert drawn[-1] >= 400


def test_the_same_sentences_are_drawn_in_every_process():
    command = "import test_tokenizer as t; print(*t.known_characters(127))"
    here = Path(__file__).parent
    elsewhere = subprocess.run(
        [sys.executable, "-c", command],
        **{"cwd": here, "capture_output": True, "text": True, "encoding": "utf-8"},
        env={**os.environ, "PYTHONPATH": str(here.parent), "PYTHONUTF8": "1"},
        check=True,
    )
    assert elsewhere.stdout.split() == known_characters(127)


SYMBOLS = ["(S", "(NP", ")NP", ")S", "NN", "NNS", ",", "``", "''", "$"]
LINEARIZED = ["(S (NP NN , NNS )NP $ `` '' )S", "(NP (NP NN )NP (NP NNS )NP )NP"]


@pytest.fixture(scope="module")
def with_symbols():
    return Tokenizer.train([*LINES, *LINEARIZED] * 2, 200, symbols=SYMBOLS)


@pytest.mark.parametrize("text", LINEARIZED)
def test_a_symbol_is_one_token_with_the_space_before_it(with_symbols, text):
    ids = with_symbols.encode(text)
    assert with_symbols.pieces(ids) == [f"▁{symbol}" for symbol in text.split(" ")]
    assert with_symbols.decode(ids) == text


@pytest.mark.parametrize("text", [*LINES, "NNSee (S ,2", "  (S  (NP "])
def test_other_text_comes_back_beside_symbols(with_symbols, text):
    assert with_symbols.decode(with_symbols.encode(text)) == text


def test_symbols_count_as_tokens_of_the_vocabulary(with_symbols, tokenizer):
    assert with_symbols.vocab_size == tokenizer.vocab_size == 200
    with pytest.raises(ValueError, match=r"vocab_size = 9 .* give at least \d+"):
        Tokenizer.train(LINEARIZED, 9, symbols=SYMBOLS)


def test_an_error_of_the_lines_themselves_is_passed_on():
    def lines():
        yield LINES[0]
        raise ValueError("corpus.de, line 2: not UTF-8")

    with pytest.raises(ValueError, match=r"^corpus\.de, line 2: not UTF-8$"):
        Tokenizer.train(lines(), 50)


def test_a_file_that_is_no_model_is_named(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.model"
    with pytest.raises(ValueError, match=r"tokenizer\.model: no such .*prepare"):
        Tokenizer.load(path)
    tokenizer.save(path)
    half = path.read_bytes()[:-11]
    for content in (b"", b"no model", bytes(range(256)), half):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"tokenizer\.model: damaged, or another"):
            Tokenizer.load(path)


def test_little_text_gives_as_many_tokens_as_it_has_on_demand():
    most = Tokenizer.train(LINES, 8000, symbols=SYMBOLS, allow_smaller=True).vocab_size
    Tokenizer.train(LINES, most, symbols=SYMBOLS)
    with pytest.raises(ValueError, match=f"8000 .* give at most {most}$"):
        Tokenizer.train(LINES, 8000, symbols=SYMBOLS)
