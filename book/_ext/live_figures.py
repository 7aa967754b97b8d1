"""Put a live figure into the figure of its still picture.

A cell with a live figure has two outputs: the picture, and HTML that takes its place
where scripts run. MyST-NB would make a figure, with number and caption, of each. So the
HTML is read as the output of a cell of its own, and moved above the picture's caption.
"""

import json

from docutils import nodes

MARK = 'class="own-theme live-figure"'


def part(app, docname, source):
    """Give each live figure of a notebook a cell of its own."""
    if MARK.replace('"', '\\"') not in source[0]:
        return
    notebook = json.loads(source[0])
    cells = []
    for cell in notebook["cells"]:
        cells.append(cell)
        outputs = cell.get("outputs", [])
        live = [output for output in outputs if MARK in _html(output)]
        if live:
            cell["outputs"] = [output for output in outputs if output not in live]
            own = {"outputs": live, "metadata": {"tags": ["remove-input"]}}
            cells.append({**cell, "id": f"live-{cell['id']}", **own})
    notebook["cells"] = cells
    source[0] = json.dumps(notebook)


def _html(output):
    return "".join(output.get("data", {}).get("text/html", ""))


def join(app, doctree):
    """Move each live figure above the caption of the figure before it."""
    figures = []
    for node in list(doctree.findall()):
        if isinstance(node, nodes.figure):
            figures.append(node)
        elif isinstance(node, nodes.raw) and MARK in node.astext():
            caption = figures[-1].first_child_matching_class(nodes.caption)
            cell = node
            while "cell" not in cell.parent.get("classes", []):
                cell = cell.parent
            cell = cell.parent
            cell.parent.remove(cell)
            figures[-1].insert(caption, node)


def setup(app):
    """Register both handlers."""
    app.connect("source-read", part)
    app.connect("doctree-read", join)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
