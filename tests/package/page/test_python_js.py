"""The program that the page writes computes what the page shows."""

import re

import pytest
from javascript import run_javascript

from transformer_lite.page.export import exported

pytestmark = pytest.mark.usefixtures("types_unchecked")
MODEL = "tatoeba_en_de"
RUN = """
    worker.load(given.model);
    return given.asked.map((changed) => {
      const settings = { ...state.unchanged(given.model), ...changed };
      const result = [...worker.translate(settings)].at(-1);
      return { result, program: python.pythonOf(given.model, settings, result) };
    });
"""
DOG = "The dog bites the man."
CASES = {
    "search": {"text": 'He said: "No, thanks."', "beamSize": 2, "alpha": 1},
    "temperature": {"text": DOG, "temperature": 0.5},
    "drawing": {"text": DOG, "seed": 3, "temperature": 1.5},
    "chosen piece": {"text": DOG, "forced": {"0": 40}},
    "positions": {"text": DOG, "positions": False},
    "scale": {"text": DOG, "scaled": False},
    "residual": {"text": DOG, "kept": 0.35},
    "heads": {"text": DOG, "off": ["cross.2.0", "encoder.1.5", "decoder.0.7"]},
    "units": {"text": DOG, "units": {"decoder.2.260": 8, "encoder.0.3": 5}},
    "other sentence": {
        "text": DOG,
        "other": "A cat is sleeping on the warm roof.",
        "borrowed": ["cross.1.2", "cross.2.0", "cross.2.1", "encoder.0.4"],
    },
    "stacked": {
        "text": DOG,
        "other": "Tom has a red car.",
        "borrowed": ["cross.2.5"],
        "off": ["cross.2.6"],
        "units": {"decoder.2.260": 4},
        "kept": 0.8,
    },
}


@pytest.fixture(scope="module")
def shown():
    given = {"model": exported(MODEL), "asked": [*CASES.values()]}
    return dict(zip(CASES, run_javascript(RUN, given), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_program_prints_what_the_page_shows(name, shown, capsys):
    result, program = shown[name]["result"], shown[name]["program"]
    exec(compile(program, name, "exec"), {})
    output, *rows = capsys.readouterr().out.splitlines()
    assert output == result["output"]
    for row, step in zip(rows, result["steps"], strict=True):
        percent, piece = re.fullmatch(r" *([\d.]+)% (.*)", row).groups()
        assert piece == step["piece"]
        assert float(percent) == pytest.approx(100 * step["probability"], abs=0.06)


def test_the_program_of_a_parser(capsys):
    parser = exported("craft_parser")
    given = {"model": parser, "asked": [{"text": parser["example"]}]}
    (shown,) = run_javascript(RUN, given)
    exec(compile(shown["program"], "parser", "exec"), {})
    assert capsys.readouterr().out.splitlines()[0] == shown["result"]["output"]


def test_every_change_is_felt(shown):
    """Or a program that changes nothing would pass."""
    usual = run_javascript(
        RUN,
        {"model": exported(MODEL), "asked": [{"text": DOG}]},
    )[0]["result"]["steps"][0]["probability"]
    for name, asked in CASES.items():
        if asked["text"] == DOG and name != "drawing":
            probability = shown[name]["result"]["steps"][0]["probability"]
            assert abs(probability - usual) > 0.005, name
