"""Correct the HTML that other extensions write where it breaks a rule of WCAG 2.2.

Checked by book/tools/accessibility.js.
"""

import re

CORRECTIONS = {
    # The visible words name a closed cell; a hidden name would replace them.
    r'<summary aria-label="Toggle hidden content">': "<summary>",
    # The items of a list are list items; the role of a bibliography's is deprecated.
    r'role="doc-biblioentry"': 'role="listitem"',
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


def setup(app):
    app.connect("html-page-context", correct)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
