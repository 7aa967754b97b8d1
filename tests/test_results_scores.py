"""Scores for comparisons are sacrebleu's, and intervals those of a plain bootstrap."""

import random
import subprocess
import sys

import numpy as np
import pytest
import sacrebleu

from results import scores
from results.scores import compare, lowercased_bleu, tokenized_bleu

WORDS = "der die das Hund Katze sieht hört und ein eine kleine große".split()


def text(seed, size=23):
    """Sentences of random words."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(5, 9))) for _ in range(size)]


def worse(lines, share, seed):
    """The same sentences with a share of the words replaced."""
    rng = random.Random(seed)
    return [
        " ".join(
            rng.choice(WORDS) if rng.random() < share else word for word in line.split()
        )
        for line in lines
    ]


REFERENCES = text(1)
SYSTEMS = {
    "base": worse(REFERENCES, 0.3, 2),
    "like it": worse(REFERENCES, 0.3, 3),
    "bad": worse(REFERENCES, 0.7, 5),
}


def test_lowercased_bleu_is_that_of_sacrebleus_command_line(tmp_path):
    translations, references = (
        ["Der Hund-Halter SIEHT ihn.", "ja!"],
        [
            "der Hund-Halter sieht sie.",
            "Ja!",
        ],
    )
    for name, lines in (("out", translations), ("ref", references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    command = "-m sacrebleu ref -i out -m bleu -lc -b -w 9"
    shown = subprocess.run(
        [sys.executable, *command.split()],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found, signature = lowercased_bleu(translations, references)
    assert found == pytest.approx(float(shown), abs=1e-8)
    assert "case:lc" in signature


def test_case_does_not_count_where_it_is_lowered():
    titled = [line.title() for line in SYSTEMS["base"]]
    assert titled != SYSTEMS["base"]
    expected = lowercased_bleu(SYSTEMS["base"], REFERENCES)
    assert lowercased_bleu(titled, REFERENCES) == expected


def test_tokenized_bleu_counts_the_parts_of_a_compound():
    translations = ["Zwei Mädchen in T-Shirts lesen."]
    references = ["Zwei Frauen in T-Shirts lesen."]
    split = [
        "Zwei Mädchen in T ##AT##-##AT## Shirts lesen .",
        "Zwei Frauen in T ##AT##-##AT## Shirts lesen .",
    ]
    expected = sacrebleu.corpus_bleu(split[:1], [split[1:]], tokenize="none")
    found, signature = tokenized_bleu(translations, references)
    assert found == expected.score
    assert found > sacrebleu.corpus_bleu(translations, [references]).score
    assert "tok:none" in signature


def test_without_hyphens_and_stops_in_words_tokenized_bleu_is_bleu():
    found, _ = tokenized_bleu(SYSTEMS["base"], REFERENCES)
    assert found == sacrebleu.corpus_bleu(SYSTEMS["base"], [REFERENCES]).score


def test_means_intervals_and_p_values_are_those_of_a_plain_bootstrap(monkeypatch):
    monkeypatch.setattr(scores, "RESAMPLES", 120)
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    drawn = np.random.default_rng(12345).choice(23, size=(120, 23), replace=True)
    resampled = {
        name: np.array(
            [
                sacrebleu.corpus_bleu(
                    [lines[i] for i in rows], [[REFERENCES[i] for i in rows]]
                ).score
                for rows in drawn
            ]
        )
        for name, lines in SYSTEMS.items()
    }
    found = compare(SYSTEMS, REFERENCES)
    assert list(found) == list(SYSTEMS)
    for name, values in resampled.items():
        in_order = np.sort(values)
        half_width = (in_order[-4] - in_order[3]) / 2  # 3 of 120 are a fortieth
        bleu = sacrebleu.corpus_bleu(SYSTEMS[name], [REFERENCES]).score
        assert found[name].bleu == pytest.approx(bleu, abs=1e-6)
        assert found[name].mean == pytest.approx(values.mean(), abs=1e-3)
        assert found[name].half_width == pytest.approx(half_width, abs=1e-3)
        if name != "base":
            differences = np.abs(values - resampled["base"])
            true = abs(found[name].bleu - found["base"].bleu)
            as_large = (differences - differences.mean() > true).sum()
            assert found[name].p_value == pytest.approx((as_large + 1) / 121)
    assert found["base"].p_value is None


def test_a_large_difference_is_trusted_and_a_small_one_is_not():
    found = compare(SYSTEMS, REFERENCES)
    assert found["bad"].p_value < 0.01
    assert found["like it"].p_value > 0.05


def test_a_system_that_equals_the_baseline_differs_by_chance():
    found = compare({"base": SYSTEMS["base"], "same": SYSTEMS["base"]}, REFERENCES)
    assert found["base"].p_value is None
    assert found["same"].p_value == 1


def test_the_signature_says_how_it_was_computed(monkeypatch):
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    signature = compare(SYSTEMS, REFERENCES, "zh")["base"].signature
    for part in ("bs:1000", "seed:12345", "case:mixed", "tok:zh"):
        assert part in signature.split("|")


def test_a_system_with_another_number_of_translations_is_named():
    systems = SYSTEMS | {"short": SYSTEMS["base"][1:]}
    with pytest.raises(ValueError, match=r"short: has 22 translations for 23"):
        compare(systems, REFERENCES)
