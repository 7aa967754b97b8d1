"""Every deviation tagged in the code is in the ledger, and the other way round."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEDGER = (ROOT / "book" / "deviations.md").read_text(encoding="utf-8")
SOURCES = [
    path.read_text(encoding="utf-8")
    for path in (ROOT / "transformer_lite").rglob("*.py")
]
TAGS = {tag for source in SOURCES for tag in re.findall(r"# Deviation (D\d+):", source)}
ENTRIES = re.findall(r"^## (D\d+)\b", LEDGER, re.M)


def test_there_are_deviations_to_check():
    assert len(TAGS) >= 3


def test_tags_in_the_code_are_the_ledgers_entries():
    assert set(ENTRIES) == TAGS


def test_a_number_is_used_once():
    assert len(ENTRIES) == len(set(ENTRIES))


def test_every_mention_of_a_deviation_is_a_tag_that_the_ledger_can_follow():
    mentions = sum(len(re.findall(r"# *deviation", s, re.IGNORECASE)) for s in SOURCES)
    tags = sum(len(re.findall(r"# Deviation D\d+: \S", source)) for source in SOURCES)
    assert mentions == tags


def test_the_summary_leads_to_every_entry_in_order():
    rows = re.findall(r"^\| \[(D\d+)\]\(#([^)]+)\) ", LEDGER, re.M)
    headings = re.findall(r"^## ((D\d+): .+)$", LEDGER, re.M)
    anchors = [
        re.sub(r"[^\w\s-]", "", heading.lower()).replace(" ", "-")
        for heading, _ in headings
    ]
    assert rows == list(zip(ENTRIES, anchors, strict=True))
