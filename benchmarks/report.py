"""The tables of benchmarks/README.md, made from results.json.

`python benchmarks/report.py` writes them again.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE / "README.md"
TRAINING_NOTES = {
    "ours, fp32": "residual dropout alone",
    "ours, bf16": "the same, matrix products in bf16, attention in fp32",
    "JoeyNMT": "drops out attention weights and feed-forward units too: its only mode",
    "JoeyNMT, residual dropout only": "the two other dropouts switched off by hand",
    "Marian, eager": "residual dropout alone",
    "Marian, sdpa": "residual dropout alone",
    "torch.nn.Transformer": "drops out attention weights and feed-forward units too; "
    "two further layer norms",
}


def render(results: dict) -> str:
    """Return the text between the page's two marks, one recording a processor."""
    several = (
        f"### {processor}\n\n{_recording(results[processor])}" for processor in results
    )
    return "\n".join(several)


def _recording(results: dict) -> str:
    """Return the tables of one processor."""
    parts = []
    if part := results.get("training"):
        parts += [
            "#### Training",
            "",
            f"{_conditions(part)} 6 batches with {part['tokens']:,} target tokens, "
            f"best and median of {part['passes']} passes, interleaved.",
            "",
            *table(part, 0, "note", TRAINING_NOTES),
        ]
    if part := results.get("decoding"):
        tokens = part["output_tokens_per_sentence"]
        equal = {name: f"{rate['equal']:,}" for name, rate in part["rates"].items()}
        parts += [
            "#### Decoding",
            "",
            f"{_conditions(part)} {part['sentences']:,} sentences, beam 4, fp32, no "
            f"length penalty, {tokens:.1f} tokens an output; best and median of "
            f"{part['passes']} passes, interleaved.",
            "",
            *table(part, 1, "equal outputs", equal),
        ]
    return "\n".join(parts)


def table(
    part: dict, digits: int, heading: str, notes: Mapping[str, object]
) -> list[str]:
    """Return a table of rates, ours the first, with a note on each system."""
    ours, *_ = (rate["best"] for rate in part["rates"].values())
    return [
        f"| | {part['unit']}, best | median | ours is faster by | {heading} |",
        "|---|---:|---:|---:|---|",
        *(
            f"| {name} | {rate['best']:,.{digits}f} | {rate['median']:,.{digits}f} | "
            f"{rate.get('ours_is_faster_by', ours / rate['best']):.2f} × | "
            f"{notes[name]} |"
            for name, rate in part["rates"].items()
        ),
        *(
            f"| {name} | – | – | – | {reason} |"
            for name, reason in part.get("missing", {}).items()
        ),
        "",
    ]


def _conditions(part: dict) -> str:
    """Say when, by what and on what a part was measured."""
    versions = ", ".join(
        f"{name} {number}" for name, number in part["versions"].items()
    )
    busy = f" (load average {load:.0f})" if (load := part.get("load_average")) else ""
    return (
        f"{part['date']}, commit {part['commit'] or 'not recorded'}, {part['cores']} "
        f"cores{busy}, Python {part['python']}, {versions}; {part['data']}."
    )


def write(results: dict) -> None:
    """Put the tables into the page."""
    page = PAGE.read_text(encoding="utf-8")
    start, end = "<!-- results -->", "<!-- end of results -->"
    found = re.compile(f"{re.escape(start)}.*{re.escape(end)}", re.DOTALL)
    text = f"{start}\n\n{render(results)}\n{end}"
    PAGE.write_text(found.sub(lambda _: text, page), encoding="utf-8")


if __name__ == "__main__":
    write(json.loads((HERE / "results.json").read_text(encoding="utf-8")))
