"""A built page that loads anything from another server is refused."""

import pytest
from loading import load

tool = load("tools/check_pages.py")


@pytest.fixture
def book(tmp_path):
    """The folder of a built book with a style sheet, a picture and an empty page."""
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "style.css").write_text("body { background: url('a%20b.png') }")
    (tmp_path / "a b.png").touch()
    (tmp_path / "index.html").touch()
    return tmp_path


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example.org/mathjax.js"></script>',
        '<script src="//cdn.example.org/mathjax.js"></script>',
        '<link rel="stylesheet" href="https://example.org/a.css">',
        '<link rel="preconnect" href="https://fonts.example.org">',
        '<link rel="alternate stylesheet" href="https://example.org/a.css">',
        '<img src="https://example.org/badge.svg">',
        '<img srcset="../a%20b.png 1x, https://example.org/b.png 2x">',
        '<p style="background: url(https://example.org/b.png)">',
        '<script>const address = "https://unpkg.example.org/thebe.js";</script>',
        '<svg><image href="https://example.org/b.png"/></svg>',
    ],
)
def test_what_comes_from_another_server_is_refused(book, html):
    (book / "notebooks" / "page.html").write_text(html)
    (fault,) = tool.faults(book)
    assert fault.startswith("notebooks/page.html: loads ")
    assert fault.endswith("from another server")


@pytest.mark.parametrize(
    "html",
    [
        '<a href="https://example.org/a.js">a link</a>',
        '<link rel="canonical" href="https://example.org/page.html">',
        '<link rel="alternate" hreflang="ko" href="https://example.org/ko/page.html">',
        '<link rel="stylesheet" href="../style.css?v=3">',
        '<img src="../a%20b.png"><img src="data:image/png;base64,AAAA">',
        '<meta property="og:url" content="https://example.org/">',
        '<script>const at = "https://example.org/book/";</script>',
        '<svg><use href="#arrow"/></svg>',
    ],
)
def test_links_and_what_lies_beside_the_page_are_free(book, html):
    (book / "notebooks" / "page.html").write_text(html)
    assert not tool.faults(book)


def test_what_is_missing_is_refused(book):
    (book / "notebooks" / "page.html").write_text('<img src="../b.png">')
    assert tool.faults(book) == [
        "notebooks/page.html: loads ../b.png, which is not there"
    ]


def test_style_sheets_are_read_too(book):
    (book / "style.css").write_text("@font-face { src: url(https://example.org/f) }")
    (fault,) = tool.faults(book)
    assert fault == "style.css: loads https://example.org/f from another server"


def test_a_fault_fails_the_build(book, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["check_pages.py", str(book)])
    assert tool.main() == 0
    (book / "index.html").write_text('<script src="https://example.org/a.js"></script>')
    assert tool.main() == 1
    assert "https://example.org/a.js" in capsys.readouterr().out


def test_a_folder_without_a_book_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["check_pages.py", str(tmp_path)])
    assert tool.main() == 2
    assert "make book" in capsys.readouterr().err
