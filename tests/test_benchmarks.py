"""The tables of the benchmarks are those of their results."""

import importlib.util
import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


def report():
    spec = importlib.util.spec_from_file_location("report", FOLDER / "report.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_results():
    path = FOLDER / "results.json"
    results = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert report().render(results) in page, "run: python benchmarks/report.py"
