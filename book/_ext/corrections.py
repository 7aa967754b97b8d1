"""Correct what other extensions write into the pages.

HTML that breaks a rule of WCAG 2.2 (checked by book/tools/accessibility.js) is mended.
And sphinx-thebe, which Jupyter Book loads whether it is wanted or not, is switched off:
its scripts would fetch more from a public server, and the book's pages ask nobody for
anything. Colab runs a chapter instead.
"""

import re

CORRECTIONS = {
    # The visible words name a closed cell; a hidden name would replace them.
    r'<summary aria-label="Toggle hidden content">': "<summary>",
    # The items of a list are list items; the role of a bibliography's is deprecated.
    r'role="doc-biblioentry"': 'role="listitem"',
    # The corner above the names of rows is the header of nothing.
    r'<th class="head[^"]*"><p></p></th>': "<td></td>",
    # A signature's parameters are a list of definitions without terms.
    r"<dl>\n((?:<dd>.*</dd>\n)+)</dl>": lambda match: (
        f'<ul class="parameters">\n{match[1].replace("dd>", "li>")}</ul>'
    ),
}


def correct(app, pagename, templatename, context, doctree):
    """Apply the corrections to a page's body."""
    for pattern, replacement in CORRECTIONS.items():
        if "body" in context:
            context["body"] = re.sub(pattern, replacement, context["body"])


def disconnect_thebe(app, config):
    """Let none of sphinx-thebe's handlers run, and ask for none of its styles."""
    styles = app.registry.css_files
    styles[:] = [style for style in styles if style[0] != "sphinx-thebe.css"]
    for listeners in app.events.listeners.values():
        for listener in list(listeners):
            if listener.handler.__module__ == "sphinx_thebe":
                app.disconnect(listener.id)


def setup(app):
    app.connect("html-page-context", correct)
    # When every extension has connected its handlers.
    app.connect("config-inited", disconnect_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
