"""A sentence becomes its tree in brackets, or a warning."""

import pytest

from transformer_lite.inference.parser import parse
from transformer_lite.inference.translator import Translator

SAID = {
    "the dog -LRB- !": "(S (NP DT NN )NP -LRB- . )S",
    "dog": "(NP XX )NP",
    "cat": "(NP NN NN )NP",
    "bird": "",
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

    def run(*lines):
        return list(parse(Said(), lines, warnings.append)), warnings

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


def test_an_empty_line_stays_empty(parsed):
    assert parsed("", "dog", "  ") == (["", "(NP (XX dog))", ""], [])


def test_a_line_that_is_too_long_is_named_once(parsed):
    trees, warnings = parsed("long", "dog")
    assert trees == ["", "(NP (XX dog))"]
    assert warnings == ["line 1: too long"]


def test_no_more_lines_are_read_than_the_translator_asks_for():
    read = []

    def lines():
        for line in ("dog", "dog"):
            read.append(line)
            yield line

    trees = parse(Said(), lines(), print)
    assert next(trees) == "(NP (XX dog))"
    assert read == ["dog"]
