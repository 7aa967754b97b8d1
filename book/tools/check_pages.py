"""Check that the built pages load nothing from elsewhere, and nothing that is missing.

    python book/tools/check_pages.py [_build/html]

A page that asks another server for a script, a style sheet, a font or an image shows
raw formulas without a network, and tells that server who reads it. `make book` runs
this after building; links, which load nothing until they are followed, are free.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
# Relations that fetch nothing.
LINKS = set("alternate canonical next prev index search author copyright".split())
LOADING = {
    "audio": ["src"],
    "embed": ["src"],
    "iframe": ["src"],
    "image": ["href", "xlink:href"],
    "img": ["src", "srcset"],
    "input": ["src"],
    "link": ["href"],
    "object": ["data"],
    "script": ["src"],
    "source": ["src", "srcset"],
    "track": ["src"],
    "use": ["href", "xlink:href"],
    "video": ["src", "poster"],
}
IN_STYLE = re.compile(r"""(?:url\(|@import\s+)\s*["']?([^"')\s;]+)""")
IN_SCRIPT = re.compile(
    r"""\bimport\b[^;"']*["']((?:https?:)?//[^"']+)|"""
    r"""((?:https?:)?//[^\s"'`]+\.(?:m?js|css|woff2?|json|wasm)\b)"""
)


class Loads(HTMLParser):
    """Collects the addresses that a page loads."""

    def __init__(self):
        super().__init__()
        self.addresses: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag, attrs):
        """Note what an element loads, and whether its text is code."""
        values = {name: value or "" for name, value in attrs}
        self.inside = tag if tag in ("script", "style") else ""
        self.addresses += IN_STYLE.findall(values.get("style", ""))
        if tag == "link" and set(values.get("rel", "").split()) <= LINKS:
            return
        for name in LOADING.get(tag, []):
            candidates = values.get(name, "").split(",") if name == "srcset" else None
            found = candidates or [values.get(name, "")]
            self.addresses += [text.split()[0] for text in found if text.strip()]

    def handle_endtag(self, tag):
        """Leave a script or a style sheet."""
        self.inside = ""

    def handle_data(self, data):
        """Note what inline styles and scripts load."""
        if self.inside == "style":
            self.addresses += IN_STYLE.findall(data)
        if self.inside == "script":
            self.addresses += [
                found[1] or found[2] for found in IN_SCRIPT.finditer(data)
            ]


def faults(folder: Path) -> list[str]:
    """Return a line for each thing that a page or style sheet loads and must not."""
    found = []
    pages = [page for page in folder.rglob("*.html") if "_static" not in page.parts]
    for page in sorted(pages):
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        found += [fault(page, address, folder) for address in loads.addresses]
    for sheet in sorted(folder.rglob("*.css")):
        addresses = IN_STYLE.findall(sheet.read_text(encoding="utf-8"))
        found += [fault(sheet, address, folder) for address in addresses]
    return [line for line in dict.fromkeys(found) if line]


def fault(file: Path, address: str, folder: Path) -> str:
    """Return what is wrong with an address that a file loads; empty if nothing is."""
    name = file.relative_to(folder)
    parts = urlsplit(address)
    if parts.netloc:
        return f"{name}: loads {address} from another server"
    # A fragment alone is a part of the page itself.
    if parts.scheme == "data" or not parts.path:
        return ""
    base = folder if parts.path.startswith("/") else file.parent
    if not (base / unquote(parts.path).lstrip("/")).exists():
        return f"{name}: loads {address}, which is not there"
    return ""


def main() -> int:
    """Check the folder named on the command line and print what is wrong."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "_build" / "html"
    if not (folder / "index.html").exists():
        print(f"{folder}: no book is built there; run `make book`", file=sys.stderr)
        return 2
    found = faults(folder)
    print("\n".join(found) or "The pages load nothing from elsewhere.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
