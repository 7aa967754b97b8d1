"""Read the package's docstrings as they are meant.

The last lines of a module's docstring, ``Paper:``, ``Chapter:`` and ``Tests:``, become
fields with links; Sphinx would run them into one paragraph. And a colon in an
attribute's docstring is punctuation; napoleon would take what stands before it for the
attribute's type. The fields of a named tuple stand in its signature; Python's own words
about each ("Alias for field number 0") would say nothing more.
"""

import re

ATTRIBUTES = {"attribute", "data", "property"}


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


def setup(app):
    # napoleon comes between them, at the default priority of 500.
    app.connect("autodoc-process-docstring", keep_as_written, priority=100)
    app.connect("autodoc-process-docstring", restore, priority=900)
    app.connect("autodoc-process-docstring", as_fields)
    app.connect("autodoc-skip-member", is_alias)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
