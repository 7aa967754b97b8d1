"""Show a notebook's setup cell below its title.

In Colab the setup cell has to come first, because it installs the package. In the book
a page begins with its title.
"""

from docutils import nodes


def move(app, doctree):
    """Move what stands before the first section to just below that section's title."""
    if not app.env.docname.startswith("notebooks/"):
        return
    sections = [node for node in doctree.children if isinstance(node, nodes.section)]
    if not sections:
        return
    before = doctree.children[: doctree.index(sections[0])]
    cells = [node for node in before if isinstance(node, nodes.container)]
    for cell in reversed(cells):
        doctree.remove(cell)
        sections[0].insert(1, cell)


def setup(app):
    app.connect("doctree-read", move)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
