"""Record the account and the tour of the live translator, for the README.

    python book/tools/record_page.py

Writes book/_static/account.webp and tour.webp from the built book, in which a browser
does what a reader would do. CHROMIUM names the browser's program.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "_build" / "html" / "book" / "live_translator.html"
STATIC = ROOT / "book" / "_static"
SIZE = {"width": 1440, "height": 900}
SECONDS = 2.5
"""How long each picture stays."""
ACCOUNT = "#text=A+dog+runs+on+the+beach.&at=2,4095,2574"


def opened(tab: Page, link: str) -> None:
    """Open the page at a link and wait for the model's answer."""
    tab.goto("about:blank")
    tab.goto(f"{PAGE.as_uri()}{link}")
    tab.wait_for_selector("[data-loaded]")
    still(tab)


def still(tab: Page) -> None:
    """Wait until the page has answered."""
    tab.wait_for_timeout(1000)
    tab.wait_for_selector("[aria-busy='false']")


def account(tab: Page) -> Iterable[None]:
    """From the lead of a word down to its embedding."""
    opened(tab, ACCOUNT)
    tab.evaluate("document.querySelector('.tour').remove()")
    for term in ("cross-attention of decoder layer 3", "head 8", "99 %", "embedding"):
        tab.evaluate("document.querySelector('.columns').scrollIntoView()")
        yield
        tab.locator(".terms button", has_text=term).first.click()
        still(tab)
    yield


def tour(tab: Page) -> Iterable[None]:
    """Two stops, each before and after the guess."""
    for stop, guess in ((10, "Nothing"), (11, "Ein Hund fährt am Strand.")):
        opened(tab, f"#stop-{stop}")
        tab.evaluate("document.querySelector('#the-translator').scrollIntoView()")
        yield
        tab.get_by_role("button", name=guess, exact=True).click()
        still(tab)
        yield


def record(name: str, tab: Page, story: Callable[[Page], Iterable[None]]) -> None:
    """Write a moving picture with one image for each step of a story."""
    images = [Image.open(BytesIO(tab.screenshot())) for _ in story(tab)]
    first, *others = images
    options = {"duration": int(1000 * SECONDS), "loop": 0, "quality": 60, "method": 6}
    path = STATIC / f"{name}.webp"
    first.save(path, save_all=True, append_images=others, **options)
    print(f"wrote {path.relative_to(ROOT)}")


def main() -> None:
    """Write both recordings."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"]
        )
        tab = browser.new_page(viewport=SIZE, color_scheme="light")
        for story in (account, tour):
            record(story.__name__, tab, story)
        browser.close()


if __name__ == "__main__":
    main()
