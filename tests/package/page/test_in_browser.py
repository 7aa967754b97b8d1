"""The page in Chromium, by mouse and by keyboard.

Skipped where there is no Chromium.
"""

import re
import shutil

import pytest
import torch
from javascript import run_javascript

from transformer_lite import Translator
from transformer_lite.page import SOURCES, script_of
from transformer_lite.page.export import (
    exported,
    parameters_for_json,
    write_files,
    write_page,
)
from transformer_lite.runs.folder import find_run
from transformer_lite.runs.weights import read_weights
from transformer_lite_book.live_figures import TOUR as TOUR_MODULES
from transformer_lite_book.plots import AttentionMap, attention_explorer

pytestmark = pytest.mark.usefixtures("types_unchecked")
SENTENCE = "The dog bites the man."
FOCUSABLE = "button, input, textarea, select, [tabindex='0']"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "page"
    write_page("tatoeba_en_de", out)
    return out


@pytest.fixture
def page(browser):
    """A tab whose errors make the test fail."""
    tab = browser.new_page()
    errors = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.on(
        "console",
        lambda told: errors.append(told.text) if told.type == "error" else None,
    )
    yield tab
    tab.close()
    assert not errors


def open_page(page, folder, link=""):
    page.goto(f"{(folder / 'index.html').as_uri()}{link}")
    page.wait_for_selector("[data-loaded]")


def wait(page):
    """Wait until the latest request is answered."""
    page.wait_for_selector("[aria-busy='false']")


def translated(page, text):
    page.fill("textarea", text)
    wait(page)
    return page.inner_text(".translation")


def status(page):
    return page.inner_text(".status")


def test_it_translates_as_the_package(page, folder):
    expected = Translator.load("tatoeba_en_de", device="cpu").translate(SENTENCE)
    open_page(page, folder)  # from a file, which a browser trusts less than the web
    assert translated(page, SENTENCE) == expected


def test_nothing_is_empty_before_the_model_is_there(page, folder):
    page.route("**/model.js", lambda _: None)  # it never comes
    page.goto((folder / "index.html").as_uri(), wait_until="commit")
    page.wait_for_selector(".attention-explorer .says")
    assert page.inner_text(".translation") == "Ein Hund läuft am Strand."
    assert status(page) == "The model is loading."
    assert page.locator(".candidates li").count() == 5
    assert page.locator(".tree svg").count() == 1
    assert page.locator(".finished li").count() > 1


def test_it_says_what_a_change_has_changed(page, folder):
    open_page(page, folder)
    translated(page, SENTENCE)
    assert "became" not in status(page)
    page.locator(".candidates button:first-child").nth(1).click()
    wait(page)
    new = page.locator(".translation mark").first.inner_text()
    assert f"became “{new}”" in status(page)
    page.get_by_label("Beam size").fill("5")
    wait(page)
    assert status(page).endswith("No word changed.")
    assert page.locator(".translation mark").count() == 0


def test_the_model_of_another_page_is_refused(browser, folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "page")
    model = (other / "model.js").read_text("utf-8")
    (other / "model.js").write_text(
        model.replace("tatoeba_en_de", "another", 1), "utf-8"
    )
    tab = browser.new_page()
    tab.goto((other / "index.html").as_uri())
    tab.wait_for_function(
        "document.querySelector('.status').innerText.includes('holds another, and')"
    )
    assert tab.inner_text(".translation") == ""
    tab.close()


@pytest.mark.parametrize(
    ("old", "now", "said"),
    [
        ("a b c", "a b c", "No word changed."),
        ("a den c", "a der c", "“den” became “der”."),
        ("a b", "a x b", "“x” is new."),
        ("a x b", "a b", "“x” is gone."),
        ("a b c d", "x b y z d", "“a” became “x”, “c” became “y z”."),
        ("a 1 b 2 c 3 d 4", "a b c d",
         "“1” is gone, “2” is gone, “3” is gone, and 1 more."),
        ("a", "b c", "“a” became “b c”."),
    ],
)  # fmt: skip
def test_changed_words_are_said(old, now, said):
    found = run_javascript(
        "return [words.saidOf(...given), words.compared(...given)];",
        [old.split(), now.split()],
        [SOURCES / "words.js"],
    )
    assert found[0] == said
    for side, whole in (("before", old), ("after", now)):
        assert [word for part in found[1] for word in part[side]] == whole.split()


def test_a_newer_sentence_replaces_the_one_before(page, folder):
    open_page(page, folder)
    page.fill("textarea", " ".join([SENTENCE] * 20))
    page.wait_for_selector(".tree svg")
    assert "Hund" in translated(page, "A dog.")
    assert page.locator(".pieces li").count() == 3


def test_a_text_that_it_cannot_translate_gets_a_message(page, folder):
    open_page(page, folder)
    translated(page, "word " * 1000)
    assert "the model reads at most 461" in status(page)
    assert page.inner_text(".translation") == ""
    translated(page, "")
    assert status(page) == "Type a sentence."
    translated(page, "I like 고양이 😀.")
    assert "has never seen “고양이”, “😀”" in status(page)
    assert page.inner_text(".translation")


def test_another_piece_changes_what_follows_and_can_be_taken_back(page, folder):
    open_page(page, folder)
    before = translated(page, SENTENCE)
    page.locator(".candidates button:first-child").nth(1).click()
    wait(page)
    assert page.inner_text(".translation") != before
    assert page.locator(".forced").count() == 1
    page.get_by_role("button", name="Let the model choose again").click()
    wait(page)
    assert page.inner_text(".translation") == before


def test_parts_can_be_taken_away_and_put_back(page, folder):
    open_page(page, folder)
    before = translated(page, SENTENCE)
    page.get_by_label("without the positional encoding").check()
    wait(page)
    without = page.inner_text(".translation")
    assert without != before
    assert translated(page, "The man bites the dog.") == without  # order is gone
    page.get_by_role("button", name="Put everything back").click()
    wait(page)
    assert translated(page, SENTENCE) == before
    page.get_by_label("without the division").check()
    wait(page)
    assert page.inner_text(".translation") != before
    page.get_by_label("without the division").uncheck()
    wait(page)
    page.get_by_role("radio", name="layer 3, head 2").click()
    page.get_by_role("button", name="Switch off layer 3, head 2 of the cross").click()
    wait(page)
    assert page.inner_text(".changes li").startswith("without layer 3, head 2")


def test_a_link_restores_sentence_and_settings(page, folder):
    open_page(page, folder)
    translated(page, SENTENCE)
    page.get_by_label("Beam size").fill("2")
    wait(page)
    page.get_by_label("Temperature").fill("1.3")
    wait(page)
    page.locator(".candidates button:first-child").nth(1).click()
    wait(page)
    page.get_by_label("Draw each piece").check()
    wait(page)
    shown = page.inner_text(".translation")
    page.get_by_role("button", name="Copy a link").click()
    address = page.evaluate("location.href")
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("[aria-busy='false']")
    assert page.inner_text(".translation") == shown
    assert page.locator(".forced").count() == 1
    assert page.get_by_label("Beam size").input_value() == "2"
    assert page.get_by_label("Draw each piece").is_checked()


def test_a_damaged_link_is_read_as_far_as_it_makes_sense(page, folder):
    nonsense = (
        "&beam=99&alpha=x&force=0:999999,a:b&off=../..,cross.0.1&draw=-3&at=1.5,3,"
    )
    open_page(page, folder, f"#text=A+dog.{nonsense}")
    page.wait_for_selector("[aria-busy='false']")
    assert "Hund" in page.inner_text(".translation")
    assert page.locator(".changes li").count() == 1


def test_changes_are_stacked_listed_and_taken_back_one_by_one(page, folder):
    open_page(page, folder)
    before = translated(page, SENTENCE)
    page.get_by_label("r in the encoder's").fill("0.5")
    page.get_by_label("unit (Section 3.3)").fill("260")
    page.get_by_role("button", name="Set", exact=True).click()
    page.get_by_label("Another sentence").fill("A cat sleeps.")
    wait(page)
    page.get_by_role("radio", name="layer 3, head 2").click()
    page.get_by_role("button", name="Let it read the other sentence").click()
    wait(page)
    changes = page.locator(".changes li")
    expected = ("keeps 0.5 of x", "head 2 of the cross", "unit 260 of decoder layer 3")
    for item, text in zip(changes.all_inner_texts(), expected, strict=True):
        assert text in item
    assert page.inner_text(".translation") != before
    page.get_by_role("button", name="Copy a link").click()
    address = page.evaluate("location.href")
    shown = page.inner_text(".translation")
    page.goto("about:blank")
    page.goto(address)
    wait(page)
    assert page.inner_text(".translation") == shown
    for left in (2, 1, 0):
        changes.first.get_by_role("button").click()
        wait(page)
        assert changes.count() == left
    assert page.inner_text(".translation") == before


def test_a_pinned_output_stays_beside_the_new_one(page, folder):
    open_page(page, folder)
    before = translated(page, SENTENCE)
    percent = page.inner_text(".candidates li:first-child .number")
    page.get_by_role("button", name="Pin this output").click()
    page.get_by_label("without the division").check()
    wait(page)
    assert page.inner_text(".pinned span").strip() == before
    assert page.locator(".pinned mark").count() > 0
    assert f"was {percent}" in page.inner_text(".candidates li:first-child .number")
    page.get_by_role("button", name="Unpin").click()
    assert page.inner_text(".pinned span") == ""
    assert page.locator(".candidates .then").count() == 0


def test_it_is_shown_as_python(page, folder):
    open_page(page, folder)
    translated(page, SENTENCE)
    page.get_by_label("without the positional encoding").check()
    wait(page)
    page.get_by_text("This as Python").click()
    program = page.inner_text("details code")
    assert 'Translator.load("tatoeba_en_de", device="cpu")' in program
    assert "positions.encoding.zero_()" in program


TOUR = """
    <section><section id="stop-1-a"><h3>Stop 1: a</h3>
      <p>One?</p><ul><li><strong>Yes</strong></li><li>No</li></ul>
      <p>Seen. <a href="#text=A+dog.&beam=1">Show it again</a></p></section>
    <section id="stop-2-b"><h3>Stop 2: b</h3>
      <p>Two?</p><ul><li>Yes</li><li><strong>No</strong></li></ul>
      <p>Gone. <a href="#text=The+man+bites+the+dog.&positions=no">Again</a></p>
    </section></section>
    <div class="live-translator"></div>
    <script src="page.js"></script>
"""


def test_the_tour_asks_sets_the_translator_and_goes_on(page, folder, tmp_path):
    toured = shutil.copytree(folder, tmp_path / "page")
    tour = script_of(*TOUR_MODULES)
    text = (toured / "index.html").read_text("utf-8")
    start, end = text.index("<main>"), text.index("</body>")
    text = f"{text[:start]}<main>{TOUR}</main><script>{tour}</script>{text[end:]}"
    (toured / "index.html").write_text(text, "utf-8")
    open_page(page, toured)
    card = page.locator(".tour")
    assert "Stop 1/2: a" in card.inner_text()
    assert "Seen." not in card.inner_text()
    card.get_by_role("button", name="No").click()
    wait(page)
    assert page.input_value("textarea") == "A dog."
    assert "Seen." in card.inner_text()
    assert "Not this time." in card.inner_text()
    assert page.inner_text(".translation") in card.inner_text()
    page.keyboard.press("Enter")  # the next stop has the focus
    assert "Stop 2/2: b" in card.inner_text()
    card.get_by_role("button", name="No").click()
    wait(page)
    assert "Right." in card.inner_text()
    assert "Guesses: 2, right: 1." in card.inner_text()
    assert page.get_by_label("without the positional encoding").is_checked()
    page.evaluate("location.hash = '#stop-1-a'")
    page.get_by_text("Stop 1/2: a").wait_for()
    assert page.input_value("textarea") == "The man bites the dog."  # it stays


def test_an_output_is_compared_with_the_one_before_over_one_setting(page, folder):
    open_page(page, folder, f"#text={SENTENCE}")
    wait(page)
    usual = page.inner_text(".translation")
    follow = """async (hash) => {
        const isSet = new Promise((set) => addEventListener("hashchange", set));
        location.hash = hash;
        await isSet;
    }"""
    page.evaluate(follow, f"#text={SENTENCE}&positions=no")
    wait(page)
    assert page.inner_text(".translation") != usual
    assert page.locator(".translation mark").count()
    page.evaluate(follow, f"#text={SENTENCE}&scale=no")  # with positions again
    wait(page)
    assert not page.locator(".translation mark").count()


def test_a_link_shows_the_piece_and_the_head_that_it_is_about(page, folder):
    open_page(page, folder, f"#text={SENTENCE}&at=2,40,,cross.1,h4")
    wait(page)
    assert page.locator(".pieces [aria-checked='true']").count() == 1
    assert page.locator(".pieces [role='radio']").nth(2).get_attribute(
        "aria-checked"
    ) == "true"  # fmt: skip
    assert page.inner_text(".says").startswith("Layer 2, head 5: ")
    page.evaluate(f"location.hash = '#text={SENTENCE}&off=encoder.0.6'")
    page.wait_for_function(
        "document.querySelector('.says').innerText.startsWith('Layer 1, head 7')"
    )
    page.evaluate(f"location.hash = '#text={SENTENCE}&at=0,40,,cross.99,h4'")
    page.wait_for_selector(".account [role='alert']")  # and nothing else breaks


def test_a_number_is_followed_down_to_the_words(page, folder):
    open_page(page, folder)
    translated(page, SENTENCE)
    page.locator(".pieces [role='radio']").nth(1).click()
    rival = page.inner_text(".candidates li:nth-child(2) .piece")
    page.get_by_role("button", name=f"Why not “{rival}”?").click()
    shown = page.locator(".account")
    page.wait_for_selector(".account .terms")
    assert f"over “{rival}”" in shown.locator(".trail strong").inner_text()
    page.locator(".terms button", has_text="the cross-attention of").first.click()
    page.locator(".terms button", has_text="head").first.click()
    words = page.locator(".terms button:first-child")
    words.get_by_text("%").first.wait_for()
    assert page.locator(".trail li").count() == 3
    number = words.first.locator(".number").inner_text()
    words.first.click()
    page.locator(".trail li >> nth=3").wait_for()
    assert page.inner_text(".trail strong").endswith(number)
    text = shown.inner_text()
    for part in ("Sum − number: 0.00000.", "In transformer.js: ", "behind the encoder"):
        assert part in text
    shares = page.locator(".terms .number").all_inner_texts()
    total = sum(float(share.replace("−", "-")) for share in shares)
    assert total == pytest.approx(float(number.replace("−", "-")), abs=0.08)
    page.locator(".trail button").first.click()
    page.wait_for_function("document.querySelectorAll('.trail li').length === 1")
    translated(page, "A dog.")  # whose output may lack the piece
    assert page.locator(".terms").count() == 0


def test_a_weight_has_an_account(page, folder):
    open_page(page, folder)
    translated(page, SENTENCE)
    page.get_by_role("radio", name="layer 3, head 2").click()
    page.locator(".queries").focus()
    page.keyboard.press("End")
    why = page.get_by_role("button", name=re.compile(r"^Why \d+ % of “")).first
    word = re.search("“.+”", why.inner_text())[0]
    why.click()
    page.wait_for_selector(".account .terms")
    assert page.inner_text(".trail").startswith(f"the score of {word} in head 2 of")
    page.get_by_role("button", name="by what the query is made of").click()
    page.locator(".trail li >> nth=1").wait_for()
    before = page.inner_text(".account")
    page.get_by_role("button", name="Copy a link").click()
    address = page.evaluate("location.href")
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(".account .terms")
    assert page.inner_text(".account") == before


def test_an_account_follows_a_change_and_a_link(page, folder):
    open_page(page, folder)
    translated(page, SENTENCE)
    page.locator(".candidates li >> nth=0").get_by_role("button", name="Why").click()
    page.wait_for_selector(".account .terms")
    page.locator(".terms button", has_text="the cross-attention of").first.click()
    page.locator(".trail li >> nth=1").wait_for()
    before = page.inner_text(".trail")
    page.get_by_role("button", name="Copy a link").click()
    address = page.evaluate("location.href")
    assert "at=0%2C" in address
    page.get_by_label("positional encoding").check()
    wait(page)
    page.wait_for_function("old => document.querySelector('.trail').innerText !== old",
                           arg=before)  # fmt: skip
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(".account .terms")
    assert page.inner_text(".trail") == before
    page.get_by_role("button", name="Close").click()
    assert page.locator(".account .terms").count() == 0
    page.goto("about:blank")
    page.goto(f"{address}%2Ch77")
    page.wait_for_selector(".account [role='alert']")
    assert "has no account of h77" in page.inner_text(".account")


def test_the_keyboard_reaches_everything(page, folder):
    open_page(page, folder)
    translated(page, SENTENCE)
    page.get_by_label("without the positional encoding").check()
    wait(page)
    # Of a group of choices Tab reaches one, and the arrow keys the others.
    wanted = page.evaluate(
        f"""[...document.querySelectorAll("{FOCUSABLE}")].filter((one) =>
          one.offsetParent && one.tabIndex === 0 && !one.disabled).length"""
    )
    page.focus("textarea")
    reached = set()
    for _ in range(wanted + 5):
        page.keyboard.press("Tab")
        index = f'[...document.querySelectorAll("{FOCUSABLE}")]'
        reached.add(page.evaluate(f"{index}.indexOf(document.activeElement)"))
    assert len(reached - {-1}) >= wanted - 1  # the sentence itself has the focus first
    page.focus(".pieces [aria-checked='true']")
    page.keyboard.press("End")
    focused = "document.activeElement.innerText"
    assert page.evaluate(focused).startswith("END")
    page.keyboard.press("Home")
    first = page.inner_text(".candidates li:nth-child(2) button:first-child").split()[0]
    page.focus(".candidates li:nth-child(2) button:first-child")
    page.keyboard.press("Enter")
    wait(page)
    assert page.inner_text(".pieces [aria-checked='true'] span") == first
    assert page.evaluate("document.activeElement.getAttribute('role')") == "radio"


def test_explorers_in_outputs_of_a_notebook_start_and_obey_keys(page):
    weights = torch.eye(3).expand(2, 2, 3, 3)
    words = ["the", "dog", "."]
    explorer = attention_explorer({"self": AttentionMap(weights, words, words)})
    page.set_content(f"<!doctype html>{explorer.data}{explorer.data}")
    second = page.locator(".attention-explorer").nth(1)
    assert page.locator(".fallback").count() == 0
    second.get_by_role("radio", name="layer 1, head 2").click()
    page.keyboard.press("ArrowDown")
    assert "Layer 2, head 2: the lines of all" in second.locator(".says").inner_text()
    second.get_by_role("listbox").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowUp")
    assert "looks most at" in second.locator(".says").inner_text()
    assert second.locator(".keys li").nth(1).inner_text().split() == ["dog", "100", "%"]
    page.keyboard.press("Escape")
    assert "the lines of all words" in second.locator(".says").inner_text()
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(({ id }) => id)")
    assert len(ids) == len(set(ids)) == 6


def test_a_phone_shows_all_of_it(browser, folder):
    phone = browser.new_page(viewport={"width": 360, "height": 640})
    open_page(phone, folder)
    translated(phone, "The animal didn't cross the street because it was too tired.")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert phone.evaluate(wide) == 0
    phone.close()


def test_what_is_typed_while_the_model_is_loading_stays(page, folder):
    page.goto((folder / "index.html").as_uri(), wait_until="commit")
    assert "Hund" in translated(page, SENTENCE)
    assert page.input_value("textarea") == SENTENCE


def test_the_page_of_a_parser_speaks_of_trees(page, tmp_path):
    write_page("craft_parser", tmp_path / "page")
    open_page(page, tmp_path / "page")
    wait(page)
    assert page.inner_text(".translation").startswith("(S (NP We )NP (VP saw ")
    page.get_by_label("Beam size").fill("2")
    wait(page)
    assert status(page).startswith("Parsed in ")
    assert "The tree, piece by piece" in page.inner_text("main")
    words = page.evaluate("document.title + document.body.innerHTML")
    assert not re.search('translat(es|ed|ion)[^-"]', words, re.I)


def test_an_error_in_an_answer_is_said_and_ends_it(browser, folder, tmp_path):
    broken = shutil.copytree(folder, tmp_path / "page")
    script = (broken / "page.js").read_text("utf-8")
    assert "lengthPenalty(step.length" in script
    script = script.replace("lengthPenalty(step.length", "missing(step.length")
    (broken / "page.js").write_text(script, "utf-8")
    tab = browser.new_page()
    open_page(tab, broken)
    for text in (SENTENCE, "It rains."):
        assert translated(tab, text) == ""
        assert status(tab) == "The model failed: missing is not defined."
    tab.close()


@pytest.mark.parametrize(
    "damage",
    [
        lambda model: model | of_weights(find_run("craft_parser").default_weights()),
        lambda model: model | {"data": "!" + model["data"][1:]},
        lambda model: model | {"data": "////" * (len(model["data"]) // 4)},
        lambda model: model | {"tensors": model["tensors"][:-1]},
        None,
    ],
    ids=["of another model", "no base64", "not a number", "too many", "half a file"],
)
def test_a_damaged_model_is_said_and_stays_said(browser, tmp_path, damage):
    model = exported("tatoeba_en_de")
    write_files(damage(model) if damage else model, tmp_path)
    if not damage:
        file = tmp_path / "model.js"
        file.write_text(file.read_text("utf-8")[:-1_000_000], "utf-8")
    tab = browser.new_page()
    tab.goto((tmp_path / "index.html").as_uri())
    wait(tab)
    message = status(tab)
    assert re.search(r"model\.js (holds no working model: |is damaged)", message)
    assert "Write the page again." in message
    assert translated(tab, SENTENCE) == ""  # neither busy for ever nor silent
    assert status(tab) == message
    tab.close()


def of_weights(path):
    return parameters_for_json(read_weights(path), bits=8)


def test_without_the_model_it_says_what_is_missing(browser, folder, tmp_path):
    for name in ("index.html", "page.js", "page.css"):
        shutil.copy(folder / name, tmp_path)
    alone = browser.new_page()
    alone.goto((tmp_path / "index.html").as_uri())
    alone.wait_for_function(
        "document.querySelector('.status').innerText.includes('could not be loaded')"
    )
    assert "model.js" in status(alone)
    alone.close()
