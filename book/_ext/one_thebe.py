"""Leave one copy of a script that an extension adds to a page more than once.

sphinx-thebe declares the same constant in two inline scripts, also where it is
switched off, and every page would greet its reader with an error in the console.
"""


def drop_repeated_scripts(app, pagename, templatename, context, doctree):
    """Keep the first of any inline scripts with the same body."""
    by_body = {}
    for position, script in enumerate(context.get("script_files", [])):
        body = getattr(script, "attributes", {}).get("body")
        by_body.setdefault(body or position, script)
    context["script_files"] = list(by_body.values())


def setup(app):
    # Late, when every extension has added its scripts.
    app.connect("html-page-context", drop_repeated_scripts, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
