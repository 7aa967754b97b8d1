"""The chapters are honest: executed, current, readable wherever they are opened."""

import ast
import re
import tomllib

import nbformat
import pytest
from loading import ROOT, load

from transformer_lite_book import plots

tool = load("tools/notebooks.py")
limits = load("tools/limits.py")
STORIES = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
MYST = re.compile(
    r"^\s*(?:`{3,}|:{3,}|~{3,})\{"  # directive
    r"|\{[a-z][\w:+-]*\}`"  # role
    r"|^\([\w-]+\)=\s*$"  # target
    r"|\$\$\s*\([\w-]+\)",  # labelled equation
    re.M,
)


@pytest.fixture(scope="module")
def chapters():
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert len(paths) == 21
    return {path.stem: nbformat.read(path, as_version=4) for path in paths}


@pytest.fixture(scope="module")
def cells(chapters):
    """Every code cell with its chapter."""
    return [
        (name, cell)
        for name, chapter in chapters.items()
        for cell in chapter.cells
        if cell.cell_type == "code"
    ]


def those(cells, is_wrong):
    """The cells of which something is true, each by its chapter and first line."""
    found = [(name, cell) for name, cell in cells if is_wrong(cell)]
    return [f"{name}: {cell.source.splitlines()[0]}" for name, cell in found]


def figures(cell):
    """The metadata of each picture that a cell draws."""
    return [out.metadata for out in cell.outputs if "image/png" in out.get("data", {})]


def is_closed(cell):
    return bool({"hide-input", "hide-cell"} & set(cell.metadata.get("tags", [])))


def parsed(cell):
    """The syntax tree of a cell, its magics and shell commands left out."""
    lines = cell.source.splitlines()
    kept = [line for line in lines if not line.lstrip().startswith(("%", "!"))]
    return ast.parse("\n".join(kept))


# What the tooling makes


def test_files_are_as_the_tooling_writes_them(chapters, tmp_path):
    changed = []
    for name in chapters:
        path = ROOT / "notebooks" / f"{name}.ipynb"
        chapter = tool.with_setup_cell(nbformat.read(path, as_version=4))
        chapter = tool.with_head(tool.with_closed_cells(chapter), name)
        tool.write(tool.settle(chapter), tmp_path / path.name)
        if (tmp_path / path.name).read_bytes() != path.read_bytes():
            changed.append(name)
    assert not changed, "run: python book/tools/notebooks.py --setup-only"


def test_setup_cell_names_the_repository_and_every_dependency_but_torch_and_ipython():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = project["dependencies"] + project["optional-dependencies"]["book"]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in needed}
    assert set(tool.setup_dependencies()) == names - {"torch", "ipython"}
    assert f'"{project["urls"]["Repository"]}"' in tool.setup_source()


@pytest.mark.parametrize("is_there", [True, False])
def test_setup_cell_installs_the_package_where_it_is_missing(monkeypatch, is_there):
    started = []
    monkeypatch.setattr("subprocess.run", lambda command, **_: started.append(command))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: is_there or None)
    monkeypatch.setenv("TRANSFORMER_LITE_GIT", "file:///elsewhere")
    exec(tool.setup_source(), {})
    assert bool(started) is not is_there
    if started:
        package, others = started
        assert package[-2:] == ["--no-deps", "git+file:///elsewhere"]
        assert others[-2:] == tool.setup_dependencies()[-2:]


# What was run


def test_every_chapter_was_executed_in_order_and_in_a_minute(chapters):
    for name, chapter in chapters.items():
        counts = [c.execution_count for c in chapter.cells if c.cell_type == "code"]
        assert counts == list(range(1, len(counts) + 1)), name
        assert 0 < chapter.metadata["transformer_lite"]["seconds"] <= 60, name


def test_no_output_is_an_error_or_a_warning(cells):
    def is_wrong(cell):
        kinds = [{out.output_type, out.get("name")} for out in cell.outputs]
        return any({"error", "stderr"} & kind for kind in kinds)

    assert not those(cells, is_wrong)


def test_no_name_of_the_package_is_defined_again(cells):
    package = {
        name
        for name in ("transformer_lite", "transformer_lite_book")
        for path in (ROOT / name).rglob("*.py")
        # The verbs of the command line and the checks of the course have plain names.
        if path.stem != "cli" and "course" not in path.parts
        for name in names_defined(ast.parse(path.read_text("utf-8")).body)
        if not name.startswith("_")
    }
    assert {"Transformer", "causal_mask", "PAD", "ModelConfig"} <= package
    assert not those(cells, lambda cell: package & names_defined(parsed(cell).body))


def names_defined(nodes):
    """The names that statements outside of functions and classes define."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            inside = (part for target in targets for part in ast.walk(target))
            stored = (part for part in inside if isinstance(part, ast.Name))
            names |= {name.id for name in stored if isinstance(name.ctx, ast.Store)}
    return names


def test_trained_models_are_where_the_chapters_tensors_are(cells):
    # On a machine with a GPU a translator would go there.
    elsewhere = re.compile(r"Translator\.load\((?![^)]*device=\"cpu\")")
    assert not those(cells, lambda cell: elsewhere.search(cell.source))


# What a reader sees


def test_a_picture_comes_before_any_open_code_and_cells_that_draw_are_closed(cells):
    assert not those(cells, lambda cell: figures(cell) and not is_closed(cell))
    seen = [
        (name, cell) for name, cell in cells if figures(cell) or not is_closed(cell)
    ]
    first = {name: bool(figures(cell)) for name, cell in reversed(seen)}
    assert not [name for name, is_figure in first.items() if not is_figure]


def test_a_figure_has_a_name_of_its_own_a_caption_and_alternative_text(cells):
    def is_wrong(cell):
        mystnb = cell.metadata.get("mystnb", {})
        caption = mystnb.get("figure", {}).get("caption", "")
        plain = re.sub(r"\$[^$]*\$", "", caption)  # symbols stand in formulas
        alt = mystnb.get("image", {}).get("alt")
        return not (caption and alt) or re.search(r"\w_\w|[²³√]", plain)

    drawn = [(name, cell) for name, cell in cells if figures(cell)]
    assert not those(drawn, is_wrong)
    names = [cell.metadata["mystnb"]["figure"]["name"] for _, cell in drawn]
    assert len(names) == len(set(names)) >= 40


def test_a_cell_draws_one_figure_of_one_of_two_widths(cells):
    def is_wrong(cell):
        inches = [metadata["image/png"]["width"] / 110 for metadata in figures(cell)]
        is_wide = "full-width" in cell.metadata.get("tags", [])
        expected = plots.WIDE if is_wide else plots.COLUMN
        return len(inches) > 1 or any(abs(width - expected) > 0.02 for width in inches)

    assert not those(cells, is_wrong)


def test_no_printed_line_is_longer_than_the_page_is_wide(cells):
    def is_wrong(cell):
        data = (out.get("data", out) for out in cell.outputs)
        printed = (one.get("text") or one.get("text/plain", "") for one in data)
        return any(len(line) > 88 for text in printed for line in text.splitlines())

    assert not those(cells, is_wrong)


def test_text_reads_outside_the_book_and_names_files_that_exist(chapters):
    assert MYST.findall("{eq}`attention` $$a = b$$ (eq-a)")
    folders, kinds = "tests|transformer_lite|results|book|examples", "py|json|md|toml"
    file = re.compile(rf"(?:{folders})/[\w./-]+\.(?:{kinds})")
    wrong = []
    for name, chapter in chapters.items():
        for cell in (cell for cell in chapter.cells if cell.cell_type == "markdown"):
            wrong += [(name, found) for found in MYST.findall(cell.source)]
            named = file.findall(cell.source)
            wrong += [(name, path) for path in named if not (ROOT / path).exists()]
    assert not wrong


# Story and evidence


def text_of(cells):
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def section(text, heading):
    """What stands between a heading of the second level and the next one."""
    found = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert found, f"no section {heading!r}"
    return found[1]


@pytest.mark.parametrize("name", STORIES)
def test_a_story_and_its_evidence_keep_their_limits(chapters, name):
    story, evidence = map(limits.measure, limits.parts(chapters[name]))
    assert story.minutes <= limits.MINUTES
    assert story.words <= limits.STORY_WORDS
    assert story.open_cells <= limits.OPEN_CELLS
    assert story.open_lines <= limits.OPEN_LINES
    assert story.longest_cell <= limits.OPEN_LINES_PER_CELL
    assert story.figures <= limits.FIGURES
    assert evidence.open_cells == 0
    assert 0 < evidence.words <= limits.EVIDENCE_SHARE * story.words


@pytest.mark.parametrize("name", STORIES)
def test_a_story_and_its_evidence_have_their_sections(chapters, name):
    headings = re.findall(r"^## (.+)$", text_of(chapters[name].cells), re.M)
    assert headings[0] == "The question"
    last = ["Today", "What we know now", "Exercises", "Next", "Evidence"]
    assert headings[-len(last) :] == last
    assert "Where people go wrong" in headings
    assert any(heading.startswith("What happens") for heading in headings)


@pytest.mark.parametrize("name", STORIES)
def test_a_story_has_its_question_answer_exercises_and_reading_time(chapters, name):
    cells, _ = limits.parts(chapters[name])
    text = text_of(cells)
    assert "?" in section(text, "The question")
    answers = re.findall(
        r"^(?:- )?\*\*.+?\*\*.*$", section(text, "What we know now"), re.M
    )
    assert 3 <= len(answers) <= 5
    today = limits.words(section(text, "Today"))
    assert 0 < today <= limits.TODAY_WORDS
    exercises = section(text, "Exercises")
    assert re.findall(r"^> \*\*Exercise (\d)\.", exercises, re.M) == ["1", "2", "3"]
    assert (
        f" · {limits.measure(cells).minutes} minutes without the exercises · " in text
    )


def cell_of(kind, source, tags=(), outputs=()):
    made = getattr(nbformat.v4, f"new_{kind}_cell")(source)
    made.metadata["tags"] = list(tags)
    if kind == "code":
        made.outputs = list(outputs)
    return made


def test_reading_time_counts_words_lines_and_figures_of_the_story():
    def shows(**data):
        return nbformat.v4.new_output("display_data", data)

    picture = cell_of(
        "code", "draw()", ["hide-input"], [shows(**{"image/png": "AAAA"})]
    )
    picture.metadata["mystnb"] = {"figure": {"caption": "two words"}}
    block = {"text/markdown": "```python\na\nb\n```"}
    source = cell_of("code", "show()", ["remove-input"], [shows(**block)])
    head = "# Title\n\n[Open in Colab](x) · never counted"
    cells = [
        cell_of("markdown", f"{head}\n\none [two](address) $a + b$"),  # 4 words
        picture,  # 2 words, a figure
        cell_of("code", "a\nb\nc"),  # 3 open lines
        source,  # 2 lines
        cell_of("code", "hidden()", ["hide-cell"]),
    ]
    evidence = [cell_of("markdown", "## Evidence\n\nmore"), cell_of("code", "d")]
    notebook = nbformat.v4.new_notebook(cells=cells + evidence)
    story, rest = limits.parts(notebook)
    assert (len(story), len(rest)) == (5, 2)
    assert limits.measure(story) == limits.Size(6, 1, 3, 3, 2, 1)
    assert limits.Size(150, 1, 10, 10, 20, 4).minutes == 1 + 5.5 + 5 + 0.5
    assert limits.Size(75, 1, 10, 10, 20, 4).minutes == 0.5 + 5.5 + 5
    assert tool.reading_minutes(notebook) == limits.measure(story).minutes
