"""What the book's page says of its examples holds for the model in it."""

import re
from html import unescape
from urllib.parse import parse_qs

from javascript import run_javascript
from loading import ROOT, load

from transformer_lite.page.export import exported

TEXT = (ROOT / "book" / "live_translator.md").read_text(encoding="utf-8")
TRANSLATE = """
    worker.load(given.model);
    const { beam_size: beamSize, alpha } = given.model.search;
    const usual = { beamSize, alpha, temperature: 1, seed: null, forced: {} };
    return given.links.map(({ text, positions, scale, off }) => {
      const changes = { positions: positions !== "no", scaled: scale !== "no" };
      const asked = { ...usual, ...changes, off: (off ?? "").split(","), text };
      return [...worker.translate(asked)].at(-1).output;
    });
"""


def links():
    """The example's settings, by name, for each link to the page itself."""
    found = re.findall(r'<a href="#([^"]+)"', TEXT)
    return [
        {name: values[0] for name, values in parse_qs(unescape(link)).items()}
        for link in found
    ]


def test_what_is_said_of_the_examples():
    changed = [link for link in links() if {"positions", "scale", "off"} & link.keys()]
    assert len(changed) == 4
    whole = [{"text": link["text"]} for link in changed]
    model = exported(load("_ext/live_page.py").MODEL)
    outputs = run_javascript(TRANSLATE, {"model": model, "links": changed + whole})
    dog, man, scaled, heads, *unchanged = outputs
    assert dog == man
    assert unchanged[0] != unchanged[1]
    assert len(scaled) < 0.8 * len(unchanged[2])  # a part is lost
    assert "den mein Vater" in unchanged[3]
    assert "der mein Vater" in heads
