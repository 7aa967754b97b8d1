"""The chapters are honest: executed, current, readable wherever they are opened."""

import ast
import importlib.util
import re
import tomllib
from pathlib import Path
from statistics import median

import nbformat
import pytest

from transformer_lite.book import plots

ROOT = Path(__file__).resolve().parents[1]
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ABSOLUTE = re.compile(
    r"(?<![\w.:/])/(?:home|root|tmp|Users|opt|usr|var|work|content|mnt)/\w"
)
MYST = {
    "directive": re.compile(r"^\s*(?:`{3,}|:{3,}|~{3,})\{", re.M),
    "role": re.compile(r"\{[a-z][\w:+-]*\}`"),
    "target": re.compile(r"^\([\w-]+\)=\s*$", re.M),
    "labelled equation": re.compile(r"\$\$\s*\([\w-]+\)"),
}

spec = importlib.util.spec_from_file_location(
    "book_tools_notebooks", ROOT / "book" / "tools" / "notebooks.py"
)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def parsed(cell):
    """The syntax tree of a cell, its magics and shell commands left out."""
    lines = cell.source.splitlines()
    kept = [line for line in lines if not line.lstrip().startswith(("%", "!"))]
    return ast.parse("\n".join(kept))


def names_defined(tree):
    """Functions and classes at any depth, and names assigned outside of them."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    names = {node.name for node in ast.walk(tree) if isinstance(node, definitions)}
    open_nodes = list(tree.body)
    while open_nodes:
        node = open_nodes.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if not isinstance(node, (*definitions, ast.Lambda)):
            open_nodes += ast.iter_child_nodes(node)
    return names


def public_names():
    """Every public name that a module of the package defines."""
    sources = [
        path.read_text(encoding="utf-8")
        for path in (ROOT / "transformer_lite").rglob("*.py")
    ]
    names = set()
    for source in sources:
        tree = ast.parse(source)
        tree.body = [
            node
            for node in tree.body
            if not isinstance(node, ast.Import | ast.ImportFrom | ast.If | ast.For)
        ]
        names |= {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.ClassDef)
        }
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = (
                    node.targets if isinstance(node, ast.Assign) else [node.target]
                )
                names |= {
                    name.id
                    for target in targets
                    for name in ast.walk(target)
                    if isinstance(name, ast.Name)
                }
    return {name for name in names if not name.startswith("_")}


every_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def test_there_are_notebooks_figures_and_names_to_check():
    cells = [cell for path in PATHS for cell in code_cells(read(path))]
    assert len(PATHS) >= 2
    assert len(cells) >= 20
    assert sum(bool(figures(cell)) for cell in cells) >= 4
    assert {"Transformer", "causal_mask", "PAD", "ModelConfig"} <= public_names()


def test_redefinitions_are_seen():
    tree = ast.parse("a, (b, c) = 1, (2, 3)\nfor d in e:\n  def f(g):\n    h = 1\n")
    assert names_defined(tree) == {"a", "b", "c", "d", "f"}


@every_notebook
def test_first_cell_is_the_current_setup_cell(path):
    first = read(path).cells[0]
    generated, _, _ = first.source.partition(f"\n\n{tool.OWN_PART}")
    assert generated == tool.setup_source()
    assert first.metadata["cellView"] == "form"
    assert first.metadata["tags"] == ["hide-input", "nbval-ignore-output"]


@every_notebook
def test_there_is_one_setup_cell(path):
    assert sum(tool.is_setup_cell(cell) for cell in read(path).cells) == 1


def test_setup_cell_sees_to_every_dependency_but_torch_and_ipython():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    requirements = project["dependencies"] + project["optional-dependencies"]["book"]
    names = {re.match(r"[\w-]+", requirement).group() for requirement in requirements}
    assert set(tool.setup_dependencies()) == names - {"torch", "ipython"}
    assert all(f" {name}" in tool.setup_source() for name in tool.setup_dependencies())


def test_setup_cell_names_the_repository_of_the_book():
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    url = re.search(r"^repository:\n  url: (\S+)$", config, re.M)[1]
    assert f'"{url}"' in tool.setup_source()


def test_setup_cell_does_nothing_where_the_package_is_installed(monkeypatch):
    started = []
    monkeypatch.setattr("subprocess.run", lambda *a, **k: started.append(a))
    exec(tool.setup_source(), {})
    assert not started


def test_setup_cell_installs_the_package_where_it_is_missing(monkeypatch):
    started = []
    monkeypatch.setattr("subprocess.run", lambda *a, **k: started.append(a[0]))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("TRANSFORMER_LITE_GIT", "file:///elsewhere")
    exec(tool.setup_source(), {})
    assert started[0][-2:] == ["--no-deps", "git+file:///elsewhere"]
    assert started[1][-10:] == tool.setup_dependencies()[-10:]


def notebook_of(*sources):
    """A notebook of code cells."""
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources]
    )


def test_what_a_chapter_uses_outlives_a_new_setup_cell():
    own = f"{tool.OWN_PART}\nimport math"
    old = notebook_of(f"# @title Setup: an older one\nimport os\n\n{own}", "math.pi")
    new = tool.with_setup_cell(old)
    assert [cell.source for cell in new.cells] == [
        f"{tool.setup_source()}\n\n{own}",
        "math.pi",
    ]


def test_a_titled_cell_is_closed_with_words_that_say_what_opens():
    notebook = notebook_of("# @title Solution\n1", "# @title Checked\n2", "3")
    notebook.cells[1].metadata["tags"] = ["nbval-ignore-output"]
    solution, checked, visible = tool.with_closed_cells(notebook).cells
    assert solution.metadata["tags"] == ["hide-cell"]
    assert solution.metadata["mystnb"]["code_prompt_show"] == "Show a solution"
    assert checked.metadata["tags"] == ["hide-input", "nbval-ignore-output"]
    assert checked.metadata["cellView"] == "form"
    assert not visible.metadata


def test_an_unknown_title_is_refused():
    with pytest.raises(ValueError, match=r"'Solutions'; the titles are .*Solution"):
        tool.with_closed_cells(notebook_of("# @title Solutions\n1"))


def test_a_head_says_where_and_how_long_and_what_builds_and_checks_it():
    path = ROOT / "notebooks" / "03_2_1_scaled_dot_product_attention.ipynb"
    line = tool.head(read(path), path.stem)
    assert (
        "/github/transformer-lite/transformer-lite/blob/main/notebooks/03_2_1" in line
    )
    assert " · Chapter 4 of 21 · " in line
    assert "Paper: [Section 3.2.1](" in line
    assert "[attention](" in line
    assert "/tests/test_attention.py)" in line


def test_reading_takes_longer_with_more_words_and_more_open_code():
    notebook = notebook_of("# @title Checked\n" + "x = 1\n" * 500)
    notebook.cells.append(nbformat.v4.new_markdown_cell("word " * 750))
    assert tool.reading_minutes(notebook) == 5
    notebook.cells.append(nbformat.v4.new_code_cell("x = 1\n" * 90))
    assert tool.reading_minutes(notebook) == 10


@every_notebook
def test_closed_cells_are_as_the_tooling_closes_them(path):
    notebook = read(path)
    closed = tool.with_closed_cells(read(path))
    assert notebook.cells == closed.cells


@every_notebook
def test_head_is_current(path):
    notebook = read(path)
    assert notebook.cells == tool.with_head(read(path), path.stem).cells


@every_notebook
@pytest.mark.parametrize("promise", ["**You need:**", "**You will be able to:**"])
def test_head_says_what_it_needs_and_what_it_gives(path, promise):
    assert f"\n\n{promise} " in read(path).cells[1].source


def is_closed(cell):
    """Whether a page shows less of a code cell than its source and output."""
    hiding = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
    return bool(hiding & set(cell.metadata.get("tags", [])))


@every_notebook
def test_a_picture_comes_before_any_open_code(path):
    cells = code_cells(read(path))
    first_figure = next(i for i, cell in enumerate(cells) if figures(cell))
    assert all(is_closed(cell) for cell in cells[: first_figure + 1])


@every_notebook
def test_at_most_three_open_cells_stand_in_a_row(path):
    row = 0
    for cell in read(path).cells:
        if cell.cell_type == "markdown" or figures(cell):
            row = 0
        elif not is_closed(cell):
            row += 1
        assert row <= 3, cell.source


@every_notebook
def test_cells_that_draw_are_closed(path):
    open_cells = [cell for cell in code_cells(read(path)) if not is_closed(cell)]
    assert not [cell.source for cell in open_cells if figures(cell)]


@every_notebook
def test_cells_that_only_assert_are_closed(path):
    for cell in code_cells(read(path)):
        statements = [ast.unparse(node) for node in parsed(cell).body]
        asserts = [
            text.startswith(("assert ", "torch.testing.")) for text in statements
        ]
        assert is_closed(cell) or not all(asserts), cell.source


@every_notebook
def test_imports_stand_in_the_setup_cell(path):
    imports = ast.Import | ast.ImportFrom
    for cell in code_cells(read(path))[1:]:
        assert not [
            node for node in ast.walk(parsed(cell)) if isinstance(node, imports)
        ]


def printed(cell):
    """The lines of text that a cell prints or shows."""
    texts = [
        output.get("text") or output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
    ]
    return "\n".join(texts).splitlines()


@every_notebook
def test_no_printed_line_is_longer_than_the_page_is_wide(path):
    lines = [line for cell in code_cells(read(path)) for line in printed(cell)]
    assert not [line for line in lines if len(line) > 88]


@every_notebook
def test_symbols_in_captions_are_formulas(path):
    for cell in code_cells(read(path)):
        caption = cell.metadata.get("mystnb", {}).get("figure", {}).get("caption", "")
        words = re.sub(r"\$[^$]*\$", "", caption)
        assert not re.search(r"\w_\w|[²³√]", words), words


@every_notebook
def test_figures_have_one_of_two_widths(path):
    for cell in code_cells(read(path)):
        for output in figures(cell):
            inches = output.metadata["image/png"]["width"] / 110
            wide = "full-width" in cell.metadata.get("tags", [])
            assert inches == pytest.approx(
                plots.WIDE if wide else plots.COLUMN, abs=0.02
            )


@every_notebook
def test_every_cell_was_executed_in_order_in_one_kernel(path):
    counts = [cell.execution_count for cell in code_cells(read(path))]
    assert counts == list(range(1, len(counts) + 1))


@every_notebook
def test_no_output_is_an_error(path):
    outputs = [output for cell in code_cells(read(path)) for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]


@every_notebook
def test_no_output_is_a_warning(path):
    outputs = [output for cell in code_cells(read(path)) for output in cell.outputs]
    assert not [output for output in outputs if output.get("name") == "stderr"]


@every_notebook
def test_no_name_of_the_package_is_defined_again(path):
    defined = set()
    for cell in code_cells(read(path)):
        defined |= names_defined(parsed(cell))
    assert not defined & public_names()


@every_notebook
def test_trained_models_are_where_the_chapters_tensors_are(path):
    # On a machine with a GPU a translator would go there.
    loads = [
        node
        for cell in code_cells(read(path))
        for node in ast.walk(parsed(cell))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Translator.load"
    ]
    assert all("device='cpu'" in ast.unparse(call) for call in loads)


@every_notebook
def test_chapter_runs_in_under_a_minute(path):
    assert 0 < read(path).metadata["transformer_lite"]["seconds"] <= 60


def figures(cell):
    """The image outputs of a code cell."""
    return [
        output
        for output in cell.outputs
        if any(kind.startswith("image/") for kind in output.get("data", {}))
    ]


@every_notebook
def test_every_figure_has_caption_name_and_alternative_text(path):
    for cell in code_cells(read(path)):
        if figures(cell):
            mystnb = cell.metadata.get("mystnb", {})
            texts = [
                mystnb.get("figure", {}).get("name", ""),
                mystnb.get("figure", {}).get("caption", ""),
                mystnb.get("image", {}).get("alt", ""),
            ]
            assert all(texts), f"add mystnb metadata to:\n{cell.source}"


@every_notebook
def test_a_cell_draws_at_most_one_figure(path):
    assert all(len(figures(cell)) <= 1 for cell in code_cells(read(path)))


def test_figure_names_are_used_once():
    names = [
        cell.metadata["mystnb"]["figure"]["name"]
        for path in PATHS
        for cell in code_cells(read(path))
        if figures(cell)
    ]
    assert len(names) == len(set(names))


@every_notebook
@pytest.mark.parametrize("construct", MYST)
def test_text_reads_outside_the_book(path, construct):
    texts = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    assert not [text for text in texts if MYST[construct].search(text)]


@pytest.mark.parametrize(
    ("construct", "text"),
    [
        ("directive", "```{note}\nread\n```"),
        ("directive", ":::{note}\nread\n:::"),
        ("role", "see {eq}`attention` and {py:func}`f`"),
        ("target", "(a-label)=\n# Title"),
        ("labelled equation", "$$a = b$$ (eq-a)"),
    ],
)
def test_myst_is_recognized(construct, text):
    assert MYST[construct].search(text)


@every_notebook
def test_code_cells_are_short(path):
    # What a closed cell holds, a page shows only to whoever asks for it.
    cells = [cell for cell in code_cells(read(path)) if not is_closed(cell)]
    assert median(len(cell.source.splitlines()) for cell in cells) <= 15


@every_notebook
def test_length_suits_one_sitting(path):
    cells = read(path).cells
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    assert 1500 <= sum(len(text.split()) for text in texts) <= 3000
    # About fifty for the text, and some fifteen in which exercises are set and checked.
    assert len(cells) <= 66


@every_notebook
def test_files_of_the_repository_that_the_text_names_exist(path):
    named = re.findall(
        r"(?:tests|transformer_lite|results|book)/[\w./-]+\.(?:py|json|md|toml)",
        "\n".join(c.source for c in read(path).cells if c.cell_type == "markdown"),
    )
    assert not {name for name in named if not (ROOT / name).exists()}


@every_notebook
def test_no_path_of_one_machine(path):
    assert not ABSOLUTE.search(path.read_text(encoding="utf-8"))


@every_notebook
def test_no_cell_ends_with_a_semicolon(path):
    ends = [cell.source.rstrip()[-1:] for cell in code_cells(read(path))]
    assert ";" not in ends


@every_notebook
def test_no_cell_is_empty(path):
    assert all(cell.source.strip() for cell in read(path).cells)


@every_notebook
def test_file_is_as_the_tooling_writes_it(path, tmp_path):
    copy = tmp_path / path.name
    tool.write(tool.settle(read(path)), copy)
    assert copy.read_text(encoding="utf-8") == path.read_text(encoding="utf-8")
