"""What the book's long trainings gave, for chapters to show.

The trainings themselves are listed in results/runs.py of the repository, where each has
a file with its configuration, commit, hardware and outputs.

Paper: §6
Chapter: 06_1_machine_translation, 06_2_model_variations
Tests: tests/test_results_page.py
"""

import json
from pathlib import Path
from typing import Any

DIGEST = Path(__file__).with_suffix(".json")
"""Written by book/tools/make_results.py from the files in results/."""


def stored_runs(experiment: str) -> list[dict[str, Any]]:
    """The results of an experiment, one for each seed.

    Args:
        experiment: Its name, such as "multi30k_en_de" or "table_3/base".

    Raises:
        ValueError: There is none of this name.
    """
    runs = _digest()["runs"]
    if experiment not in runs:
        raise ValueError(f"{experiment}: no result; there are {', '.join(runs)}")
    return runs[experiment]


def stored_decoding(split: str) -> dict[str, dict[str, Any]]:
    """What each way to decode one model scores on a split, by the way's name.

    Raises:
        ValueError: It was not decoded.
    """
    splits = _digest()["decoding"]
    if split not in splits:
        raise ValueError(f"{split}: not decoded; there are {', '.join(splits)}")
    return splits[split]


def _digest() -> dict[str, Any]:
    return json.loads(DIGEST.read_text(encoding="utf-8"))
