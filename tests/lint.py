"""Check the repository's form: links, names, versions, the map, the glossary, chapters.

    python tests/lint.py [KIND …]

prints for each fault its file, place and remedy; the status is 1 if there is one.
`make lint` runs all kinds, and tests/test_repository.py has a test for each.
"""

import re
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import nbformat
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "book" / "tools")]
import limits  # noqa: E402
import link_glossary  # noqa: E402
import make_map  # noqa: E402

import notebooks as tool  # noqa: E402
import transformer_lite  # noqa: E402
from transformer_lite import cli  # noqa: E402
from transformer_lite_book import plots  # noqa: E402

STEMS = sorted(path.stem for path in make_map.NOTEBOOKS.glob("*.ipynb"))
TEXT = "py md jinja toml yml txt cff css json bib js html ipynb".split()
FOLDERS = (*make_map.BUILDINGS, "tests", "book", "notebooks", "results", "benchmarks")
FOLDERS += ("examples", ".github", ".ci")
MYST = re.compile(
    r"(?m)^\s*(?:`{3,}|:{3,}|~{3,})\{|^:{3,}"  # directive
    r"|\{[a-z][\w:+-]*\}`"  # role
    r"|^\([\w-]+\)=\s*$|\$\$\s*\([\w-]+\)",  # target, labelled equation
)
# Written so that these lines do not find themselves.
PLACE = r"(?<![\w.:/])[/](?:home|root|Users|opt|mnt|tmp|work|content)/\w"
UNDONE = r"(?<![\w+/])(?:T[O]DO|F[I]XME|X[X]X)"
STRANGER = r"(?:pip|uv|pipx) [^\n`]*transformer[-]lite(?![-/.\w])"
# Dark mode turns each into its opposite; words that a figure quotes stand in “…”.
SHADE = r"(?i)\b(?:(?:dark|light|pale|bright)(?:e?r|e?st)?|black|white)\b"
DRAWN = rf'(?:label|title|text|annotate)\w*[(=].*"[^"]*{SHADE[4:]}[^"]+"'
COLAB = {"torch": "2.11.0", "numpy": "2.1.3", "matplotlib": "3.10.0"}
COLAB |= {"seaborn": "0.13.2", "sentencepiece": "0.2.2", "ipython": "7.34.0"}


def text(path):
    """The text of a file, by its path from the repository's root."""
    return (ROOT / path).read_text(encoding="utf-8")


def at(path, words):
    """The place where these words first stand in a file, or its end."""
    before, _, _ = text(path).partition(words)
    return f"{path}:{before.count(chr(10)) + 1}"


def differ(path, what, named, existing, needed=()):
    """Say which names in a file name nothing, and which needed ones it lacks."""
    for name in sorted(set(named) - set(existing)):
        yield f"{at(path, name)}: there is no {what} {name}; correct the name"
    for name in sorted(set(needed) - set(named)):
        yield f"{path}: lacks {what} {name}; add it"


def there(names):
    return [name for name in names if (ROOT / name).exists()]


def chapters():
    """The path and the notebook of every chapter."""
    for stem in STEMS:
        path = f"notebooks/{stem}.ipynb"
        yield path, nbformat.v4.reads(text(path))


def code_cells(chapter):
    """The name of each code cell, and the cell."""
    for number, cell in enumerate(chapter.cells, start=1):
        if cell.cell_type == "code":
            yield f"cell {number} ({cell.source.partition(chr(10))[0][:40]})", cell


def versions():
    """Requirements are pinned, Colab's versions are accepted, the version is one."""
    project = tomllib.loads(text("pyproject.toml"))["project"]
    pins = dict(re.findall(r"^(.+)==(.+)$", text("requirements.txt"), re.M))
    needed = sum(project["optional-dependencies"].values(), project["dependencies"])
    for item in map(Requirement, needed):
        # The tests use a stand-in for datasets: it is large, and needs a network.
        pin = pins.get(item.name, "0")
        if item.name != "datasets" and pin not in item.specifier:
            yield f"requirements.txt: {item.name}=={pin} has to be {item.specifier}"
        if item.name in COLAB and COLAB[item.name] not in item.specifier:
            yield f"{at('pyproject.toml', str(item))}: allow {COLAB[item.name]} (Colab)"
    version = project["version"]
    for path, line in (("CITATION.cff", "version: "), ("CHANGELOG.md", "## [")):
        if f"\n{line}{version}" not in text(path):
            yield f"{at(path, line)}: the version is {version}"
    if transformer_lite.__version__ != version:
        yield f"pyproject.toml: install the package again, to have version {version}"


def names():
    """README and command_line.md name commands and files that there are."""
    targets = re.findall(r"^([a-z]+):", text("Makefile"), re.M)
    named = re.findall(r"(?:^|`)make ([a-z]+)", text("README.md"), re.M)
    yield from differ("README.md", "target", named, targets, ["test", "book"])
    verbs = ["prepare", "train", "evaluate", "translate"]
    for path, needed in (("README.md", []), ("book/command_line.md", verbs)):
        named = re.findall(r"(?:^|\| )transformer-lite ([a-z-]+)", text(path), re.M)
        yield from differ(path, "verb", named, cli.find_verbs(), needed)
    files = re.findall(r"(?:\]\(|src=\")(?!https?:|#)([^)#\"]+)", text("README.md"))
    yield from differ("README.md", "file", files, there(files))
    for path in (name for name in there(files) if name.endswith(".md")):
        for markup in MYST.findall(text(path)):
            yield f"{at(path, markup)}: GitHub shows {markup.strip()!r} raw; do without"
    folders, kinds = "tests|transformer_lite|results|book|examples", "py|json|md|toml"
    file = re.compile(rf"(?:{folders})/[\w./-]+\.(?:{kinds})")
    for path, chapter in chapters():
        content = markdown(chapter.cells)
        for markup in MYST.findall(content):
            yield f"{at(path, markup)}: Colab shows {markup.strip()!r} raw; do without"
        files = file.findall(re.sub(r"/blob/[0-9a-f]{12}/\S+", "", content))
        yield from differ(path, "file", files, there(files))


def markdown(cells):
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def machines():
    """No file names one machine, leaves work undone or installs a stranger."""
    files = [path for path in ROOT.iterdir() if path.is_file()]
    files += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    for path in (path.relative_to(ROOT) for path in files):
        if path.suffix[1:] in TEXT or path.name == "Makefile":
            for words in re.findall(f"{PLACE}|{UNDONE}|{STRANGER}", text(path)):
                yield f"{at(path, words)}: take {words!r} away"


def deviations():
    """Each deviation that the code tags is in the ledger, and the other way round."""
    page, tags = "book/deviations.md", []
    for path in sorted((ROOT / "transformer_lite").rglob("*.py")):
        for line in re.findall(r"(?i)# *deviation.*", path.read_text("utf-8")):
            tags += re.findall(r"^# Deviation (D\d+): \S", line) or [line]
    headings = re.findall(r"^## ((D\d+)\b.*)$", text(page), re.M)
    summary = re.findall(r"^\| \[(D\d+)\]\(#([^)]+)\) ", text(page), re.M)
    entries = {number: link_glossary.anchor(title) for title, number in headings}
    if summary != [*entries.items()] or len(entries) < len(headings):
        yield f"{at(page, '| [D')}: link every entry, each of its own number, in order"
    yield from differ(page, "tag in the code for", entries, tags, tags)


def glossary():
    """Every term of the glossary is complete, and every link to one arrives."""
    page = "book/glossary.md"
    for fault in link_glossary.faults(text(page)):
        yield f"{page}: {fault}"
    headings = re.findall(r"^#{1,3} (.+)$", text(page), re.M)
    anchors = [*map(link_glossary.anchor, headings)]
    contents = {path: markdown(chapter.cells) for path, chapter in chapters()}
    for path in (ROOT / "book").glob("*.md"):
        contents[f"book/{path.name}"] = text(path)
    contents[page] = contents[page].replace("](#", "](glossary.md#")
    for path, content in contents.items():
        named = re.findall(r"\]\((?:\.\./book/)?glossary\.md#([^)\s]+)\)", content)
        yield from differ(path, "term of the glossary", named, anchors)


def way_to_the_code():
    """The way from the paper to the code, chapters and tests, and back, is whole."""
    modules = [*map(make_map.read_module, make_map.module_names())]
    for module in modules:
        path = str(make_map.module_path(module.name).relative_to(ROOT))
        if not re.search(r"§\d|Table \d|Fig|–", module.paper):
            yield f"{at(path, 'Paper: ')}: name a section of the paper, or –"
        yield from differ(path, "test", module.tests, there(module.tests))
        yield from differ(path, "chapter", module.chapters, STEMS)
    if text("book/map.md") != make_map.render():
        yield "book/map.md: run python book/tools/make_map.py"
    named = {stem for module in modules for stem in module.chapters}
    yield from differ("book/map.md", "module for chapter", named, named, STEMS)
    for path, pattern, needed in (
        ("book/intro.md", r"\.\./notebooks/(\w+)\.ipynb", STEMS),
        ("book/_toc.yml", r"file: notebooks/(\w+)", STEMS),
        ("book/api.md", r"automodule:: ([\w.]+)", [m.name for m in modules]),
    ):
        yield from differ(path, "page", re.findall(pattern, text(path)), needed, needed)


def front_page():
    """The drawing, the hours and the ten weeks are what the chapters say."""
    path, titles = "book/_static/model.svg", make_map.chapter_titles()
    drawing = ElementTree.fromstring(text(path))
    *_, right, bottom = map(int, drawing.get("viewBox").split())
    boxes = {box: Path(box.get("href")).stem for box in drawing.findall(".//{*}a")}
    model = [stem for stem in STEMS if stem.startswith("03_")]
    yield from differ(path, "chapter", boxes.values(), STEMS, model)
    for box, stem in boxes.items():
        title, label, number = (part.text for part in box if part.text)
        if (title, number) != (titles.get(stem), title.partition(" ")[0]):
            yield f"{at(path, label)}: {label} needs its chapter's title and number"
        rect = box.find("{*}rect")
        x, y, width, height = (int(rect.get(n)) for n in ("x", "y", "width", "height"))
        # At 14 px a letter of Helvetica is 7 px wide, a little less on average.
        is_inside = 0 <= x <= right - width and 0 <= y <= bottom - height
        if not is_inside or 7 * len(label + number) > width:
            yield f"{at(path, label)}: {label} needs more room"
    hours = sum(tool.reading_minutes(chapter) for _, chapter in chapters()) / 60
    if round(hours) != int(re.search(r"about\s(\d+)\s+hours", text("README.md"))[1]):
        yield f"{at('README.md', ' hours')}: the chapters take {hours:.0f} hours"
    guide = "book/how_to_read.md"
    rows = re.findall(r"^\| (\d+) \|.+?notebooks/(\w+)\.ipynb", text(guide), re.M)
    weeks = [*dict.fromkeys(week for week, _ in rows)]
    order = re.findall(r"file: notebooks/(\w+)", text("book/_toc.yml"))
    if [stem for _, stem in rows] != order or weeks != [*map(str, range(1, 11))]:
        yield f"{at(guide, '## A course')}: give every chapter a week, in their order"


def executed():
    """Chapters are as the tooling writes them, ran well, and define no name again."""
    buildings = [ROOT / "transformer_lite", ROOT / "transformer_lite_book"]
    paths = [path for folder in buildings for path in folder.rglob("*.py")]
    sources = [
        path.read_text("utf-8") for path in paths if path.stem not in ("cli", "verbs")
    ]
    package = {name for source in sources for name in names_defined(source)}
    for path, chapter in chapters():
        counts = [cell.execution_count for _, cell in code_cells(chapter)]
        is_quick = (
            0 < chapter.metadata["transformer_lite"]["seconds"] <= 90
        )  # of a slow machine
        if counts != [*range(1, len(counts) + 1)] or not is_quick:
            yield f"{path}: run it whole, in 90 seconds at most: make notebooks"
        for place, cell in code_cells(chapter):
            kinds = {out.get("name", out.output_type) for out in cell.outputs}
            if {"error", "stderr"} & kinds:
                yield f"{path}, {place}: mend the error or warning in its output"
            for name in package.intersection(names_defined(cell.source)):
                yield f"{path}, {place}: {name} is the package's; use that, or rename"
            # On a machine with a GPU a translator would go there.
            if re.search(r"Translator\.load\((?![^)]*device=\"cpu\")", cell.source):
                yield f'{path}, {place}: load the translator with device="cpu"'
        again = tool.settle(tool.generated(chapter, Path(path).stem))
        if tool.as_text(again) != text(path):
            yield f"{path}: run python book/tools/notebooks.py --setup-only"


def names_defined(source):
    """The public names that lines at the left edge define or assign."""
    pattern = r"^(?:def|class) (\w+)|^([a-zA-Z*][\w, *]*)(?:: [^=\n]+)? = "
    names = ", ".join(map("".join, re.findall(pattern, source, re.M)))
    return re.findall(r"\b[^\W_]\w*", names)


def figures():
    """A picture comes first, alone, closed, named, described and of a fixed width."""
    drawn = []
    for path, chapter in chapters():
        cells = [*code_cells(chapter)]
        seen = [c for _, c in cells if limits.pictures(c) or not limits.is_closed(c)]
        if not limits.pictures(seen[0]):
            yield f"{path}: begin with a picture, before any open code"
        for place, cell in cells:
            data = [out.get("data", out) for out in cell.outputs]
            printed = [one.get("text") or one.get("text/plain", "") for one in data]
            if max(map(len, "\n".join(printed).split("\n"))) > 88:
                yield f"{path}, {place}: print lines of at most 88 characters"
            if not limits.pictures(cell):
                continue
            metadata = cell.metadata.get("mystnb", {})
            figure = metadata.get("figure", {})
            alt = metadata.get("image", {}).get("alt")
            plain = re.sub(r"\$[^$]*\$", "", figure.get("caption", ""))
            if not (plain and alt) or re.search(r"\w_\w|[²³√]", plain):
                yield f"{path}, {place}: add caption and alt, with formulas in $…$"
            words = re.sub("“[^”]*”", "", f"{figure.get('caption')} {alt}")
            if re.search(SHADE, words) or re.search(DRAWN, cell.source):
                yield f"{path}, {place}: name no light or dark, which dark mode inverts"
            tags = cell.metadata.get("tags", [])
            if not {"hide-input", "hide-cell"}.intersection(tags):
                yield f"{path}, {place}: begin with `# @title How this is drawn`"
            width = plots.WIDE if "full-width" in tags else plots.COLUMN
            width = plots.NARROW if "narrow" in tags else width
            sizes = [out.get("metadata", {}).get("image/png") for out in cell.outputs]
            sizes = [size["width"] / 110 - width for size in sizes if size]
            if len(sizes) != 1 or abs(sizes[0]) > 0.02:
                yield f"{path}, {place}: draw one figure, {width} inches wide"
            drawn.append(figure.get("name"))
    if len(set(drawn)) < len(drawn):
        yield f"notebooks: {max(drawn, key=drawn.count)} names two figures; rename one"


def stories():
    """A story and its evidence have their sections and keep their limits."""
    for path, chapter in chapters():
        yield from (f"{path}: {fault}" for fault in limits.faults(chapter))


ALL = [versions, names, machines, deviations, glossary, way_to_the_code, front_page]
KINDS = {kind.__name__: kind for kind in (*ALL, executed, figures, stories)}

if __name__ == "__main__":
    faults = [line for kind in sys.argv[1:] or KINDS for line in KINDS[kind]()]
    print("\n".join(faults) or "The form is right.")
    sys.exit(bool(faults))
