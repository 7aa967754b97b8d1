"""The page of results, the digest and the README show what the files of results say."""

import json
import re

import numpy as np
import pytest
from loading import load
from package.test_paper import PRINTED

from results.provenance import ROOT
from results.runs import TATOEBA_2018
from results.storage import read_json
from transformer_lite.runs.folder import PRETRAINED

page = load("tools/make_results.py")


def result(perplexity, bleu, seed=1):
    """As much of a result as the page reads."""
    return {
        "seed": seed,
        "parameters": 1_234_567,
        "precision": "fp32",
        "hardware": {"processor": "Z80", "cores": 2, "threads": 1, "gpu": None},
        "name": f"table_3/base-{seed}",
        "training": {"minutes": 7.4, "wall_minutes": None},
        "curve": [{"valid_perplexity": 99.0}, {"valid_perplexity": perplexity}],
        "scores": {"valid": {"bleu": bleu, "perplexity": perplexity}},
    }


def diverged(seed=1):
    """The same of a run that ended before its first validation."""
    return result(1.0, 1.0, seed) | {
        "name": f"warmup/post_norm_1-{seed}",
        "diverged": True,
        "training": {"minutes": 0.5, "wall_minutes": 1, "steps": 1234},
        "curve": [],
        "scores": {},
    }


def lines_of(results):
    """The page's lines with these in place of some experiments' results."""
    text = page.render({**page.read(), **results})
    return text.replace("\u2060", "").replace("\u00a0", " ").splitlines()


def test_the_page_and_the_digest_are_current():
    again = "run: python book/tools/make_results.py"
    assert page.PAGE.read_text(encoding="utf-8") == page.render(page.read()), again
    digest = page.digest(page.read())
    assert page.DIGEST.read_text(encoding="utf-8") == digest, again


def test_without_a_result_the_page_says_what_is_still_to_be_run():
    page_without_results = page.render({})
    assert "- `multi30k_en_de`: 0 of 3" in page_without_results
    assert "- `parsing/craft`: 0 of 2" in page_without_results


def test_chapter_6_2_has_the_papers_numbers():
    notebook = (ROOT / "notebooks" / "06_2_model_variations.ipynb").read_text("utf-8")
    sources = ["".join(cell["source"]) for cell in json.loads(notebook)["cells"]]
    (table,) = [
        found[1]
        for source in sources
        if (found := re.search(r'PRINTED = """(.+?)"""', source, re.S))
    ]
    entries = [entry.split() for entry in re.split(r"[|\n]", table) if entry.strip()]
    scores = {row: (float(p), float(bleu)) for row, p, bleu, _ in entries}
    assert scores == {row: tuple(found) for row, found in page.PAPER.items()}
    counts = {row: int(count) for row, _, _, count in entries if count != "-"}
    assert counts == {row: PRINTED[row][-1] for row in counts}
    assert len(counts) == sum(bool(cells[-1]) for cells in PRINTED.values())


def test_table_3_shows_the_mean_and_the_range_of_seeds():
    results = {
        "table_3/base": [result(7.0, 30.0), result(8.0, 31.0, seed=2)],
        "table_3/C1": [result(9.0, 25.0)],
        "table_3/E": [],
    }
    base = "| base | 2 | 7.50 (7.00–8.00) | 30.5 (30.0–31.0) | 1.23 | 4.92 | 25.8 |"
    lines = lines_of(results)
    assert base in lines
    assert "| C1 | 1 | 9.00 | 25.0 | 1.23 | 6.11 | 23.7 |" in lines
    assert not [line for line in lines if line.startswith("- Rank correlation")]
    assert "- `table_3/E`: 0 of 2" in lines


def test_a_row_with_one_thing_changed_stands_beside_the_row_itself():
    changed = result(29.0, 13.0) | {"purpose": "Table 3 changed: no root"}
    changed["training"] |= {"steps": 7_500}
    longer = result(5.0, 37.0) | {"purpose": "Table 3 changed: until flat"}
    longer["training"] |= {"steps": 15_000}
    longer["curve"] = [
        {"step": 7_500, "valid_perplexity": 7.0},
        {"step": 15_000, "valid_perplexity": 5.0},
    ]
    results = {
        "table_3_longer/base": [result(6.0, 35.0), result(6.2, 36.0, seed=2)],
        "ablations/base_no_root": [changed],
        "ablations/base_until_flat": [longer],
    }
    line = "| base | no root | 1, 2 | 29.00 | 6.10 (6.00–6.20) | 13.0 "
    line += "| 35.5 (35.0–36.0) | 1.23 | 7,500 | – |"
    for of_run in (*results["table_3_longer/base"], changed, longer):
        of_run["scores"]["valid"]["perplexity"] = of_run["curve"][-1][
            "valid_perplexity"
        ]
    lines = lines_of(results)
    assert line in lines
    assert [line for line in lines if line.endswith("| 1.23 | 15,000 | 7.00 |")]


def test_runs_that_diverged_are_shown_and_give_no_correlation():
    both, one = [diverged(), diverged(2)], [result(99.0, 0.0), diverged(2)]
    lines = lines_of({"warmup/post_norm_1": both, "warmup/pre_norm_1": one})
    assert "| 1 | diverged | 99.0, 1 of 2 diverged |" in lines
    assert [line for line in lines if line.startswith("- Rank correlation")]
    lines = lines_of({"table_3/A1": one, "table_3/E": both})
    assert not [line for line in lines if line.startswith("- Rank correlation")]
    row = "| A1 | 2 | 99.00, 1 of 2 diverged | 0.0, 1 of 2 diverged | 1.23 |"
    assert [line for line in lines if line.startswith(row)]


def test_translation_shows_both_ways_to_score():
    found = result(7.0, 40.0) | {"model": "Transformer"}
    found["corpus"] = {"name": "multi30k_en_de", "languages": ["en", "de"]}
    found["training"] |= {"target_tokens": 7_300_000}
    found["scores"]["test_2016_flickr"] = {
        "bleu": 38.8,
        "half_width": 1.64,
        "lowercased_bleu": 39.9,
        "chrf": 64.0,
    }
    lines = lines_of({"multi30k_en_de": [found]})
    cells = "Transformer | 38.8 ± 1.6 | 39.9 | 40.0 | 64.0 | 1 | 1.2 | 7.3"
    assert f"| Multi30k, en–de | {cells} |" in lines
    assert any("differ from these aims by −0.7 and −1.1." in line for line in lines)


def test_the_tatoeba_of_the_results_is_the_edition_that_the_page_names():
    (made,) = page.read()["tatoeba_en_de"]
    assert made["corpus"]["sha256"]["train.src"] == TATOEBA_2018


def test_parsing_shows_what_is_no_tree_beside_the_scores_of_trees():
    scores = {"sentences": 10, "well_formed": 45.67, "f1": 60.04, "perplexity": 2.5}
    parsed = [
        result(2.5, 0.0)
        | {
            "configuration": {"search": {"beam_size": 4, "alpha": 0.3}},
            "training": {"minutes": 1, "wall_minutes": 1, "target_tokens": 1_000_000},
            "searches": [{"beam_size": 4, "alpha": 0.3, "score": 12.345}],
            "scores": {"test": scores | {"f1_all": f1_all}},
        }
        for f1_all in (10.0, 20.0)
    ]
    lines = "\n".join(lines_of({"parsing/craft": parsed}))
    assert "| 2 | 45.7 (45.7–45.7) | 60.0 (60.0–60.0) | 15.0 (10.0–20.0) |" in lines
    assert "| CRAFT | 12.3 |" in lines


@pytest.mark.parametrize("seed", range(3))
def test_the_rank_correlation_is_spearmans(seed):
    # 1 - 6 Σd² / (n (n² - 1)), which holds where no two values are equal.
    rng = np.random.default_rng(seed)
    ours, theirs = rng.permutation(11), rng.permutation(11)
    expected = 1 - 6 * ((ours - theirs) ** 2).sum() / (11 * (11**2 - 1))
    assert page.rank_correlation(ours, theirs) == pytest.approx(expected)
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: Pearson's correlation by hand.
    found = page.rank_correlation([1, 5, 5, 9], [1, 2, 3, 4])
    assert found == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


def test_the_readme_shows_what_the_runs_gave():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[`(\w+)`\].*? \| (\S+?),? .*?([\d,]+) (?:unseen )?pairs \| "
        r"([\d.]+) % \| ([\d.]+) \|",
        readme,
        re.M,
    )
    results = [of_name[0] for of_name in page.read().values()]
    assert [recipe for recipe, *_ in rows] == ["toy", "multi30k_de", "tatoeba_de"]
    for recipe, split, pairs, exact, bleu in rows:
        (result,) = (
            found
            for found in results
            if found["recipe"] == recipe and f"results/{found['name']}.json" in readme
        )
        scores = result["scores"][split]
        assert f"{scores['sentences']:,}" == pairs
        assert f"{scores['exact_match']:.1f}" == exact
        assert f"{scores['bleu']:.1f}" == bleu


def test_every_everyday_sentence_is_translated_and_judged():
    recorded = read_json(ROOT / "results/everyday.json")
    assert (PRETRAINED / recorded["model"]).is_dir()
    assert len({one["source"] for one in recorded["sentences"]}) == 50
    judged = {one["judgement"] for one in recorded["sentences"]}
    assert judged <= {"right", "understandable", "wrong"}
