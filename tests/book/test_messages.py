"""What live figures and the live translator say is marked, found and translated.

The parts in a browser are skipped where there is no Chromium.
"""

import re

import pytest
from javascript import run_javascript

from transformer_lite.page import (
    MESSAGE,
    SOURCES,
    json_of,
    messages_of,
    script_of,
)
from transformer_lite.page.export import PAGE, TITLE, WORKER, exported, write_files
from transformer_lite_book.live_figures import (
    MODULES,
    explorer,
    live_figure,
    renewed,
)
from transformer_lite_book.live_figures import SOURCES as LIVE

ARGUMENTS = {
    "make": 3, "button": 1, "checkbox": 1, "slider": 1, "numberInput": 1, "toggle": 1,
    "choice": 1, "say": 1, "append": 0, "fail": 0, "Error": 0, "write": 2, "arrow": 2,
    "lane": 0, "field": 0, "rectangle": 1,
}  # fmt: skip
"""Which argument of a call a reader sees."""
NAMED = re.compile(
    r'(?:"aria-label"|"aria-valuetext"|\btitle|question|because|answer|options|found'
    r"|textContent|innerText)(?::|,| =) ([^;\n]*)"
)
LITERAL = re.compile(r'"[^"\n]*"|`(?:\$\{[^{}]*\}|[^`$])*`')
VALUE = re.compile(r"\$\{[^{}]*\}")
NO_WORDS = {
    "BEGIN", "END", "GPU",  # names
    "span", "strong", "de", "as it is", "sure", "unsure", "one", "attention",
    "transformer", "changed", "en", "gpu", "link",
}  # fmt: skip
"""Names that all languages share, and values that no reader sees."""
SCRIPTS = [
    path
    for path in sorted([*SOURCES.glob("*.js"), *LIVE.glob("*.js")])
    if path.name not in ("transformer.js", "python.js")  # code to read, and Python
]


def arguments(code, call):
    """Yield the arguments of each call of a function."""
    for found in re.finditer(rf"\b{call}\(", code):
        depth, start, parts = 1, found.end(), []
        for at in range(found.end(), len(code)):
            depth += (code[at] in "([{") - (code[at] in ")]}")
            if depth == 0 or (depth == 1 and code[at] == ","):
                parts.append(code[start:at])
                start = at + 1
            if depth == 0:
                break
        yield parts


def unmarked(code):
    """Return the words for readers in a script that are not marked as messages."""
    code = MESSAGE.sub("0", re.sub(r"/\*.*?\*/|(?<= )// .*", "", code))
    said = [
        parts[place]
        for call, place in ARGUMENTS.items()
        for parts in arguments(code, call)
        if len(parts) > place
    ]
    literals = [
        text[1:-1]
        for part in [*said, *NAMED.findall(code)]
        for text in LITERAL.findall(part)
    ]
    return {
        text
        for text in literals
        if re.search("[A-Za-z]{2}", VALUE.sub("", text)) and text not in NO_WORDS
    }


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_all_words_for_readers_are_marked(path):
    assert unmarked(path.read_text("utf-8")) == set()


@pytest.mark.parametrize(
    "line",
    [
        'make(panel, "p", { class: "axis" }, "New words.");',
        'make(panel, "p", {}, isOn ? "New words." : t`Old words.`);',
        "make(panel, `p`, {}, `New words of ${name}`);",
        'button(panel, "New words", () => act(1, 2));',
        'figure.slider(controls, "New words", { min: 0, max: 1 });',
        "figure.say(panel, ({ part }) => `New words: ${part}.`);",
        '{ role: "group", "aria-label": "New words" }',
        'node.setAttribute("aria-label", `New words ${i}`);',
        'predict(root, { question: "New words?", options: [t`Old`, t`words`] });',
        "gloss.textContent = `New words ${i + 1}`;",
    ],
)
def test_words_that_are_not_marked_are_found(line):
    (found,) = unmarked(line)
    assert found.startswith("New words")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_mark_is_read_as_a_message(path):
    code = re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.S)
    assert len(MESSAGE.findall(code)) == len(re.findall(r"(?<!\w)t`", code))
    assert not any(re.search(r"\\|\{\d\d", text) for text in messages_of(str(path)))


def said(messages):
    """Return what a script says that joins two modules, as Node runs it."""
    script = script_of("messages.js", messages=messages)
    assert script.endswith("})();\n")
    body = script.replace("})();\n", "return [t`Two of ${1 + 1} and ${'{0}'}`];})()")
    return run_javascript(f"return {body};", files=[])


def test_a_translation_orders_the_places(monkeypatch):
    message = "Two of {0} and {1}"
    monkeypatch.setattr("transformer_lite.page.messages_of", lambda *_: [message])
    assert said({message: "{1}, {0} 중 둘"}) == ["{0}, 2 중 둘"]
    assert said({}) == said(None) == ["Two of 2 and {0}"]


def test_a_script_gets_the_translations_that_it_needs_alone():
    script = script_of("messages.js", "dom.js", "words.js")
    used, unused = (
        {"No word changed.": "같습니다."},
        {"Reset": "처음으로", "{0}.": "{0}."},
    )
    translated = script_of("messages.js", "dom.js", "words.js", messages=used | unused)
    line = f"const MESSAGES = {json_of(used)};\n"
    assert translated.replace(line, "") == script
    assert line in translated


def test_no_translation_ends_the_script_element():
    ending = {"No word changed.": "</script><!-- <script>"}
    script = script_of("messages.js", "dom.js", "words.js", messages=ending)
    plain = script_of("messages.js", "dom.js", "words.js")
    assert "script>" in script
    assert script.count("<") == plain.count("<")


def test_the_page_of_an_edition_has_its_language_and_its_words(tmp_path):
    model = exported("multi30k_en_de")
    english, korean = tmp_path / "en", tmp_path / "ko"
    for folder in (english, korean):
        folder.mkdir()
    write_files(model, english)
    words = {TITLE: "제목", "The search": "탐색", "head {0}": "헤드 {0}"}
    write_files(model, korean, "ko", words)
    index = (english / "index.html").read_text("utf-8")
    assert index == (SOURCES / "index.html").read_text("utf-8")
    translated = (korean / "index.html").read_text("utf-8")
    assert translated == index.replace('"en"', '"ko"').replace(TITLE, "제목")
    script = (korean / "page.js").read_text("utf-8")
    assert json_of("탐색") in script
    # The worker's script is a constant of the page's.
    assert json_of(json_of({"head {0}": "헤드 {0}"}))[1:-1] in script
    assert "const MESSAGES" not in (english / "page.js").read_text("utf-8")


def test_the_words_in_data_are_translated_and_the_tokens_are_not():
    data = {"layers": [{"name": "the paper", "factor": 6}], "token": "the paper"}
    html = live_figure(
        "pairs", data, lambda text: "논문" if text == "the paper" else text
    ).data
    assert '{"layers":[{"name":"논문","factor":6}],"token":"the paper"}' in html


@pytest.mark.parametrize("name", MODULES)
def test_a_stored_figure_is_made_again_from_its_data(name):
    html = live_figure(name, {"rows": ["a </b>"]}).data
    assert renewed(html) == html
    assert renewed(html.replace("Reset", "Start")) == html
    heard = []
    renewed(html, lambda message: heard.append(message) or message)
    assert "Reset" in heard
    assert ("a </b>" in heard) == (name == "heads")


def test_a_stored_explorer_is_made_again_and_other_html_stays():
    html = explorer({"maps": [{"name": "one map", "queries": ["<s>"]}]}).data
    assert renewed(html) == html
    assert '"name":"하나"' in renewed(
        html, lambda text: {"one map": "하나"}.get(text, text)
    )
    assert renewed("<b>Reset</b>", lambda message: "x") == "<b>Reset</b>"


def test_a_korean_figure_speaks_korean_in_a_browser(browser):
    words = {"Reset": "처음으로", "Tell me": "답 보기"}
    words["perplexity {0}, {1} of 4 right"] = "4개 중 {1}개 맞음, 퍼플렉시티 {0}"
    page = browser.new_page()
    page.set_content(
        live_figure("perplexity", {}, lambda text: words.get(text, text)).data
    )
    page.get_by_role("button", name="답 보기").click()
    assert page.get_by_role("button", name="처음으로").count() == 1
    text = page.locator(".live-figure").inner_text()
    assert "4개 중 3개 맞음, 퍼플렉시티 1.36" in text
    assert "the sure model gives the right word" in text  # not translated
    page.close()


def test_the_page_and_its_worker_say_what_their_modules_say():
    assert "The search" in messages_of(*PAGE)
    assert "head {0} of {1}" in messages_of(*WORKER)
