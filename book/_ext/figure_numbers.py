"""Number the figures by chapter: the second one of Section 3.2.1 is Fig. 3.2.1-2.

Sphinx would count through the whole book, or number the chapters itself; theirs are the
paper's, and the paper has a Figure 1 of its own.
"""

import re


def by_chapter(app, env):
    """Give each page's figures its section and their place in it; return the pages."""
    for page, kinds in env.toc_fignumbers.items():
        section = re.match(r"[\d.]+(?= )", env.titles[page].astext())
        prefix = f"{section.group()}-" if section else ""
        for place, figure in enumerate(kinds.get("figure", {}), start=1):
            kinds["figure"][figure] = (f"{prefix}{place}",)
    return list(env.toc_fignumbers)


def setup(app):
    # After Sphinx has numbered them, at the default priority of 500.
    app.connect("env-get-updated", by_chapter, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
