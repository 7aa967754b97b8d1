"""How long a chapter takes to read, and how long it may be.

A chapter has two parts: the story, which everybody reads, and below the heading
"## Evidence" the evidence, for those who doubt. Limits and reading time are about the
story.

The reading time in minutes is

    words / 150 + code lines · 11 / 60 + figures · 75 / 60.

Words are those of the text and of the figures' captions. Code lines are those of open
cells and of the package's source that a cell shows. The numbers are fitted to the
times of 20 readings of the third edition, without the exercises. For each of them, the
formula is right within a fifth.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

WORDS_PER_MINUTE = 150
SECONDS_PER_LINE = 11
SECONDS_PER_FIGURE = 75

MINUTES = 30
STORY_WORDS = 1800
OPEN_CELLS = 14
OPEN_LINES = 120
OPEN_LINES_PER_CELL = 12
FIGURES = 6
TODAY_WORDS = 150
EVIDENCE_SHARE = 0.5
"""How many words the evidence may have for each word of the story."""

EVIDENCE = "## Evidence"
QUESTION, ANSWERS = "The question", "What we know now"
LAST = ["Today", ANSWERS, "Exercises", "Next", "Evidence"]
"""Headings of the first section, of the one with the answers, and of the last ones."""
HEAD = "[Open in Colab]"
"""What the generated line below a chapter's title begins with."""
CLOSED_TAGS = {"hide-input", "hide-cell", "remove-input", "remove-cell"}


@dataclass(frozen=True)
class Size:
    """How much there is to read in some cells."""

    words: int
    """Of the text and the captions."""
    open_cells: int
    open_lines: int
    longest_cell: int
    """Lines of the longest open cell."""
    shown_lines: int
    """Lines of source that cells show as their output."""
    figures: int

    @property
    def minutes(self) -> int:
        """The reading time by the module's formula, rounded up."""
        lines = self.open_lines + self.shown_lines
        seconds = lines * SECONDS_PER_LINE + self.figures * SECONDS_PER_FIGURE
        return math.ceil(self.words / WORDS_PER_MINUTE + seconds / 60)


def parts(notebook: NotebookNode) -> tuple[list[NotebookNode], list[NotebookNode]]:
    """Return the cells of the story and those of the evidence, if there is any."""
    firsts = [cell.source.partition("\n")[0] for cell in notebook.cells]
    start = firsts.index(EVIDENCE) if EVIDENCE in firsts else len(firsts)
    return notebook.cells[:start], notebook.cells[start:]


def measure(cells: list[NotebookNode]) -> Size:
    """Count what a reader meets in these cells."""
    text = [cell for cell in cells if cell.cell_type == "markdown"]
    code = [cell for cell in cells if cell.cell_type == "code"]
    drawn = [cell for cell in code if pictures(cell)]
    lines = [len(cell.source.splitlines()) for cell in code if not is_closed(cell)]
    return Size(
        words=sum(words(cell.source) for cell in text)
        + sum(words(caption(cell)) for cell in drawn),
        open_cells=len(lines),
        open_lines=sum(lines),
        longest_cell=max(lines, default=0),
        shown_lines=sum(map(shown_lines, code)),
        figures=sum(map(pictures, code)),
    )


def words(markdown: str) -> int:
    """Count words: a formula is one, addresses and the generated line are none."""
    paragraphs = markdown.split("\n\n")
    text = "\n\n".join(part for part in paragraphs if not part.startswith(HEAD))
    text = re.sub(r"\$\$.+?\$\$|\$[^$\n]+\$", " formula ", text, flags=re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return sum(bool(re.search(r"\w", word)) for word in text.split())


def is_closed(cell: NotebookNode) -> bool:
    """Return whether the book does not show a cell's code until it is asked to."""
    return bool(CLOSED_TAGS & set(cell.metadata.get("tags", [])))


def pictures(cell: NotebookNode) -> int:
    """Count the pictures among a cell's outputs."""
    return sum("image/png" in out.get("data", {}) for out in cell.get("outputs", []))


def caption(cell: NotebookNode) -> str:
    """Return a figure's caption."""
    return cell.metadata.get("mystnb", {}).get("figure", {}).get("caption", "")


def shown_lines(cell: NotebookNode) -> int:
    """Count the lines of code in a visible output, as `plots.show_source` makes it."""
    if "hide-cell" in cell.metadata.get("tags", []):
        return 0
    texts = [out.get("data", {}).get("text/markdown", "") for out in cell.outputs]
    blocks = re.findall(r"```python\n(.*?)```", "\n".join(texts), re.S)
    return sum(len(block.splitlines()) for block in blocks)


def faults(notebook: NotebookNode) -> Iterator[str]:
    """Yield what is wrong with the limits and the sections of a chapter."""
    cells, rest = parts(notebook)
    story, evidence = measure(cells), measure(rest)
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    _, *found = re.split(r"^## (.+)$", "\n\n".join(texts), flags=re.M)
    sections = dict(zip(found[::2], found[1::2], strict=True))
    headings, exercises = [*sections], sections.get("Exercises", "")
    answers = re.findall(r"^(?:- )?\*\*.+?\*\*", sections.get(ANSWERS, ""), re.M)
    titled = re.findall(r"\*\*Exercise (\d+)\. .+?\*\*", "\n\n".join(texts))
    time = f" · {story.minutes} minutes without the exercises · "
    for is_right, remedy in (
        (story.minutes <= MINUTES, f"a story takes {MINUTES} minutes at most"),
        (story.words <= STORY_WORDS, f"a story has {STORY_WORDS} words at most"),
        (story.open_cells <= OPEN_CELLS, f"open {OPEN_CELLS} cells at most"),
        (story.open_lines <= OPEN_LINES, f"open {OPEN_LINES} lines at most"),
        (
            story.longest_cell <= OPEN_LINES_PER_CELL,
            f"an open cell has {OPEN_LINES_PER_CELL} lines at most",
        ),
        (story.figures <= FIGURES, f"a story has {FIGURES} figures at most"),
        (evidence.open_cells == 0, "close the cells of the evidence"),
        (
            0 < evidence.words <= EVIDENCE_SHARE * story.words,
            f"the evidence has {EVIDENCE_SHARE} of the story's words at most",
        ),
        (headings[0] == QUESTION, f"begin with ## {QUESTION}"),
        (headings[-len(LAST) :] == LAST, f"end with ## {', ## '.join(LAST)}"),
        ("Where people go wrong" in headings, "add ## Where people go wrong"),
        (any(h.startswith("What happens") for h in headings), "add ## What happens …"),
        ("?" in sections.get(QUESTION, ""), "ask a question"),
        (3 <= len(answers) <= 5, f"{ANSWERS}: 3 to 5 answers, each begun in bold"),
        (
            0 < words(sections.get("Today", "")) <= TODAY_WORDS,
            f"## Today has {TODAY_WORDS} words at most",
        ),
        (
            re.findall(r"^> \*\*Exercise (\d)\.", exercises, re.M) == ["1", "2", "3"]
            and titled == ["1", "2", "3"],
            "pose three exercises with titles: > **Exercise 1. …**",
        ),
        (time in texts[0], f"its first lines need{time}: make notebooks"),
    ):
        if not is_right:
            yield remedy
