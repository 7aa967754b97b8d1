"""The search finds words of Korean and Chinese, in the index and in the browser."""

import pytest
from javascript import run_javascript
from loading import ROOT, load
from sphinx.application import Sphinx

search_words = load("_ext/search_words.py")
PAGES = {
    "masks": "디코더는 **마스크를** 씁니다. 残差连接让深层网络可以训练。",
    "heads": "멀티 헤드 어텐션은 헤드가 여럿입니다. 多头注意力有好几个头。",
    "adam": "The optimizer is Adam. 학습률은 천천히 오릅니다. 学习率先升后降。",
}
CONF = "extensions = ['search_words']\nlanguage = '{}'\nhtml_theme = 'basic'\n"


def query(text):
    code = search_words.SearchPairs.js_splitter_code
    return run_javascript(f"{code} return splitQuery(given);", text, files=[])


@pytest.mark.parametrize(
    ("text", "index", "asked"),
    [
        ("마스크를", "마 스 크 를 마스 스크 크를", "마스 스크 크를"),
        ("残差连接", "残 差 连 接 残差 差连 连接", "残差 差连 连接"),
        ("키", "키", "키"),
        ("Adam, layer_norm 3", "Adam layer_norm 3", "Adam layer_norm 3"),
        ("KV缓存", "KV 缓 存 缓存", "KV 缓存"),
        ("softmax는", "softmax 는", "softmax 는"),
        ("—, 。", "", ""),
    ],
)
def test_words_are_split_alike_in_the_index_and_in_a_query(text, index, asked):
    assert search_words.SearchKorean({}).split(text) == index.split()
    assert query(text) == asked.split()
    assert {*asked.split()} <= {*index.split()}


@pytest.fixture(scope="module", params=["ko", "zh_CN"])
def edition(request, tmp_path_factory):
    """A small book in the language, with a page for each of `PAGES`."""
    source = tmp_path_factory.mktemp("search")
    (source / "conf.py").write_text(CONF.format(request.param), "utf-8")
    names = "\n   ".join(PAGES)
    (source / "index.rst").write_text(
        f"Book\n====\n\n.. toctree::\n\n   {names}\n", "utf-8"
    )
    for name, text in PAGES.items():
        line = "=" * len(name)
        (source / f"{name}.rst").write_text(f"{name}\n{line}\n\n{text}\n", "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "book" / "_ext")
        out = source / "html"
        Sphinx(source, source, out, source / "trees", "html", status=None).build()
    return out


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("마스크", "masks"),
        ("마스크 디코더", "masks"),
        ("어텐션", "heads"),
        ("残差连接", "masks"),
        ("注意力", "heads"),
        ("学习率", "adam"),
        ("optimizer", "adam"),
        ("optimizers", "adam"),
    ],
)
def test_a_word_finds_its_page_alone(edition, browser, asked, page):
    tab = browser.new_page()
    tab.goto(f"{(edition / 'search.html').as_uri()}?q={asked}")
    tab.wait_for_selector("#search-results li a")
    tab.wait_for_timeout(100)  # or a second result comes later
    links = tab.locator("#search-results li a").all()
    assert [link.get_attribute("href").split(".")[0] for link in links] == [page]
    tab.close()


def test_a_word_that_no_page_has_finds_nothing(edition, browser):
    tab = browser.new_page()
    tab.goto(f"{(edition / 'search.html').as_uri()}?q=번역기")
    tab.wait_for_function(
        "document.querySelector('.search-summary')?.innerText.length > 20"
    )
    assert tab.locator("#search-results li a").count() == 0
    tab.close()
