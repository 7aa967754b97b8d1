"""Make the front page: a map of the model with links, and a card for each chapter.

The page itself is plain Markdown, a picture and a list, so that it reads anywhere.
"""

import re
import sys
from pathlib import Path

from docutils import nodes

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import chapter_facts
import draw_model
import make_map


def arrange(app, doctree):
    """Replace the picture by the drawing itself, and make cards of the chapters."""
    if app.env.docname != app.config.root_doc:
        return
    for image in list(doctree.findall(nodes.image)):
        if image["uri"].endswith("model.svg"):
            drawing = draw_model.DRAWING.read_text(encoding="utf-8")
            image.replace_self(nodes.raw("", drawing, format="html"))
    for section in doctree.findall(nodes.section):
        if "the-chapters" in section["ids"]:
            for chapters in section.findall(nodes.bullet_list):
                chapters["classes"].append("chapter-cards")
                for item in chapters.children:
                    make_card(item)


def make_card(item):
    """Split an entry of the list into title and text, and say how long it takes."""
    stems = {name: stem for stem, name in make_map.chapter_titles().items()}
    paragraph = item.children[0]
    link, text = paragraph.children[0], paragraph.astext()
    title, _, rest = text.partition(":")
    rest = re.sub(r"^\w", lambda first: first[0].upper(), rest.strip())
    item["classes"].append("chapter-card")
    item.children.clear()
    item += nodes.paragraph("", "", link, classes=["card-title"])
    item += nodes.paragraph("", rest)
    time = chapter_facts.as_time(chapter_facts.minutes(stems[title]))
    item += nodes.paragraph("", time, classes=["card-time"])


def setup(app):
    # Before the picture is collected, which nothing then shows.
    app.connect("doctree-read", arrange, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
