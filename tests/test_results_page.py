"""The page of results shows what the files of results say, and nothing else."""

import importlib.util
import json
import re

import numpy as np
import pytest
from test_paper import COUNTED

from results import paper
from results.conditions import ROOT
from transformer_lite.book.results import stored_decoding, stored_runs
from transformer_lite.config import TABLE_3

SPEC = importlib.util.spec_from_file_location(
    "make_results", ROOT / "book" / "tools" / "make_results.py"
)
page = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(page)


def result(perplexity, bleu, seed=1):
    """As much of a result as the page reads."""
    return {
        "seed": seed,
        "parameters": 1_234_567,
        "precision": "fp32",
        "hardware": {"processor": "Z80", "cores": 2, "threads": 1, "gpu": None},
        "training": {"minutes": 7.4},
        "curve": [{"valid_perplexity": 99.0}, {"valid_perplexity": perplexity}],
        "scores": {"valid": {"bleu": bleu}},
    }


def test_the_page_shows_the_results():
    shown = (ROOT / "book" / "results.md").read_text(encoding="utf-8")
    made = page.render(page.read(), page.read_decoding())
    assert shown == made, "run: python book/tools/make_results.py"


def test_the_chapters_read_the_same_results():
    stored = page.DIGEST.read_text(encoding="utf-8")
    made = page.digest(page.read(), page.read_decoding())
    assert stored == made, "run: python book/tools/make_results.py"
    (base, *_) = stored_runs("table_3/base")
    (other, *_) = page.read()["table_3/base"]
    assert base["scores"] == other["scores"]


def test_a_result_that_is_not_there_is_told_which_there_are():
    with pytest.raises(ValueError, match=r"no result; there are .*table_3/base"):
        stored_runs("table_4")
    with pytest.raises(ValueError, match=r"newstest: not decoded; there are"):
        stored_decoding("newstest")


def test_the_papers_table_has_the_rows_of_the_package():
    assert list(paper.TABLE_3) == list(TABLE_3)


def test_the_chapter_has_the_papers_numbers():
    notebook = json.loads(
        (ROOT / "notebooks" / "06_2_model_variations.ipynb").read_text(encoding="utf-8")
    )
    sources = ["".join(cell["source"]) for cell in notebook["cells"]]
    (table,) = [
        found[1]
        for source in sources
        if (found := re.search(r'PRINTED = """(.+?)"""', source, re.S))
    ]
    entries = [entry.split() for entry in re.split(r"[|\n]", table) if entry.strip()]
    scores = {row: (float(p), float(bleu)) for row, p, bleu, _ in entries}
    assert scores == paper.TABLE_3
    counts = {row: int(count) for row, _, _, count in entries if count != "-"}
    assert counts == COUNTED


def test_several_seeds_are_shown_with_their_spread():
    assert page.spread([2.0]) == "2.0"
    assert page.spread([2.0, 3.0, 3.5], 2) == "2.83 (2.00–3.50)"


def test_table_3_has_a_line_for_each_row_that_was_run():
    results = {
        "table_3/base": [result(7.0, 30.0), result(8.0, 31.0, seed=2)],
        "table_3/C1": [result(9.0, 25.0)],
    }
    lines = page.table_3(results).splitlines()
    assert (
        "| base | 2 | 7.50 (7.00–8.00) | 30.5 (30.0–31.0) | 1.23 | 4.92 | 25.8 |"
        in (lines)
    )
    assert "| C1 | 1 | 9.00 | 25.0 | 1.23 | 6.11 | 23.7 |" in lines
    assert not [line for line in lines if "correlation" in line]
    assert "Z80, one thread, fp32" in page.table_3(results)


def test_all_hardware_that_trained_a_run_is_named():
    one, resumed = result(7.0, 30.0), result(8.0, 31.0, seed=2)
    gpu = {"processor": "Z80", "cores": 2, "threads": 2, "gpu": "H100"}
    resumed["sessions"] = [
        {"commit": "aaaaaaa"},
        {"hardware": gpu, "precision": "bf16"},
        {"hardware": {**gpu, "gpu": None}, "precision": "fp32"},
    ]
    found = page.conditions([one, resumed])
    where = "H100 in bf16; Z80, 2 threads, fp32; Z80, one thread, fp32"
    assert f"Trained on {where}. The steps of a run took 7 to 7 minutes" in found


def test_label_smoothing_reads_three_rows_of_table_3():
    results = {
        "table_3/D3": [result(6.5, 30.0)],
        "table_3/base": [result(7.0, 31.0), result(7.2, 31.4, seed=2)],
        "table_3/D4": [result(8.0, 30.9)],
    }
    lines = page.label_smoothing(results).splitlines()
    assert "| 0.0 | 1 | 6.50 | 30.0 |" in lines
    assert "| 0.1 | 2 | 7.10 (7.00–7.20) | 31.2 (31.0–31.4) |" in lines
    assert "| 0.2 | 1 | 8.00 | 30.9 |" in lines
    assert page.label_smoothing({"table_3/base": results["table_3/base"]}) == ""


def test_warm_up_has_a_line_for_each_length_and_a_column_for_each_norm():
    results = {
        "warmup/post_norm_1": [result(99.0, 0.0)],
        "warmup/pre_norm_1": [result(12.0, 0.0), result(14.0, 0.0, seed=2)],
        "warmup/pre_norm_500": [result(11.0, 0.0)],
        "table_3/base": [result(10.0, 31.0)],
    }
    lines = page.warm_up(results).splitlines()
    assert "| 1 | 99.0 | 13.0 (12.0–14.0) |" in lines
    assert "| 500 | 10.0 | 11.0 |" in lines
    assert "| 100 | – | – |" not in lines


def diverged(seed=1):
    """The same of a run whose loss became no number before its first validation."""
    return result(1.0, 1.0, seed) | {
        "name": f"warmup/post_norm_1-{seed}",
        "diverged": True,
        "training": {"minutes": 0.5, "steps": 1234},
        "curve": [],
        "scores": {},
    }


def test_runs_that_diverged_are_shown_as_such():
    both, one = [diverged(), diverged(2)], [result(99.0, 0.0), diverged(2)]
    lines = page.warm_up({"warmup/post_norm_1": both, "warmup/pre_norm_1": one})
    assert "| 1 | diverged | 99.0, 1 of 2 diverged |" in lines.splitlines()
    rows = page.table_3({"table_3/base": both, "table_3/A1": one}).splitlines()
    assert "| base | 2 | diverged | diverged | 1.23 | 4.92 | 25.8 |" in rows
    assert "| A1 | 2 | 99.00, 1 of 2 diverged | 0.0 | 1.23 | 5.29 | 24.9 |" in rows
    listed = page.diverged({"warmup/post_norm_1": both}).splitlines()
    assert "- `warmup/post_norm_1-2`: after step 1,234" in listed
    assert page.translation({"multi30k_en_de": both}) == ""
    digest = json.loads(page.digest({"warmup/post_norm_1": one}, None))["runs"]
    assert [run.get("diverged") for run in digest["warmup/post_norm_1"]] == [None, True]


def test_no_correlation_is_given_without_all_rows_of_the_table():
    all_rows = {
        f"table_3/{row}": [result(7.0 + number, 30.0 - number)]
        for number, row in enumerate(paper.TABLE_3)
    }
    assert "Rank correlation" in page.table_3(all_rows)
    assert "Rank correlation" not in page.table_3(
        all_rows | {"table_3/E": [diverged()]}
    )


def test_translation_shows_the_test_set_with_both_ways_to_score():
    found = result(7.0, 40.0)
    found["corpus"] = {"name": "multi30k_en_de", "languages": ["en", "de"]}
    found["model"] = "Transformer"
    found["training"] = {"minutes": 50.2, "target_tokens": 7_300_000}
    found["scores"]["test_2016_flickr"] = {
        "bleu": 38.8,
        "half_width": 1.64,
        "lowercased_bleu": 39.9,
        "chrf": 64.0,
    }
    lines = page.translation({"multi30k_en_de": [found]}).splitlines()
    cells = "Transformer | 38.8 ± 1.6 | 39.9 | 40.0 | 64.0 | 1 | 1.2 | 7.3"
    assert f"| Multi30k, en–de | {cells} |" in lines
    assert any(line.endswith("aims by −0.7 and −1.1.") for line in lines)


def test_the_page_says_how_long_all_runs_took():
    one, other = result(7.0, 30.0), result(7.0, 30.0)
    one["training"] |= {"minutes": 100.0, "wall_minutes": None}
    other["training"] |= {"minutes": 200.0, "wall_minutes": 201.0}
    other["sessions"] = [{"hardware": {}}]
    shown = page.time_and_others({"a": [one], "b": [other]})
    assert "The training steps of all 2 runs above took 5 hours" in shown
    assert "wall time, too, but for 1 early runs; the machine that those of 1 " in shown
    assert page.time_and_others({}) == ""


def test_lines_end_between_a_mean_and_its_range_but_within_neither():
    found = page.unbroken("| en–de | 37.4 (37.2–37.6) ± 1.6 | 8.9 ± 0.5 | α = 0.6 |")
    kept = "| en–de | 37.4 (37.2.–.37.6) ±_1.6 | 8.9_±_0.5 | α_=_0.6 |"
    assert found == kept.replace("_", "\u00a0").replace(".–.", "\u2060–\u2060")


def test_what_is_not_made_is_named():
    shown = page.missing({"table_3/base": [result(7.0, 30.0)]})
    assert "- `table_3/base`: 1 of 4" in shown
    assert "- `table_3/E`: 0 of 2" in shown


@pytest.mark.parametrize("seed", range(5))
def test_the_rank_correlation_is_spearmans(seed):
    # 1 - 6 Σd² / (n (n² - 1)), which holds where no two values are equal.
    rng = np.random.default_rng(seed)
    ours, theirs = rng.permutation(11), rng.permutation(11)
    expected = 1 - 6 * ((ours - theirs) ** 2).sum() / (11 * (11**2 - 1))
    assert page.rank_correlation(ours, theirs) == pytest.approx(expected)


def test_equal_values_share_a_rank():
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: Pearson's correlation by hand.
    found = page.rank_correlation([1, 5, 5, 9], [1, 2, 3, 4])
    assert found == pytest.approx(4.5 / (4.5 * 5) ** 0.5)


def test_every_way_to_decode_has_a_line_with_its_interval():
    scores = {"bleu": 37.63, "half_width": 1.24, "p_value": None}
    scores |= {"tokenized_bleu": 37.69, "lowercased_bleu": 38.07}
    scores |= {"length_ratio": 0.9871}
    decoded = {
        "run": "some_run-1",
        "scores": {
            "test": {
                "average, beam 4, α = 0.6": scores,
                "last, greedy": scores | {"bleu": 36.0, "p_value": 0.0123},
            }
        },
    }
    assert "## Decoding" in page.render({}, decoded)
    lines = page.ways_to_decode(decoded).splitlines()
    assert (
        "| average, beam 4, α = 0.6 | 37.6 ± 1.2 | 37.7 | 38.1 | 0.987 | – |" in lines
    )
    assert "| last, greedy | 36.0 ± 1.2 | 37.7 | 38.1 | 0.987 | 0.012 |" in lines
    assert "## Decoding" not in page.render({})


def test_parsing_shows_what_is_no_tree_beside_the_scores_of_trees():
    scores = {"sentences": 1234, "well_formed": 45.67, "f1": 60.04, "f1_all": 31.26}
    parsed = {
        "configuration": {"search": {"beam_size": 4, "alpha": 0.3}},
        "training": {"target_tokens": 2_345_678},
        "scores": {"test": scores | {"perplexity": 2.5}},
    }
    lines = page.parsing({"parsing/craft": [parsed]}).splitlines()
    line = "| CRAFT | test | 1 | 45.7 | 60.0 | 31.3 | 2.50 | 4, 0.3 | 2.3 |"
    assert line in lines
    assert page.parsing({}) == ""


def test_parsing_shows_the_mean_and_the_range_of_seeds():
    scores = {"sentences": 10, "well_formed": 40.0, "f1": 60.0, "perplexity": 2.5}
    parsed = [
        {
            "configuration": {"search": {"beam_size": 4, "alpha": 0.3}},
            "training": {"target_tokens": 1_000_000},
            "searches": [{"beam_size": 4, "alpha": 0.3, "score": of_valid}],
            "scores": {"test": scores | {"f1_all": f1_all}},
        }
        for f1_all, of_valid in ((10.0, 11.0), (20.0, 22.0))
    ]
    shown = page.parsing({"parsing/craft": parsed})
    assert "| 2 | 40.0 (40.0–40.0) | 60.0 (60.0–60.0) | 15.0 (10.0–20.0) |" in shown
    assert "| CRAFT | 11.0 |" in shown  # the search was the first seed's


def test_parsing_shows_every_search_that_was_tried():
    tried = [
        {"beam_size": 4, "alpha": 0.3, "score": 12.345},
        {"beam_size": 1, "alpha": 0.0, "score": 9.87},
    ]
    lines = page.searches({"parsing/craft": [{"searches": tried}]}).splitlines()
    assert lines[0] == "| Treebank | beam 1, α = 0.0 | beam 4, α = 0.3 |"
    assert lines[-1] == "| CRAFT | 9.9 | 12.3 |"
    assert page.searches({"parsing/craft": [{}]}) == ""


def test_the_digest_has_the_search_that_was_chosen_and_the_size_of_the_treebank():
    tried = [{"beam_size": 4, "alpha": 0.3, "score": 12.345}]
    search = {"beam_size": 4, "alpha": 0.3, "max_extra": 300}
    parsed = {
        "seed": 1,
        "configuration": {"search": search},
        "corpus": {"pairs": {"train": 3396}, "sha256": {}},
        "searches": tried,
        "scores": {"test": {"f1": 60.0, "f1_all": 31.3, "well_formed": 45.7}},
    }
    digest = json.loads(page.digest({"parsing/craft": [parsed]}, None))
    (kept,) = digest["runs"]["parsing/craft"]
    assert kept["search"] == {"beam_size": 4, "alpha": 0.3}
    assert kept["searches"] == tried
    assert kept["pairs"] == {"train": 3396}
    assert kept["scores"]["test"]["f1_all"] == 31.3
    translated = {"configuration": {"search": search}, "scores": {}}
    digest = json.loads(page.digest({"multi30k_en_de": [translated]}, None))
    assert digest["runs"]["multi30k_en_de"] == [{"scores": {}}]


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
    bleu = page.of_split(page.read()["multi30k_en_de"], "test_2016_flickr", "bleu")
    reached = " and ".join(f"{one:.1f}" for one in bleu[1:])
    told = f"reached {reached}; the mean is {sum(bleu) / len(bleu):.1f}."
    assert f"more seeds of `multi30k_de` {told}" in readme
