"""Let a chapter's page begin with its title and what a reader asks first.

In Colab the setup cell has to come first, because it installs the package. On a page of
the book it comes below the lines that say where in the book this is, how long it takes
and what it needs.
"""

from docutils import nodes


def arrange(app, doctree):
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


def setup(app):
    app.connect("doctree-read", arrange)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
