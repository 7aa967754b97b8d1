"""Keep the editions of the book in other languages in step with the English one.

    python book/tools/translations.py update [book/locale/ko/NAME.po …]
    python book/tools/translations.py check
    python book/tools/translations.py build ko

A catalogue holds what one chapter or page says, paragraph by paragraph, in English and
in another language; shared.po holds what is the same everywhere, and live.po what the
scripts of live figures and of the live translator say. `update` brings those
that exist, or the ones named, to the English as it is: what it finds again it keeps,
what has changed it marks as fuzzy. A message without a translation, or with a fuzzy
one, shows English. `check` says where a catalogue is not up to date, and where a
translation has other links, formulas, code, images or numbers than the English.
`build` writes an edition to _build/html/ko, where the English pages look for it.
"""

import argparse
import copy
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import nbformat
import yaml
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po
from docutils.nodes import make_id
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser

sys.path.insert(0, str(Path(__file__).parent))
import link_glossary
import make_map

import notebooks as tool
from transformer_lite.page import messages_of
from transformer_lite.page.export import PAGE, TITLE, WORKER
from transformer_lite_book.live_figures import TOUR, renewed

ROOT = make_map.ROOT
LOCALE = ROOT / "book" / "locale"
CONFIG = ROOT / "_config.yml"
TOC = ROOT / "book" / "_toc.yml"
LANGUAGES = {"ko": "ko", "zh": "zh_CN"}
"""The folder of each language, and Sphinx's name for it."""
NAMES = {"en": "English", "ko": "한국어", "zh": "中文"}
SHARED, LIVE = "shared", "live"
HOMES = {"generated": SHARED, "prompt": SHARED, "title": SHARED, "live figure": LIVE}
"""The catalogues of what is not a chapter's own, by what it is."""
VOICES = {
    "연습 문제": "exercise",
    "논문": "the-paper",
    "버그": "bug",
    "요약": "in-short",
    "练习": "exercise",
    "论文": "the-paper",
    "找出": "bug",
    "小结": "in-short",
}
"""The class of a quotation in bold, by the words that it begins with."""
PARTLY = "Some of this page has not been translated yet and shows English."
NOT_YET = "This page has not been translated yet and shows English."
MADE_FROM = "Translated from the English of commit %s."
INTERFACE = f"""
Back to top|By|Close|Contents|Copyright|Download notebook file|Download source file
Download this page|Fullscreen mode|Home|Launch interactive content|Launch on|Next
Link to this code|Link to this heading|Link to this image|Link to this table
On this page|Open an issue|Open issue|Previous|Print to PDF|Repository|Search
Search this book...|Show Source|Show the code|Site navigation|Skip to main content
next|next page|Source repositories|Source repository|light/dark|previous|previous page
%s hours|%s minutes|Languages|Toggle primary sidebar|Toggle secondary sidebar
Version warning|{MADE_FROM}|{PARTLY}|{NOT_YET}
"""
"""What the theme and the extensions write on a page."""
GENERATED = ("[Open in Colab](", tool.COURSE, "Paper: ", "[Stop ")
"""How the lines begin of which a program writes all or a part."""
# Links to files, code, the targets of links and numbers differ between chapters.
DIFFERING = re.compile(
    r"\[[\w.]+\]\(http[^)]*\)(?:, \[[\w.]+\]\(http[^)]*\))*"
    r"|`[^`]+`|(?<=\])\([^)]*\)|\d+(?:\.\d+)*"
)
KEPT = {
    "links": ("link_open", "href"),
    "images": ("image", "src"),
    "formulas": ("math_inline", None),
    "code": ("code_inline", None),
    "tags": ("html_inline", None),
    "roles": ("myst_role", None),
}
"""What a translation keeps, with the token and the attribute that hold it."""
BESIDE = re.compile(r"\]\((?:\.\./(book/))?(\w+)\.(?:md|ipynb)")
"""The beginning of a link from a notebook to another page of the book."""
NUMBER = r"\d+(?:[.,]\d+)*"
GLOSSARY = r"\[([^\]]+)\]\([^)]*glossary\.md#([^)]+)\)"
HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'

Document = str | nbformat.NotebookNode
Translate = Callable[[str, str], str]


@cache
def parser():
    """Return the parser of the book's Markdown."""
    names = yaml.safe_load(CONFIG.read_text("utf-8"))["parse"]["myst_enable_extensions"]
    return create_md_parser(MdParserConfig(enable_extensions=set(names)), RendererHTML)


def transform(document: Document, translate: Translate) -> Document:
    """Return a page or a notebook with each message as `translate` gives it.

    A message is a paragraph, a heading, the cell of a table, a caption, an alternative
    text, the title of a closed cell, the words that open it or what a live figure says.
    `translate` is given the message and what it is. Where it changes nothing, no byte
    of the document changes.
    """
    if isinstance(document, str):
        return _markdown(document, translate)
    notebook = copy.deepcopy(document)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _markdown(cell.source, translate)
            continue
        first, newline, rest = cell.source.partition("\n")
        if first.startswith(tool.TITLE):
            title = translate(first.removeprefix(tool.TITLE), "title")
            cell.source = f"{tool.TITLE}{title}{newline}{rest}"
        book = cell.metadata.get("mystnb", {})
        for place, key, kind in (
            (book, "code_prompt_show", "prompt"),
            (book.get("figure", {}), "caption", "caption"),
            (book.get("image", {}), "alt", "alternative text"),
        ):
            if key in place:
                place[key] = translate(place[key], kind)
        for output in cell.outputs:
            if "text/markdown" in output.get("data", {}):
                shown = output.data["text/markdown"]
                output.data["text/markdown"] = _markdown(shown, translate)
            if "text/html" in output.get("data", {}):
                output.data["text/html"] = renewed(
                    output.data["text/html"],
                    lambda message: _translated(message, "live figure", translate),
                )
    return notebook


def _markdown(text: str, translate: Translate) -> str:
    """Do the same for Markdown."""
    lines: list[str | None] = list(text.split("\n"))
    read_to: dict[int, int] = {}  # cells of a table share a line
    quotes, before = 0, None
    for token in parser().parse(text):
        quotes += (token.type == "blockquote_open") - (token.type == "blockquote_close")
        if token.type == "front_matter":
            for i in range(*token.map):
                lines[i] = re.sub(
                    r'(?<=description: ")[^"]+',
                    lambda found: translate(found[0], "description"),
                    lines[i],
                )
        elif token.type == "colon_fence" and token.info.startswith("{grid"):
            first, last = token.map[0] + 1, token.map[1] - 1
            while lines[first].startswith(":") and not lines[first].startswith(":::"):
                first += 1
            inside = _markdown("\n".join(lines[first:last]), translate)
            lines[first:last] = [inside, *[None] * (last - first - 1)]
        elif token.type == "inline":
            is_voice = quotes and token.content.startswith("**")
            kind = "voice" if is_voice else before.type.removesuffix("_open")
            parts = token.content.split("\n")
            message = re.sub(r"(?<!\\)\n\s*", " ", token.content)
            wanted = _translated(message, kind, translate)
            new = wanted.split("\n") if wanted != message else parts
            new += [None] * (len(parts) - len(new))
            for i, (old, part) in enumerate(zip(parts, new, strict=True), token.map[0]):
                at = lines[i].index(old, read_to.get(i, 0))
                after = lines[i][at + len(old) :]
                lines[i] = None if part is None else lines[i][:at] + part + after
                read_to[i] = at + len(part or "")
        before = token
    return "\n".join(line for line in lines if line is not None)


def _translated(message: str, kind: str, translate: Translate) -> str:
    """Translate a message if it has words; of a generated line, its parts."""
    if not message.startswith(GENERATED):
        bare = re.sub(r"\$[^$]*\$|`[^`]*`|<[^>]*>|\]\([^)]*\)", "", message)
        has_words = kind == "live figure" or re.search("[A-Za-z]{2}", bare)
        return translate(message, kind) if has_words else message
    parts = []
    for part in message.split(" · "):
        values: list[str] = []

        def number(found, values=values):
            values.append(found[0])
            return f"{{{len(values) - 1}}}"

        pattern = DIFFERING.sub(number, part)
        parts.append(translate(pattern, "generated").format(*values))
    return " · ".join(parts)


def messages(document: Document, home: str | None = None) -> dict[str, str]:
    """Return the messages of a page or a notebook, and what each is.

    Args:
        home: A catalogue of all chapters, whose messages are meant; by default those
            of the document's own.
    """
    found: dict[str, str] = {}

    def note(message: str, kind: str) -> str:
        if HOMES.get(kind) == home:
            found.setdefault(message, kind)
        return message

    transform(document, note)
    return found


@cache
def documents() -> dict[str, Document]:
    """Return the English pages and notebooks by name; the API's page stays English."""
    found: dict[str, Document] = {
        path.stem: path.read_text("utf-8")
        for path in sorted((ROOT / "book").glob("*.md"))
        if path.stem != "api"
    }
    for path in sorted(tool.NOTEBOOKS.glob("*.ipynb")):
        found[path.stem] = nbformat.read(path, as_version=4)
    return found


@cache
def expected(name: str) -> dict[str, str]:
    """Return the messages that a catalogue has to hold, and what each is."""
    if name not in (SHARED, LIVE):
        return messages(documents()[name])
    found = _interface() if name == SHARED else _of_live_page()
    for document in documents().values():
        found |= messages(document, name)
    return found


def _interface() -> dict[str, str]:
    """Return what the theme, the table of contents and the configuration say."""
    words = re.split(r"[|\n]", INTERFACE.strip())
    parts = yaml.safe_load(TOC.read_text("utf-8"))["parts"]
    found = dict.fromkeys(words, "interface")
    found |= {part["caption"]: "interface" for part in parts}
    footer = yaml.safe_load(CONFIG.read_text("utf-8"))["html"]["extra_footer"]
    found[footer] = "interface"
    return found


def _of_live_page() -> dict[str, str]:
    """Return what the live translator says, its tour and its page that stands alone."""
    found = dict.fromkeys([TITLE, *messages_of(*PAGE, *WORKER)], "live translator")
    return found | dict.fromkeys(messages_of(*TOUR), "tour")


def path_of(language: str, name: str) -> Path:
    """Return where a catalogue lies."""
    return LOCALE / language / f"{name}.po"


def read(path: Path) -> Catalog:
    """Return a catalogue; an empty one where there is no file."""
    if not path.exists():
        return Catalog(fuzzy=False)
    with path.open("rb") as file:
        return read_po(file, charset="utf-8")


def usable(catalogue: Catalog) -> dict[str, str]:
    """Return the translations that are finished."""
    return {
        entry.id: entry.string
        for entry in catalogue
        if entry.id and entry.string and not entry.fuzzy
    }


def translation(language: str, name: str) -> dict[str, str]:
    """Return what a chapter or page says in a language, as far as it is translated."""
    stems = (name,) if name in (SHARED, LIVE) else (SHARED, LIVE, name)
    parts = (read(path_of(language, stem)) for stem in stems)
    return {text: new for part in parts for text, new in usable(part).items()}


def notebook(language: str, name: str, address: str) -> nbformat.NotebookNode:
    """Return a chapter in a language, to be run anywhere.

    Args:
        address: Where the edition's pages are; links lead there, since a notebook that
            has been downloaded has no others beside it.
    """
    words = translation(language, name)
    document = transform(
        documents()[name], lambda message, _: words.get(message, message)
    )
    for cell in document.cells:
        if cell.cell_type == "markdown":
            cell.source = BESIDE.sub(
                lambda link: f"]({address}{link[1] or 'notebooks/'}{link[2]}.html",
                cell.source,
            )
    return document


def update(path: Path) -> None:
    """Bring a catalogue to the English as it is."""
    template, catalogue = Catalog(), read(path)
    for message, kind in expected(path.stem).items():
        template.add(message, auto_comments=[kind])
    catalogue.update(template)
    for entry in catalogue:
        entry.flags &= {"fuzzy"}  # a percent sign does not make a format
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.write(HEADER.encode())
        write_po(file, catalogue, width=0, omit_header=True, ignore_obsolete=True)


def check() -> Iterator[str]:
    """Yield what is wrong with the catalogues."""
    for path in sorted(LOCALE.glob("*/*.po")):
        yield from (
            f"{path.relative_to(ROOT)}: {fault}"
            for fault in faults(path.parent.name, path.stem, read(path))
        )


def faults(language: str, name: str, catalogue: Catalog) -> Iterator[str]:
    """Yield what is wrong with one catalogue."""
    english, done = expected(name), usable(catalogue)
    held = {entry.id for entry in catalogue if entry.id}
    for message in english.keys() ^ held:
        is_new = "is new or has changed" if message in english else "is gone"
        yield f"{message!r} {is_new}; run book/tools/translations.py update"
    for message, new in done.items():
        for what, (before, after) in _compared(message, new).items():
            lost, added = (
                Counter(before) - Counter(after),
                Counter(after) - Counter(before),
            )
            if lost or added:
                yield f"{message!r} loses the {what} {[*lost]} and gains {[*added]}"
        yield from (f"{message!r}: {fault}" for fault in _misused(language, new))
        is_voice = english.get(message) == "voice"
        if is_voice and _colour(message) != _colour(new):
            yield f"{message!r}: begin in bold with one of the words in VOICES"


def voice_class(title: str) -> str:
    """Return the class, and with it the colour, of a quotation with this title."""
    known = (VOICES[words] for words in VOICES if title.startswith(words))
    return next(known, make_id(title))


def _colour(voice: str) -> set[str]:
    """Return the colour of a quotation's message."""
    title = re.match(r"(?:\*\*(.+?)\*\*)?", voice)[1] or ""
    return {colour for colour in VOICES.values() if colour in voice_class(title)}


def _compared(message: str, new: str) -> dict[str, tuple[Iterable[str], Iterable[str]]]:
    """Return what has to be the same in both, by what it is."""
    (words, parts), (new_words, new_parts) = _parts(message), _parts(new)
    numbers = set(re.findall(NUMBER, words))
    return {what: (parts[what], new_parts[what]) for what in parts} | {
        "numbers": (numbers, numbers & set(re.findall(NUMBER, new_words))),
    }


def _parts(message: str) -> tuple[str, dict[str, list[str]]]:
    """Return a message's words, and what else it holds, by what that is."""
    tokens = parser().parseInline(message)[0].children
    found = {
        what: [
            str(t.attrs[key]) if key else t.content for t in tokens if t.type == kind
        ]
        for what, (kind, key) in KEPT.items()
    }
    words = " ".join(t.content for t in tokens if t.type == "text")
    found["bars"] = re.findall(r"(?<!\\)\|", message)  # in a table, a cell ends there
    found["asterisks"] = re.findall(r"\*", words)
    found["places"] = re.findall(r"\{\d\}|%s", message)
    found["blocks"] = [token.type for token in parser().parse(message)]
    return words, found


def _misused(language: str, message: str) -> Iterator[str]:
    """Yield the links to the glossary whose words are not the glossary's."""
    for words, anchor in re.findall(GLOSSARY, message):
        names = terms(language).get(anchor, [words])
        bare = re.sub(r"\*|[(（].*?[)）]", "", words)
        if not any(name in bare or bare in name for name in names):
            yield f"the glossary calls {anchor} {' or '.join(names)}"


@cache
def terms(language: str) -> dict[str, list[str]]:
    """Return the names of each term of the glossary in a language, by its anchor."""
    field = {"ko": "korean", "zh": "chinese"}[language]
    entries = link_glossary.PAGE.read_text("utf-8").split("\n### ")[1:]
    return {
        link_glossary.anchor(entry["name"]): re.findall("[^()（），,、]+", entry[field])
        for entry in map(link_glossary.ENTRY.match, entries)
    }


def build(language: str) -> int:
    """Build an edition, as `make book` does the English one; return its status."""
    from jupyter_book.sphinx import build_sphinx

    settings = {"external_toc_path": str(TOC), "latex_individualpages": False}
    return build_sphinx(
        ROOT,
        ROOT / "_build" / "html" / language,
        path_config=CONFIG,
        noconfig=True,
        confoverrides=settings | {"nitpicky": True, "language": LANGUAGES[language]},
        doctreedir=ROOT / "_build" / f".doctrees-{language}",
        warningiserror=True,
        keep_going=True,
    )


def main() -> int:
    """Do what the command line says."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    verbs = options.add_subparsers(dest="verb", required=True)
    named = verbs.add_parser("update", help="bring catalogues to the English as it is")
    named.add_argument("paths", nargs="*", type=Path, help="by default all there are")
    verbs.add_parser("check", help="say what is wrong with the catalogues")
    one = verbs.add_parser("build", help="build an edition")
    one.add_argument("language", choices=LANGUAGES)
    arguments = options.parse_args()
    if arguments.verb == "build":
        return int(build(arguments.language) != 0)
    if arguments.verb == "update":
        for path in arguments.paths or sorted(LOCALE.glob("*/*.po")):
            update(path)
        return 0
    found = [*check()]
    print("\n".join(found) or "The translations are in step.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
