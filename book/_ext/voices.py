"""Set quotations that begin with a bold word as admonitions.

Colab and GitHub show a notebook's text as it is written, and MyST's admonitions would
be raw markup there. A quotation reads well everywhere:

    > **Spot the bug.** The next cell holds a mistake.

In the book its bold words become the title, and a class for the styles:
``spot-the-bug``.
"""

from docutils import nodes


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
        title.replace(last, nodes.Text(last.rstrip(".:")))
    name = nodes.make_id(title.astext())
    admonition = nodes.admonition("", title, classes=["voice", name])
    if rest and isinstance(rest[0], nodes.Text):
        rest[0] = nodes.Text(rest[0].lstrip())
    if any(node.astext() for node in rest):
        admonition += nodes.paragraph("", "", *rest)
    admonition += below
    return admonition


def setup(app):
    app.connect("doctree-read", raise_voices)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
