"""Build the book in another language, and lead from each edition to the others.

A page gets the words of its catalogue (book/tools/translations.py) as it is read.
Headings alone are left to Sphinx, which keeps their English anchors: a link arrives in
every edition. What is not translated shows English, and the page says so.
"""

import subprocess
import sys
from functools import cache
from pathlib import Path

import nbformat
from babel.messages.mofile import write_mo
from sphinx.locale import _, get_translator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import translations

words = cache(translations.translation)
SOURCE = "https://github.com/transformer-lite/transformer-lite/blob/"


@cache
def commit(path):
    """Return the last commit that changed a file; "" outside a repository."""
    asked = ["git", "log", "-1", "--format=%h", "--", path]
    try:
        told = subprocess.run(
            asked, cwd=translations.ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return told.stdout.strip()


def edition(config):
    """Return the language of the book that is built; "" where it is English."""
    names = {name: folder for folder, name in translations.LANGUAGES.items()}
    return names.get(config.language, "")


@cache
def offered():
    """Return the languages that a page of the book is translated to."""
    found = translations.LOCALE.glob("*/*.po")
    return {
        path.parent.name
        for path in found
        if path.stem not in (translations.SHARED, translations.LIVE)
    }


def configure(app, config):
    """Translate what stands in _config.yml and _toc.yml, and give the addresses."""
    language = edition(config)
    if not language:
        return
    shared = words(language, translations.SHARED)
    for name in ("nb_code_prompt_show", "nb_code_prompt_hide"):
        config[name] = shared.get(config[name], config[name])
    options = config.html_theme_options
    for name in ("extra_footer", "search_bar_text"):
        options[name] = shared.get(options[name], options[name])
    for tree in config.external_site_map.root.subtrees:
        tree.caption = shared.get(tree.caption, tree.caption)
    config.locale_dirs = [str(Path(app.doctreedir, "locale"))]
    config.gettext_compact = False
    config.html_baseurl = config.ogp_site_url = f"{config.html_baseurl}{language}/"


def give_headings_and_theme(app):
    """Put the catalogues where Sphinx looks for those of headings and of its theme."""
    language = edition(app.config)
    if not language:
        return
    for page in app.config.external_site_map:
        path = translations.path_of(language, Path(page).name)
        folder = Path(*app.config.locale_dirs, app.config.language, "LC_MESSAGES")
        compiled = folder / f"{page}.mo"
        if path.exists():
            compiled.parent.mkdir(parents=True, exist_ok=True)
            with compiled.open("wb") as file:
                write_mo(file, translations.read(path))
    shared = words(language, translations.SHARED)
    for part in ("sphinx", "booktheme"):
        get_translator(part)._catalog.update(shared)


def translate(app, docname, source):
    """Give a page the words of its edition, and note how much of it has them."""
    language, name = edition(app.config), Path(docname).name
    if not language:
        return
    app.env.metadata[docname]["lacks"] = translations.NOT_YET
    if not translations.path_of(language, name).exists():
        return
    for part in (translations.SHARED, translations.LIVE, name):
        app.env.note_dependency(str(translations.path_of(language, part)))
    done, lacking = words(language, name), []

    def translated(message, kind):
        if message not in done and kind != "title":
            lacking.append(message)
        return message if kind == "heading" else done.get(message, message)

    is_notebook = docname.startswith("notebooks/")
    document = nbformat.reads(source[0], 4) if is_notebook else source[0]
    document = translations.transform(document, translated)
    source[0] = nbformat.writes(document) if is_notebook else document
    app.env.metadata[docname]["lacks"] = translations.PARTLY if lacking else ""


def keep_anchors(app, doctree):
    """Give back a page's anchors, which Sphinx replaces as it translates headings."""
    if anchors := getattr(doctree, "myst_slugs", None):
        app.env.metadata[app.env.docname]["myst_slugs"] = anchors


def find_begun(app, env, added, changed, removed):
    """Return the pages that were read before they had a catalogue."""
    language = edition(app.config)
    paths = {
        page: translations.path_of(language, Path(page).name) for page in env.found_docs
    }
    return [
        page
        for page, path in paths.items()
        if path.exists() and str(path) not in env.dependencies[page]
    ]


def lead_to_others(app, pagename, templatename, context, doctree):
    """Link a page's other editions, and say where it is not translated."""
    own = edition(app.config)
    up = "../" * (pagename.count("/") + bool(own))
    folders = {"en": ""} | {
        code: f"{code}/" for code in sorted({*offered(), own} - {""})
    }
    context["editions"] = {
        code: "" if code == (own or "en") else f"{up}{folder}{pagename}.html"
        for code, folder in folders.items()
    }
    context["edition_names"] = translations.NAMES
    if pagename not in app.env.found_docs:
        return
    base = app.config.html_baseurl.removesuffix(folders[own or "en"])
    for code, folder in [*folders.items(), ("x-default", "")]:
        context["metatags"] += (
            f'\n<link rel="alternate" hreflang="{code}" '
            f'href="{base}{folder}{pagename}.html"/>'
        )
    lacks = app.env.metadata[pagename].get("lacks")
    source = str(app.env.doc2path(pagename, False))
    if own and lacks != translations.NOT_YET and (version := commit(source)):
        link = f'<a href="{SOURCE}{version}/{source}">{version}</a>'
        context["body"] += (
            f'<p class="made-from">{_(translations.MADE_FROM) % link}</p>\n'
        )
    if lacks:
        body = context["body"]
        if lacks == translations.NOT_YET:
            body = f'<div lang="en">\n{body}</div>\n'
        context["body"] = f'<p class="not-translated">{_(lacks)}</p>\n{body}'


def give_notebooks(app, exception):
    """Let the pages' download buttons give the chapters in the edition's language."""
    language = edition(app.config)
    if exception or not language or app.builder.format != "html":
        return
    for page in app.config.external_site_map:
        name = Path(page).name
        if (
            page.startswith("notebooks/")
            and translations.path_of(language, name).exists()
        ):
            document = translations.notebook(language, name, app.config.html_baseurl)
            nbformat.write(document, Path(app.outdir, "_sources", f"{page}.ipynb"))


def setup(app):
    # After the table of contents is read, at 900.
    app.connect("config-inited", configure, priority=950)
    app.connect("builder-inited", give_headings_and_theme)
    app.connect("env-get-outdated", find_begun)
    app.connect("doctree-read", keep_anchors)
    # Before live figures are parted, at the default priority of 500.
    app.connect("source-read", translate, priority=400)
    app.connect("build-finished", give_notebooks)
    # Before the theme renders the header, at 500.
    app.connect("html-page-context", lead_to_others, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
