"""Check the built site: every internal link and anchor leads somewhere, and nothing is loaded from elsewhere.

``python docs/check_links.py docs/_build/html`` prints what is wrong and ends with 1, or says how much was right.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
LINKS_THAT_LOAD = {"stylesheet", "preload", "prefetch", "modulepreload", "icon", "preconnect", "dns-prefetch"}


class Page(HTMLParser):
    """The anchors, links and loaded files of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag defines, points to and loads."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        loads = tag != "link" or LINKS_THAT_LOAD & set(found.get("rel", "").split())
        if tag in LOADING and LOADING[tag] in found and loads:
            self.loaded.append(found[LOADING[tag]])


def is_elsewhere(address: str) -> bool:
    """Tell whether an address leaves the site."""
    return address.startswith("//") or urlsplit(address).scheme in ("http", "https", "ftp")


def wrong_links(root: Path) -> tuple[list[str], int]:
    """Return what is wrong with a built site, and how many links were looked at."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(root.rglob("*.html"))}
    wrong, looked = [], 0
    for path, page in pages.items():
        name = path.relative_to(root)
        wrong += [f"{name}: loads {address}" for address in page.loaded if is_elsewhere(address)]
        inside = [a for a in page.links + page.loaded if not is_elsewhere(a) and not re.match(r"(mailto|data):", a)]
        looked += len(inside)
        for address in inside:
            parts = urlsplit(address)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                wrong.append(f"{name}: {address} does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{name}: {address} has no such anchor")
    for style in sorted(root.rglob("*.css")):
        if re.search(r"""(url\(|@import)\s*["']?(https?:)?//""", style.read_text(encoding="utf-8")):
            wrong.append(f"{style.relative_to(root)}: loads from elsewhere")
    return wrong, looked


def main() -> int:
    """Check the site that the command line names."""
    root = Path(sys.argv[1]).resolve()
    wrong, looked = wrong_links(root)
    print("\n".join(wrong) or f"{looked:,} links inside the site lead somewhere; nothing is loaded from elsewhere")
    return 1 if wrong or not looked else 0


if __name__ == "__main__":
    sys.exit(main())
