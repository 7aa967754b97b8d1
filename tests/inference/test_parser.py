"""A sentence becomes its tree in brackets, or a warning."""

import pytest

from transformer_lite.inference.brackets import parse
from transformer_lite.inference.translator import Translator

SAID = {
    "the dog -LRB- !": "(S (NP DT NN )NP -LRB- . )S",
    "dog": "(NP XX )NP",
    "cat": "(NP NN NN )NP",
    "bird": "",
    "rain falls": "(S (NP rain )NP (VP falls )VP )S",
    "rain fell": "(S (NP rain )NP (VP falls )VP )S",
    "rain": "(S (NP rain )NP (VP rain )VP )S",
    "rain falls down": "(S (NP rain )NP (VP falls )VP )S",
}


class Said(Translator):
    """A translator that knows what it says."""

    def __init__(self):
        pass

    def stream(self, lines, on_long, at_once):
        for number, line in enumerate(lines, start=1):
            if line == "long":
                on_long(f"line {number}: too long")
            yield SAID.get(line, "")


@pytest.fixture
def parsed():
    warnings = []

    def run(*lines, **options):
        return list(parse(Said(), lines, warnings.append, **options)), warnings

    return run


def test_a_sentence_becomes_its_tree(parsed):
    trees, warnings = parsed("dog", " the  dog ( !")
    dog = "(S (NP (DT the) (NN dog)) (-LRB- -LRB-) (. !))"
    assert trees == ["(NP (XX dog))", dog]
    assert warnings == []


def test_an_output_that_is_no_tree_is_named_and_left_empty(parsed):
    trees, warnings = parsed("dog", "cat", "bird", "dog")
    assert trees == ["(NP (XX dog))", "", "", "(NP (XX dog))"]
    assert [message.split(" (")[0] for message in warnings] == [
        "line 2: the output is no tree: more tags than words",
        "line 3: the output is no tree: nothing at all",
    ]


def test_a_tree_with_words_becomes_one_without_tags(parsed):
    trees, warnings = parsed("rain falls", with_words=True)
    assert trees == ["(S (NP rain) (VP falls))"]
    assert warnings == []


@pytest.mark.parametrize(
    ("sentence", "kind", "detail"),
    [
        ("rain fell", "another word", "token 6, falls; the sentence has fell"),
        ("rain", "more words than the sentence", "token 6, rain; 1 words"),
        ("rain falls down", "fewer words than the sentence", "1 words are left"),
    ],
)
def test_a_tree_over_other_words_is_none(parsed, sentence, kind, detail):
    trees, warnings = parsed(sentence, with_words=True)
    assert trees == [""]
    assert warnings == [f"line 1: the output is no tree: {kind} ({detail})"]


def test_an_empty_line_stays_empty(parsed):
    assert parsed("", "dog", "  ") == (["", "(NP (XX dog))", ""], [])


def test_a_line_that_is_too_long_is_named_once(parsed):
    trees, warnings = parsed("long", "dog")
    assert trees == ["", "(NP (XX dog))"]
    assert warnings == ["line 1: too long"]
