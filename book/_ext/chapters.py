"""Set a chapter on a page of the book, where Colab and GitHub show it as written.

- A quotation that begins with a bold word, ``> **Spot the bug.** …``, becomes an
  admonition with that title and a class for the styles, ``spot-the-bug``. MyST's own
  admonitions would be raw markup elsewhere.
- The setup cell, which Colab needs first, comes below the lines under the title.
- A formula stays on one line with the punctuation or the Korean particle that follows
  it: to a browser it is a box, and may begin a new line with the full stop behind.
- Figures are numbered by chapter: the second one of Section 3.2.1 is Fig. 3.2.1-2.
  Sphinx would count through the whole book, or number the chapters itself; theirs are
  the paper's, and the paper has a Figure 1 of its own.
"""

import re
import sys
from pathlib import Path

from docutils import nodes

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import translations

# Punctuation, also of Chinese, and the particles that Korean joins to a noun.
BOUND = re.compile("([.,;:!?)’”、。，；：？！）가-힣]*)(.*)", re.S)


def raise_voices(app, doctree):
    """Replace each such quotation of a page by an admonition."""
    for quote in list(doctree.findall(nodes.block_quote)):
        first = quote.children[0]
        if not isinstance(first, nodes.paragraph):
            continue
        # The parser puts an empty text before what begins a paragraph in bold.
        words, *rest = [node for node in first.children if node != ""]
        if isinstance(words, nodes.strong):
            quote.replace_self(voice(words, rest, quote.children[1:]))


def voice(words, rest, below):
    """Return an admonition of its title's words, what follows them, and the rest."""
    title = nodes.title("", "", *words.children)
    last = title.children[-1]
    if isinstance(last, nodes.Text):
        title.replace(last, nodes.Text(last.rstrip(".:。：")))
    name = translations.voice_class(title.astext())
    admonition = nodes.admonition("", title, classes=["voice", name])
    if rest and isinstance(rest[0], nodes.Text):
        rest[0] = nodes.Text(rest[0].lstrip())
    if any(node.astext() for node in rest):
        admonition += nodes.paragraph("", "", *rest)
    admonition += below
    return admonition


def begin_with_title(app, doctree):
    """Mark the lines below a chapter's title, and move what precedes it below them."""
    if not app.env.docname.startswith("notebooks/"):
        return
    sections = [node for node in doctree.children if isinstance(node, nodes.section)]
    if not sections:
        return
    chapter = sections[0]
    after_head = 1
    while isinstance(chapter.children[after_head], nodes.paragraph):
        chapter.children[after_head]["classes"].append("chapter-head")
        after_head += 1
    before = doctree.children[: doctree.index(chapter)]
    cells = [node for node in before if isinstance(node, nodes.container)]
    for cell in reversed(cells):
        doctree.remove(cell)
        chapter.insert(after_head, cell)


def join_punctuation(app, doctree):
    """Put each formula and the punctuation behind it into one unbreakable element."""
    for formula in list(doctree.findall(nodes.math)):
        place = formula.parent.index(formula) + 1
        behind = formula.parent.children[place : place + 1]
        if behind and isinstance(behind[0], nodes.Text):
            mark, rest = BOUND.fullmatch(behind[0]).groups()
            if mark:
                behind[0].parent.replace(behind[0], nodes.Text(rest))
                together = nodes.inline("", "", classes=["unbroken"])
                formula.replace_self(together)
                together += [formula, nodes.Text(mark)]


def number_figures(app, env):
    """Give each page's figures its section and their place in it; return the pages."""
    for page, kinds in env.toc_fignumbers.items():
        section = re.match(r"[\d.]+(?= )", env.titles[page].astext())
        prefix = f"{section.group()}-" if section else ""
        for place, figure in enumerate(kinds.get("figure", {}), start=1):
            kinds["figure"][figure] = (f"{prefix}{place}",)
    return list(env.toc_fignumbers)


def setup(app):
    for arrange in (begin_with_title, join_punctuation, raise_voices):
        app.connect("doctree-read", arrange)
    # After Sphinx has numbered them, at the default priority of 500.
    app.connect("env-get-updated", number_figures, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
