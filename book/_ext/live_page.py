"""Put the live translator beside the book's pages, around the book's own model."""

from pathlib import Path

from transformer_lite.page.export import exported, write_files

MODEL = "tatoeba_en_de_wide"


def write(app, exception):
    """Write the page's scripts and the model into the folder of the built book."""
    if exception is None and app.builder.format == "html":
        folder = Path(app.outdir, "live")
        folder.mkdir(exist_ok=True)
        write_files(exported(MODEL), folder)


def setup(app):
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
