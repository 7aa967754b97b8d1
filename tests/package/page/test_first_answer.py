"""What a page shows before its model is there is what the worker says of it."""

import pytest
from javascript import run_javascript

from transformer_lite import Translator
from transformer_lite.page.export import exported
from transformer_lite.page.first_answer import first_answer

ANSWERS = """
    worker.load(given);
    const { text, ...settings } = state.unchanged(given);
    return [...worker.translate({ text, ...settings })];
"""


@pytest.mark.parametrize("name", ["tatoeba_en_de", "craft_parser"])
def test_it_is_the_workers_answer_to_the_example(name):
    model = exported(name)
    found, expected = run_javascript(ANSWERS, model), model["answer"]
    assert len(found) == len(expected) > 5
    assert found[0] == expected[0]
    for one, other in zip(found[1:-1], expected[1:-1], strict=True):
        for kind in ("ended", "goingOn"):
            same, right = one["step"][kind], other["step"][kind]
            scores = [output.pop("score") for output in same]
            assert scores == pytest.approx([o.pop("score") for o in right], abs=1e-3)
            assert same == right
    last, right = found[-1], expected[-1]
    assert (last["output"], last["done"]) == (right["output"], True)
    assert last["score"] == pytest.approx(right["score"], abs=1e-3)
    for one, other in zip(last["steps"], right["steps"], strict=True):
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-3)
        tokens = [[c["id"] for c in step["candidates"]] for step in (one, other)]
        assert tokens[0] == tokens[1]
    for kind, layers in right["weights"].items():
        for layer, of_layer in zip(last["weights"][kind], layers, strict=True):
            for head, of_head in zip(layer, of_layer, strict=True):
                assert head == pytest.approx(of_head, abs=1)


def test_a_model_without_an_example_has_none():
    assert first_answer(Translator.load("tatoeba_en_de", device="cpu"), "") == []
