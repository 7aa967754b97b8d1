"""The tables of benchmarks/README.md, made from results.json.

`python benchmarks/report.py` writes them again.
"""

import json
import re
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
    """The text between the page's two marks: one recording for each processor."""
    several = (
        f"### {processor}\n\n{_recording(results[processor])}" for processor in results
    )
    return "\n".join(several)


def _recording(results: dict) -> str:
    """The tables of one processor."""
    parts = []
    if part := results.get("training"):
        parts += ["#### Training", "", *_training_table(part)]
    if part := results.get("decoding"):
        tokens = part["output_tokens_per_sentence"]
        parts += [
            "#### Decoding",
            "",
            f"{_conditions(part)} {part['sentences']:,} sentences, beam 4, fp32, no "
            f"length penalty, {tokens:.1f} tokens an output; best and median of "
            f"{part['passes']} passes, interleaved.",
            "",
            "| | sentences/s, best | median | our 2 workers are faster by (median of "
            "the passes) | equal outputs |",
            "|---|---:|---:|---:|---:|",
            *(
                f"| {name} | {rate['best']:,.1f} | {rate['median']:,.1f} | "
                f"{rate['ours_faster_by']:.2f} × | {rate['equal']:,} |"
                for name, rate in part["rates"].items()
            ),
            "",
        ]
    if part := results.get("length"):
        parts += [
            "#### Cost of a token, by its place in the output",
            "",
            f"{_conditions(part)} After {part['lengths'][-1]} tokens a step costs "
            f"{part['cached_last_over_first']:.1f} times what it costs at the start.",
            "",
            "![Milliseconds a token over the tokens before it: with the cache the line "
            "rises slowly, without it steeply](length_cost.png)",
            "",
        ]
    if part := results.get("training_kept_memory"):
        parts += ["#### Training, with freed memory kept by everybody", ""]
        parts += _training_table(part)
    return "\n".join(parts)


def _training_table(part: dict) -> list[str]:
    ours = part["rates"]["ours, fp32"]["best"]
    return [
        f"{_conditions(part)} 6 batches with {part['tokens']:,} target tokens, "
        f"best and median of {part['passes']} passes, interleaved.",
        "",
        "| | target tokens/s, best | median | ours in fp32 is faster by | note |",
        "|---|---:|---:|---:|---|",
        *(
            f"| {name} | {rate['best']:,.0f} | {rate['median']:,.0f} | "
            f"{ours / rate['best']:.2f} × | {TRAINING_NOTES[name]} |"
            for name, rate in part["rates"].items()
        ),
        "",
    ]


def _conditions(part: dict) -> str:
    versions = ", ".join(
        f"{name} {number}" for name, number in part["versions"].items()
    )
    return (
        f"{part['date']}, commit {part['commit'] or 'not recorded'}, {part['cores']} "
        f"cores, Python {part['python']}, {versions}; {part['data']}."
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
