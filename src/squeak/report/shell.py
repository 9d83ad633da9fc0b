"""The page around the panels: one HTML file with its style and its script inside, and nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from squeak._version import __version__
from squeak.report.tags import Safe, join, tag


@dataclass(frozen=True)
class Panel:
    """One picture or table with a title, and words on how to read it."""

    title: str
    body: Safe
    words: Any = None
    wide: bool = False


@dataclass
class Tab:
    """Panels that belong together."""

    name: str
    panels: list[Panel] = field(default_factory=list)

    def add(self, *panels: Panel | None) -> None:
        """Add panels; None is nothing."""
        self.panels += [panel for panel in panels if panel is not None]


@dataclass
class Page:
    """All that a report shows: a title, a few facts, and tabs."""

    title: str
    subtitle: str
    facts: list[tuple[str, str]]
    tabs: list[Tab]

    def html(self) -> str:
        """Return the whole page.

        Its policy allows the one script by its hash, so that a text from the data could not run even if it were
        not escaped.
        """
        style, script = _asset("page.css"), _asset("page.js")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
        tabs = [tab for tab in self.tabs if tab.panels]
        names = _identifiers([tab.name for tab in tabs])
        links = [
            tag("a", tab.name, href=f"#{name}", id=f"to-{name}") for tab, name in zip(tabs, names, strict=True)
        ]
        head = tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            tag("meta", name="generator", content=f"squeak {__version__}"),
            tag("title", f"{self.title} · squeak"),
            tag("style", Safe(style)),
        )
        body = tag(
            "body",
            tag("header", tag("h1", self.title), tag("p", self.subtitle, class_="quiet"), _facts(self.facts)),
            tag("nav", links, aria_label="Parts of this report"),
            tag("main", [_section(tab, name) for tab, name in zip(tabs, names, strict=True)]),
            tag("footer", f"Made by squeak {__version__}. The page holds all it needs and asks no network."),
            tag("script", Safe(script)),
        )
        return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def _section(tab: Tab, name: str) -> Safe:
    panels = tag("div", [_panel(panel) for panel in tab.panels], class_="panels")
    return tag("section", tag("h2", tab.name), panels, id=name, class_="tab", aria_labelledby=f"to-{name}")


def _panel(panel: Panel) -> Safe:
    words = None if panel.words is None else tag("div", panel.words, class_="words")
    heading = tag("figcaption", tag("h3", panel.title))
    return tag("figure", heading, panel.body, words, class_="panel wide" if panel.wide else "panel")


def _facts(facts: list[tuple[str, str]]) -> Safe:
    return tag("dl", [tag("div", tag("dt", name), tag("dd", value)) for name, value in facts], class_="facts")


def _identifiers(names: list[str]) -> list[str]:
    found: list[str] = []
    for place, name in enumerate(names):
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "part"
        found.append(plain if plain not in found else f"{plain}-{place}")
    return found


def _asset(name: str) -> str:
    return files("squeak.report").joinpath(name).read_text(encoding="utf-8")


def paragraphs(*texts: Any) -> Safe:
    """Return texts as paragraphs; None is left out."""
    return join([tag("p", text) for text in texts if text is not None])
