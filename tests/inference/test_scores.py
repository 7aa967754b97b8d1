"""Scores are sacrebleu's."""

import json
import subprocess
import sys

import pytest

from transformer_lite.inference.scores import score

HYPOTHESES = ["The cat sat on a mat.", "Dogs don't bark, often.", "Ja!", "Same line."]
REFERENCES = ["The cat sat on the mat.", "Dogs do not bark often.", "Ja!", "Same line."]


@pytest.fixture(scope="module")
def by_command_line(tmp_path_factory):
    """What sacrebleu's own command line says about the same files."""
    folder = tmp_path_factory.mktemp("sacrebleu")
    for name, lines in (("out.de", HYPOTHESES), ("ref.de", REFERENCES)):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    command = "-m sacrebleu ref.de -i out.de -m bleu chrf -f json -w 9"
    shown = subprocess.run(
        [sys.executable, *command.split()],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {entry["name"]: entry for entry in json.loads(shown)}


def test_bleu_is_that_of_sacrebleus_command_line(by_command_line):
    bleu = score(HYPOTHESES, REFERENCES).bleu
    assert 20 < bleu < 90
    assert bleu == pytest.approx(by_command_line["BLEU"]["score"], abs=1e-8)


def test_chrf_is_that_of_sacrebleus_command_line(by_command_line):
    chrf = score(HYPOTHESES, REFERENCES).chrf
    assert chrf == pytest.approx(by_command_line["chrF2"]["score"], abs=1e-8)


def test_the_signature_is_sacrebleus(by_command_line):
    assert (
        score(HYPOTHESES, REFERENCES).signature == by_command_line["BLEU"]["signature"]
    )


def test_exact_matches_are_a_percentage():
    scores = score(HYPOTHESES, REFERENCES)
    assert scores.exact_match == 50.0
    assert scores.sentences == 4


def test_case_counts():
    assert score(["THE CAT SAT ON THE MAT."], REFERENCES[:1]).bleu < 50


def test_every_translation_needs_a_reference():
    with pytest.raises(ValueError, match="zip"):
        score(HYPOTHESES, REFERENCES[:3])
