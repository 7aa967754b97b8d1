"""Switch off sphinx-thebe, which Jupyter Book loads whether it is wanted or not.

Its scripts would fetch more from a public server, and the book's pages ask nobody for
anything. Colab runs a chapter instead.
"""


def disconnect(app, config):
    """Let none of sphinx-thebe's handlers run, and ask for none of its styles."""
    styles = app.registry.css_files
    styles[:] = [style for style in styles if style[0] != "sphinx-thebe.css"]
    for listeners in app.events.listeners.values():
        for listener in list(listeners):
            if listener.handler.__module__ == "sphinx_thebe":
                app.disconnect(listener.id)


def setup(app):
    # When every extension has connected its handlers.
    app.connect("config-inited", disconnect, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
