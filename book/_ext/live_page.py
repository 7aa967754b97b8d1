"""Put the live translator beside the book's pages, around the book's own models."""

import sys
from pathlib import Path

from transformer_lite.page import script_of, text_of
from transformer_lite.page.export import exported, write_files
from transformer_lite_book.live_figures import SOURCES, TOUR

sys.path.insert(0, str(Path(__file__).parent))
import editions
import translations

MODEL = "tatoeba_en_de_wide"
OTHERS = ("multi30k_en_de", "craft_parser")
"""Models that the page has besides: `?model=` chooses one."""


def write(app, exception):
    """Write the page's scripts and the models into the folder of the built book."""
    if exception or app.builder.format != "html":
        return
    language = editions.edition(app.config)
    messages = editions.words(language, translations.LIVE) if language else {}
    for model in (MODEL, *OTHERS):
        folder = Path(app.outdir, "live", model)
        folder.mkdir(parents=True, exist_ok=True)
        write_files(
            exported(model), folder, app.config.language.replace("_", "-"), messages
        )
    tour = script_of(*TOUR, messages=messages)
    folder = Path(app.outdir, "live")
    (folder / "tour.js").write_text(tour, encoding="utf-8")
    style = text_of(*(str(SOURCES / name) for name in ("live.css", "tour.css")))
    (folder / "tour.css").write_text(style, encoding="utf-8")


def setup(app):
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
