"""Keep a formula on one line with the punctuation that follows it.

To a browser a formula is a box, and it may begin a new line with the full stop behind.
"""

import re

from docutils import nodes


def join(app, doctree):
    """Put each formula and the punctuation behind it into one unbreakable element."""
    for formula in list(doctree.findall(nodes.math)):
        place = formula.parent.index(formula) + 1
        behind = formula.parent.children[place : place + 1]
        if behind and isinstance(behind[0], nodes.Text):
            mark, rest = re.fullmatch(r"([.,;:!?)’”]*)(.*)", behind[0], re.S).groups()
            if mark:
                behind[0].parent.replace(behind[0], nodes.Text(rest))
                together = nodes.inline("", "", classes=["unbroken"])
                formula.replace_self(together)
                together += [formula, nodes.Text(mark)]


def setup(app):
    app.connect("doctree-read", join)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
