"""Catalogues cover what the book says, and no translation falls out of step."""

import re
from types import SimpleNamespace

import nbformat
import pytest
from babel.messages.catalog import Catalog
from docutils.utils import new_document
from loading import load

from transformer_lite.page import json_of

tool = load("tools/translations.py")
editions = load("_ext/editions.py")
CHAPTER = "03_2_1_scaled_dot_product_attention"
CHAPTERS = (
    CHAPTER,
    "03_2_3_applications_of_attention_in_our_model",
    "03_model_architecture",
    "attention_visualizations",
)
"""The chapters of the evening path."""
SENTENCE = (
    "The [query](glossary.md#query) and `key` of $d_k = 4$ give *soft*\n"
    "weights, see ![a plot](a.png), in 24 of the runs."
)
PAGE = f"""# A title

{SENTENCE}

> **Exercise 1. Why?** Say it
> in two lines.

| what | how many |
|---|---|
| two words | 24 |
"""
KOREAN = {
    "A title": "제목",
    SENTENCE.replace(
        "\n", " "
    ): "[쿼리(query)](glossary.md#query)와 $d_k = 4$의 `key`는 "
    "24번의 학습에서 **부드러운** 가중치를 줍니다(![그림](a.png)).",
    "**Exercise 1. Why?** Say it in two lines.": (
        "**연습 문제 1. 왜?** 두 줄로 답하세요."
    ),
    "what": "무엇",
    "how many": "개수",
    "two words": "두 단어",
}
TRANSLATED = """# 제목

[쿼리(query)](glossary.md#query)와 $d_k = 4$의 `key`는 24번의 학습에서 **부드러운** 가중치를 줍니다(![그림](a.png)).

> **연습 문제 1. 왜?** 두 줄로 답하세요.

| 무엇 | 개수 |
|---|---|
| 두 단어 | 24 |
"""  # noqa: E501
SENTENCE_KO = KOREAN[SENTENCE.replace("\n", " ")]


@pytest.fixture
def page(monkeypatch):
    """The page alone is the book, with its catalogue."""
    show(monkeypatch, PAGE)
    return catalogue(KOREAN)


def show(monkeypatch, text):
    """Let this be the English page."""
    monkeypatch.setattr(tool, "documents", lambda: {"page": text})
    tool.expected.cache_clear()


def catalogue(entries):
    made = Catalog(fuzzy=False)
    for message, translation in entries.items():
        made.add(message, translation)
    return made


def as_text(name, document):
    return (
        document if isinstance(document, str) else nbformat.writes(document, indent=1)
    )


def blocks(document):
    texts = [document]
    if not isinstance(document, str):
        texts = [cell.source for cell in document.cells if cell.cell_type == "markdown"]
    return [[token.type for token in tool.parser().parse(text)] for text in texts]


@pytest.mark.parametrize("name", tool.documents())
def test_a_page_without_a_translation_stays_the_same_to_the_byte(name):
    document = tool.documents()[name]
    again = tool.transform(document, lambda message, kind: message)
    assert as_text(name, again) == as_text(name, document)


@pytest.mark.parametrize("name", tool.documents())
def test_a_translation_of_everything_keeps_the_blocks_and_misses_nothing(name):
    document = tool.documents()[name]

    def pseudo(message, kind):
        return message if kind in tool.HOMES else f"{message}가"

    after = tool.transform(document, pseudo)
    assert blocks(after) == blocks(document)
    expected = {pseudo(*entry) for entry in tool.messages(document).items()}
    assert tool.messages(after).keys() == expected


def test_paragraphs_quotations_and_cells_of_tables_are_replaced():
    assert tool.messages(PAGE).keys() == KOREAN.keys()
    assert tool.messages(PAGE)["**Exercise 1. Why?** Say it in two lines."] == "voice"
    assert tool.transform(PAGE, lambda message, kind: KOREAN[message]) == TRANSLATED


def test_what_a_notebook_shows_around_its_code_is_translated():
    metadata = {
        "mystnb": {
            "code_prompt_show": "Show a solution",
            "figure": {"caption": "**A figure.**"},
            "image": {"alt": "One line."},
        }
    }
    code = nbformat.v4.new_code_cell("# @title Solution\nx = 1", metadata=metadata)
    code.outputs = [
        nbformat.v4.new_output("display_data", {"text/markdown": "It is so."})
    ]
    head = "# 1\n\n[Open in Colab](https://x/1) · Chapter 4 of 22"
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell(head), code]
    )
    assert tool.messages(notebook, tool.SHARED) == {
        "[Open in Colab]{0}": "generated",
        "Chapter {0} of {1}": "generated",
        "Solution": "title",
        "Show a solution": "prompt",
    }
    assert tool.messages(notebook) == {
        "**A figure.**": "caption",
        "One line.": "alternative text",
        "It is so.": "paragraph",
    }
    order = {"Chapter {0} of {1}": "{1}개 장 중 {0}번째", "Solution": "풀이"}
    done = tool.transform(notebook, lambda message, kind: order.get(message, message))
    assert done.cells[0].source.endswith("(https://x/1) · 22개 장 중 4번째")
    assert done.cells[1].source == "# @title 풀이\nx = 1"


def test_the_catalogues_are_in_step():
    assert [*tool.check()] == []


def test_a_right_translation_has_no_fault(page):
    assert [*tool.faults("ko", "page", page)] == []


def test_a_translation_does_not_break_its_table(page):
    page["two words"].string = "두 | 단어"
    (fault,) = tool.faults("ko", "page", page)
    assert "bars" in fault


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("(glossary.md#query)", "(glossary.md)", "links"),
        ("#query", "#key", "links"),
        ("$d_k = 4$", "$d_k = 5$", "formulas"),
        ("`key`", "`query`", "code"),
        ("a.png", "b.png", "images"),
        ("24번", "25번", "numbers"),
        ("**부드러운** ", "**“부드러운”**", "asterisks"),
        ("[쿼리(query)]", "[질의]", "the glossary calls query 쿼리"),
        ("[쿼리(query)]", "1. [쿼리(query)]", "blocks"),
        ("[쿼리(query)]", "# [쿼리(query)]", "blocks"),
    ],
)
def test_a_fault_in_a_translation_is_noticed(page, old, new, fault):
    message = SENTENCE.replace("\n", " ")
    assert old in SENTENCE_KO
    page[message].string = SENTENCE_KO.replace(old, new)
    assert any(fault in line for line in tool.faults("ko", "page", page))


def test_an_exercise_keeps_its_colour(page):
    message = "**Exercise 1. Why?** Say it in two lines."
    page[message].string = "**문제 1. 왜?** 두 줄로 답하세요."
    assert any("VOICES" in line for line in tool.faults("ko", "page", page))


def test_a_changed_paragraph_is_noticed_and_names_its_text(page, monkeypatch):
    show(monkeypatch, PAGE.replace("give *soft*", "give *very soft*"))
    gone, new = sorted(tool.faults("ko", "page", page), key=lambda line: "new" in line)
    assert "give *soft* weights" in gone
    assert "is gone" in gone
    assert "give *very soft* weights" in new
    assert "has changed" in new


def test_a_changed_word_of_a_script_is_noticed(monkeypatch):
    catalogue = tool.read(tool.path_of("ko", tool.LIVE))
    assert [*tool.faults("ko", tool.LIVE, catalogue)] == []
    before = tool.messages_of
    monkeypatch.setattr(
        tool,
        "messages_of",
        lambda *modules: [
            text.replace("Next stop", "The next stop") for text in before(*modules)
        ],
    )
    tool.expected.cache_clear()
    faults = "\n".join(tool.faults("ko", tool.LIVE, catalogue))
    tool.expected.cache_clear()
    assert "'The next stop' is new or has changed" in faults
    assert "'Next stop' is gone" in faults


@pytest.mark.parametrize("new", ["{0} 켬", "{0}의 {0}", "{1}의 {0}, {1}"])
def test_a_translation_has_every_place_of_a_script_once(monkeypatch, new):
    monkeypatch.setattr(tool, "expected", lambda name: {"{0} of {1}": "live figure"})
    made = catalogue({"{0} of {1}": "{1}의 {0}"})
    assert [*tool.faults("ko", tool.LIVE, made)] == []
    made["{0} of {1}"].string = new
    assert any("places" in fault for fault in tool.faults("ko", tool.LIVE, made))


def test_a_notebook_of_an_edition_has_figures_with_its_words(monkeypatch):
    words = {"key": "키", "Reset": "처음으로"}
    monkeypatch.setattr(tool, "translation", lambda language, name: words)
    done = tool.notebook("ko", CHAPTER, "https://book.example/")
    line = f"const MESSAGES = {json_of({'Reset': '처음으로', 'key': '키'})};"
    (figure,) = (
        html
        for cell in done.cells
        for output in cell.get("outputs", [])
        if "live-figure" in (html := output.get("data", {}).get("text/html", ""))
    )
    assert line in figure
    assert figure.replace(f"{line}\n", "") == tool.renewed(figure)


def test_update_keeps_translations_and_marks_changed_ones(page, monkeypatch, tmp_path):
    monkeypatch.setattr(tool, "LOCALE", tmp_path)
    path = tool.path_of("ko", "page")
    tool.update(path)
    assert tool.usable(tool.read(path)) == {}
    filled = tool.read(path)
    for message, translation in KOREAN.items():
        filled[message].string = translation
    monkeypatch.setattr(tool, "read", lambda path: filled)
    tool.update(path)
    monkeypatch.undo()
    monkeypatch.setattr(tool, "LOCALE", tmp_path)
    show(monkeypatch, PAGE.replace("give *soft*", "give *very soft*"))
    tool.update(path)
    written = path.read_bytes()
    fuzzy = [entry for entry in tool.read(path) if entry.id and entry.fuzzy]
    assert [entry.string for entry in fuzzy] == [SENTENCE_KO]
    assert len(tool.usable(tool.read(path))) == len(KOREAN) - 1
    assert [*tool.faults("ko", "page", tool.read(path))] == []
    tool.update(path)
    assert path.read_bytes() == written
    show(monkeypatch, "Another page.\n")
    tool.update(path)
    assert SENTENCE_KO not in path.read_text(encoding="utf-8")  # git remembers it


def app(language, name="notebooks/page"):
    env = SimpleNamespace(metadata={name: {}}, found_docs={name})
    env.dependencies = {name: set()}
    env.note_dependency = env.dependencies[name].add
    env.doc2path = lambda page, absolute: f"{page}.md"
    base = "https://book/" + ("" if language == "en" else f"{language}/")
    config = SimpleNamespace(
        language=tool.LANGUAGES.get(language, "en"), html_baseurl=base
    )
    return SimpleNamespace(config=config, env=env)


@pytest.fixture
def half(monkeypatch, tmp_path):
    """A catalogue with one paragraph translated, one fuzzy, and a heading."""
    made = catalogue({"A title": "제목", "Done.": "했습니다.", "Old.": "옛것."})
    made["Old."].flags.add("fuzzy")
    path = tmp_path / "ko" / "page.po"
    path.parent.mkdir()
    with path.open("wb") as file:
        editions.translations.write_po(file, made)
    monkeypatch.setattr(editions.translations, "LOCALE", tmp_path)
    editions.words.cache_clear()
    return path


def test_an_edition_shows_what_is_translated_and_english_else(half):
    cells = ["# A title\n\nDone.\n\nOld.\n\nNew."]
    cells = [nbformat.v4.new_markdown_cell(text) for text in cells]
    source = [nbformat.writes(nbformat.v4.new_notebook(cells=cells))]
    korean = app("ko")
    editions.translate(korean, "notebooks/page", source)
    (cell,) = nbformat.reads(source[0], 4).cells
    # Sphinx translates the heading, and keeps its English anchor.
    assert cell.source == "# A title\n\n했습니다.\n\nOld.\n\nNew."
    used = {str(half), *(str(half.with_stem(name)) for name in ("shared", "live"))}
    assert korean.env.dependencies["notebooks/page"] == used
    lacks = korean.env.metadata["notebooks/page"]["lacks"]
    assert lacks == editions.translations.PARTLY


class Settings(SimpleNamespace):
    __getitem__ = SimpleNamespace.__getattribute__
    __setitem__ = SimpleNamespace.__setattr__


def test_an_edition_has_its_own_address_captions_and_prompts(monkeypatch):
    shared = {"Close": "닫기", "Reference": "참고 자료", "Find": "찾기"}
    monkeypatch.setattr(editions, "words", lambda language, name: shared)
    part = SimpleNamespace(caption="Reference")
    site = SimpleNamespace(root=SimpleNamespace(subtrees=[part]))
    config = Settings(
        language="ko",
        nb_code_prompt_show="Show",
        nb_code_prompt_hide="Close",
        html_theme_options={"extra_footer": "Free", "search_bar_text": "Find"},
        external_site_map=site,
        html_baseurl="https://book/",
    )
    editions.configure(SimpleNamespace(doctreedir="built"), config)
    assert (config.nb_code_prompt_show, config.nb_code_prompt_hide) == ("Show", "닫기")
    assert config.html_theme_options["search_bar_text"] == "찾기"
    assert part.caption == "참고 자료"
    assert config.html_baseurl == config.ogp_site_url == "https://book/ko/"


def test_a_page_is_read_again_once_it_has_a_catalogue(half):
    korean = app("ko")
    nothing = (set(), set(), set())
    assert editions.find_begun(korean, korean.env, *nothing) == ["notebooks/page"]
    korean.env.note_dependency(str(half))
    assert editions.find_begun(korean, korean.env, *nothing) == []
    assert editions.find_begun(app("en"), korean.env, *nothing) == []


def test_a_translated_heading_keeps_the_anchors_of_its_page():
    page, korean = new_document("page"), app("ko")
    page.myst_slugs = {"a-title": (1, "a-title", "A title")}
    korean.env.docname = "notebooks/page"
    # As Sphinx leaves it, having parsed the translated heading alone.
    korean.env.metadata["notebooks/page"]["myst_slugs"] = {"제목": (1, "id1", "제목")}
    editions.keep_anchors(korean, page)
    assert korean.env.metadata["notebooks/page"]["myst_slugs"] == page.myst_slugs


def test_the_english_book_is_read_as_it_is(half):
    source = ["Done."]
    editions.translate(app("en"), "notebooks/page", source)
    assert source == ["Done."]


@pytest.mark.parametrize(("own", "up"), [("en", "../"), ("ko", "../../")])
def test_every_page_leads_to_its_other_editions(monkeypatch, own, up):
    monkeypatch.setattr(editions, "offered", lambda: {"ko", "zh"})
    context = {"metatags": "", "body": "<p>"}
    editions.lead_to_others(app(own), "notebooks/page", "page.html", context, None)
    other = {"en": f"{up}notebooks/page.html", "ko": f"{up}ko/notebooks/page.html"}
    other["zh"] = f"{up}zh/notebooks/page.html"
    assert context["editions"] == other | {own: ""}
    for code, folder in {"x-default": "", "en": "", "ko": "ko/", "zh": "zh/"}.items():
        link = f'hreflang="{code}" href="https://book/{folder}notebooks/page.html"'
        assert link in context["metatags"]


def test_a_page_without_a_translation_says_so():
    context = {"metatags": "", "body": "<p>English"}
    korean = app("ko")
    korean.env.metadata["notebooks/page"]["lacks"] = editions.translations.NOT_YET
    editions.lead_to_others(korean, "notebooks/page", "page.html", context, None)
    note, body = context["body"].split("</p>\n")
    assert "not been translated" in note
    assert body.startswith('<div lang="en">')


@pytest.mark.parametrize("told", ["abc1234\n", None])
def test_a_translated_page_names_the_english_commit(monkeypatch, told):
    def run(command, **_):
        if told is None:  # there is no git, or no repository
            raise FileNotFoundError
        assert command[-1] == "book/glossary.md"
        return SimpleNamespace(stdout=told)

    monkeypatch.setattr(editions.subprocess, "run", run)
    editions.commit.cache_clear()
    page, context = "book/glossary", {"metatags": "", "body": "<p>번역"}
    editions.lead_to_others(app("ko", page), page, "page.html", context, None)
    editions.commit.cache_clear()
    assert ("/blob/abc1234/book/glossary.md" in context["body"]) == bool(told)
    assert told or context["body"] == "<p>번역"


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("연습 문제 3. 왜?", "exercise"),
        ("논문의 추측", "the-paper"),
        ("In short", "in-short"),
    ],
)
def test_a_quotation_has_the_same_colour_in_every_edition(title, kind):
    assert tool.voice_class(title) == kind


@pytest.mark.parametrize("language", tool.LANGUAGES)
@pytest.mark.parametrize("name", CHAPTERS)
def test_a_notebook_of_an_edition_runs_the_same_code(language, name):
    english = tool.documents()[name]
    other = tool.notebook(language, name, "https://book.example/")
    nbformat.validate(other)
    assert len(other.cells) == len(english.cells)
    for ours, theirs in zip(english.cells, other.cells, strict=True):
        assert (ours.id, ours.cell_type) == (theirs.id, theirs.cell_type)
        if ours.cell_type == "code":
            title = tool.tool.TITLE
            lines = [cell.source.split("\n") for cell in (ours, theirs)]
            code = [[line for line in of if not line.startswith(title)] for of in lines]
            assert code[0] == code[1]
    text = "\n".join(
        cell.source for cell in other.cells if cell.cell_type == "markdown"
    )
    assert re.search("[가-힣\u4e00-\u9fff]", text)
    assert not re.search(r"\]\((?!https?://|#)", text)
    assert "](https://book.example/book/glossary.html#" in text
