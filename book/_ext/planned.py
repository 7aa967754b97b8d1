"""Show the planned chapters in the sidebar, and lead through the paper in its order.

Their titles come from pyproject.toml. A chapter's file begins with the paper's section,
so the files' order is the book's.
"""

import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
FOLDER = "notebooks/"


def planned():
    """Title of each chapter that is not written yet, by its file's name."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    return project["tool"].get("transformer_lite", {}).get("planned", {})


def complete(app, pagename, templatename, context, doctree):
    """Complete a page's sidebar and its links to the pages before and after it."""
    pages = [page for page in app.env.found_docs if page.startswith(FOLDER)]
    # Addresses of the chapters as this page's sidebar gives them.
    addresses = {
        app.builder.get_relative_uri(pagename, page) or "#": page.removeprefix(FOLDER)
        for page in pages
    }
    if "generate_toctree_html" in context:
        draw = context["generate_toctree_html"]
        context["generate_toctree_html"] = lambda *arguments, **options: with_planned(
            draw(*arguments, **options), addresses
        )
    if pagename in pages:
        name = pagename.removeprefix(FOLDER)
        later = min(
            (other for other in [*addresses.values(), *planned()] if other > name),
            default=None,
        )
        if later in planned():
            front = app.builder.get_relative_uri(pagename, app.config.root_doc)
            title = f"{planned()[later]} (planned)"
            context["next"] = {"title": title, "link": f"{front}#the-chapters"}
        elif later is None:
            context["next"] = None
    elif (context.get("prev") or {}).get("link") in addresses:
        # The reference pages do not follow from the paper's last chapter.
        context["prev"] = None


def with_planned(sidebar, addresses):
    """Put each planned chapter at its place in a sidebar."""
    links = sidebar.find_all("a", href=list(addresses))
    chapters = {addresses[link["href"]]: link.parent for link in links}
    for name, title in planned().items():
        entry = sidebar.new_tag("li", attrs={"class": "toctree-l1 planned"})
        entry.string = title
        before = max(other for other in chapters if other < name)
        chapters[before].insert_after(entry)
        chapters[name] = entry
    return sidebar


def setup(app):
    # Late, when the theme has added its function.
    app.connect("html-page-context", complete, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
