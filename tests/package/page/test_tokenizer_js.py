"""The tokenizer in JavaScript gives the ids that sentencepiece gives."""

import pytest
from javascript import run_javascript

from results.provenance import ROOT
from results.storage import read_json
from transformer_lite.page.export import exported
from transformer_lite.runs.folder import find_run
from transformer_lite.tokenizer import Tokenizer

EVERYDAY = read_json(ROOT / "results/everyday.json")["sentences"]
SENTENCES = [sentence["source"] for sentence in EVERYDAY]
TEXTS = (
    *SENTENCES,
    "",
    " ",
    "  two  spaces between, one behind ",
    "no\ttab and no\nline feed",
    "<s> </s> <unk> ▁ are no special pieces",
    "emoji 😀😀 and 😀",
    "고양이 猫 Straße Ωmega naïve é",
    "Donaudampfschifffahrtsgesellschaftskapitän" * 3,
    "1234567890 3.14 10,000 U.S.A. don't",
)
TREES = ("(S (NP the dog )NP (VP sleeps )VP )S", "(NP(NP )X (S)(", "(SINV (S")


def both(name, texts):
    """Sentencepiece's ids and texts, and those of JavaScript."""
    tokenizer = Tokenizer.load(find_run(name).tokenizer)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    ids = [tokenizer.encode(text) for text in texts]
    body = """
        const own = new tokenizer.Tokenizer(given.pieces, given.symbols);
        return {
          ids: given.texts.map((text) => own.encode(text)),
          texts: given.ids.map((ids) => own.decode(ids)),
        };
    """
    given = {"pieces": pieces, "symbols": tokenizer.symbols, "texts": texts}
    found = run_javascript(body, {**given, "ids": ids})
    return ids, [tokenizer.decode(one) for one in ids], found


@pytest.mark.parametrize("name", ["tatoeba_en_de", "multi30k_en_de", "craft_parser"])
def test_ids_and_texts_are_sentencepieces(name):
    ids, texts, found = both(name, [*TEXTS, *TREES])
    assert found["ids"] == ids
    assert found["texts"] == texts


@pytest.mark.parametrize("most", [1, 3, 20])
def test_no_piece_is_missing_of_a_text_that_is_not_too_long(most):
    tokenizer = Tokenizer.load(find_run("multi30k_en_de").tokenizer)
    body = """
        const own = new tokenizer.Tokenizer(given.pieces, given.symbols);
        return given.texts.map((text) =>
          [own.split(text), own.split(text, given.most)]);
    """
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    texts = [*TEXTS, "beach" * 40, "\U0001f600" * 400, "a\U0001f600" * 40]
    given = {"pieces": pieces, "symbols": [], "texts": texts, "most": most}
    for whole, begun in run_javascript(body, given):
        if len(whole) <= most:
            assert begun == whole
        else:
            assert len(begun) > most


def test_a_word_of_40_000_letters_is_known_at_once_to_be_too_long():
    model = exported("multi30k_en_de")
    body = """
        worker.load(given);
        const began = performance.now();
        const steps = worker.translate({ text: "ab".repeat(20000) });
        const { tooLong } = steps.next().value;
        return [tooLong, steps.next().done, performance.now() - began];
    """
    is_too_long, is_over, milliseconds = run_javascript(body, model)
    assert is_too_long
    assert is_over
    assert milliseconds < 3000  # all of it took a minute
