"""Every deviation tagged in the code is in the ledger, and the other way round."""

import re

from loading import ROOT, load

anchor = load("tools/link_glossary.py").anchor
LEDGER = (ROOT / "book" / "deviations.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^## ((D\d+)\b.*)$", LEDGER, re.M)


def test_tags_in_the_code_are_the_ledgers_entries_each_of_its_own_number():
    paths = (ROOT / "transformer_lite").rglob("*.py")
    code = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    tags = re.findall(r"# Deviation (D\d+): \S", code)
    assert len(tags) == len(re.findall(r"# *deviation", code, re.IGNORECASE))
    numbers = [number for _, number in HEADINGS]
    assert sorted(numbers) == sorted(set(tags))
    assert len(numbers) >= 3


def test_the_summary_leads_to_every_entry_in_order():
    rows = re.findall(r"^\| \[(D\d+)\]\(#([^)]+)\) ", LEDGER, re.M)
    assert rows == [(number, anchor(heading)) for heading, number in HEADINGS]
