"""Read the package's docstrings as they are meant, and link PyTorch's names.

The last lines of a module's docstring, ``Paper:``, ``Chapter:`` and ``Tests:``, become
fields with links; Sphinx would run them into one paragraph. And a colon in an
attribute's docstring is punctuation; napoleon would take what stands before it for the
attribute's type. The fields of a named tuple stand in its signature; Python's own words
about each ("Alias for field number 0") would say nothing more.

The names of PyTorch link to PyTorch's own documentation. An inventory would have to be
downloaded by every build; the addresses follow from the names, so the book builds
offline.
"""

import re

from docutils import nodes

ATTRIBUTES = {"attribute", "data", "property"}
DOCS = "https://docs.pytorch.org/docs/stable"
# Shape annotations print the class without its module.
SHORT = {"Tensor": "torch.Tensor"}
PAGES = {"torch.Tensor": "tensors.html", "torch.device": "tensor_attributes.html"}


def as_fields(app, what, name, obj, options, lines):
    """Rewrite a module's last lines in place as reStructuredText fields."""
    if what != "module":
        return
    for number, line in enumerate(lines):
        match = re.fullmatch(r"(Paper|Chapter|Tests): (.+)", line)
        if match:
            field, text = match.groups()
            if field != "Paper":
                text = ", ".join(link(app, entry) for entry in text.split(", "))
            lines[number] = f":{field}: {text}"


def link(app, entry):
    """Return a link to a chapter of the book, or the literal name of anything else."""
    page = f"notebooks/{entry}"
    return f":doc:`/{page}`" if page in app.env.found_docs else f"``{entry}``"


def keep_as_written(app, what, name, obj, options, lines):
    """Remember an attribute's docstring before napoleon reads it."""
    if what in ATTRIBUTES:
        app.env.temp_data["docstring as written"] = list(lines)


def restore(app, what, name, obj, options, lines):
    """Put an attribute's docstring back."""
    if what in ATTRIBUTES:
        lines[:] = app.env.temp_data["docstring as written"]


def is_alias(app, what, name, obj, skip, options):
    """Leave out a named tuple's field that has no docstring of its own."""
    return True if (obj.__doc__ or "").startswith("Alias for field number") else None


def link_torch(app, env, node, contnode):
    """Return a link for an unresolved Python name that belongs to torch, else None."""
    name = node.get("reftarget", "")
    name = SHORT.get(name, name)
    if node.get("refdomain") != "py" or not name.startswith("torch."):
        return None
    page = PAGES.get(name, f"generated/{name}.html")
    link = nodes.reference("", "", refuri=f"{DOCS}/{page}#{name}", internal=False)
    link += contnode
    return link


def setup(app):
    # napoleon comes between them, at the default priority of 500.
    app.connect("autodoc-process-docstring", keep_as_written, priority=100)
    app.connect("autodoc-process-docstring", restore, priority=900)
    app.connect("autodoc-process-docstring", as_fields)
    app.connect("autodoc-skip-member", is_alias)
    app.connect("missing-reference", link_torch)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
