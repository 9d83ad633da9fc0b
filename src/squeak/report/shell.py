"""HTML that escapes every text, and the page around the panels: one file with style and script inside."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from squeak._version import __version__
from squeak.core.checks import is_number
from squeak.core.text import for_page

VOID = frozenset({"meta", "br", "link", "img", "input"})


class Safe(str):
    """Markup that was made by :func:`tag`; anything else is text, and is escaped where it is put in."""

    __slots__ = ()


def text(value: Any) -> Safe:
    """Return a text as markup: escaped, without characters that a page cannot hold."""
    if isinstance(value, Safe):
        return value
    return Safe(for_page(value))


def join(*parts: Any) -> Safe:
    """Return several pieces one after the other; lists are taken apart, None is nothing."""
    found = []
    for part in parts:
        if isinstance(part, list | tuple):
            found.append(join(*part))
        elif part is not None:
            found.append(text(part))
    return Safe("".join(found))


def tag(element: str, /, *children: Any, **attributes: Any) -> Safe:
    """Return an element; ``class_`` is the attribute class, and an underscore within a name a hyphen."""
    words = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        shown = for_page(fixed(value) if isinstance(value, float) else value)
        words.append(f" {key}" if value is True else f' {key}="{shown}"')
    opening = f"<{element}{''.join(words)}>"
    return Safe(opening if element in VOID else f"{opening}{join(*children)}</{element}>")


def svg(parts: Any, width: float, height: float, label: str, class_: str = "plot", top: float = 0.0) -> Safe:
    """Return a picture that the page scales; ``label`` says what it shows, for readers who cannot see it."""
    box = f"0 {fixed(top)} {fixed(width)} {fixed(height)}"
    return tag("svg", parts, viewBox=box, role="img", aria_label=label, class_=class_)


def fixed(value: float) -> str:
    """Return a coordinate: a tenth of a pixel is enough."""
    return f"{value:.1f}".rstrip("0").rstrip(".") if math.isfinite(value) else "0"


def number(value: Any, digits: int = 4) -> str:
    """Return a number to read: whole numbers with thousands, others to a few digits."""
    value = float(value)
    if not math.isfinite(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == round(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", "−")
    if abs(value) >= 1e4:
        return f"{value:,.0f}".replace("-", "−") if abs(value) < 1e9 else f"{value:.3g}".replace("-", "−")
    return f"{value:.{digits}g}".replace("-", "−")


def percent(part: float) -> str:
    """Return a part as a percentage."""
    return f"{100 * part:.3g}%"


def table(headings: list[Any], rows: list[list[Any]], class_: str | None = None) -> Safe:
    """Return a table that scrolls by itself where it is wider than the screen; numbers stand to the right."""

    def cell(value: Any) -> Safe:
        numeric = is_number(value)
        return tag("td", number(value) if numeric else value, class_="n" if numeric else None)

    first = rows[0] if rows else []
    titles = [
        tag("th", heading, scope="col", class_="n" if place < len(first) and is_number(first[place]) else None)
        for place, heading in enumerate(headings)
    ]
    head = tag("thead", tag("tr", titles)) if headings else None
    body = tag("tbody", [tag("tr", [cell(value) for value in row]) for row in rows])
    return tag("div", tag("table", head, body, class_=class_), class_="scroll", tabindex="0")


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
        style, script = asset("page.css"), asset("page.js")
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
            tag("footer", f"Made by squeak {__version__}. This page works without a network."),
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


def asset(name: str) -> str:
    """Return the text of a style or script that pages hold."""
    return files("squeak.report").joinpath(name).read_text(encoding="utf-8")


def paragraphs(*texts: Any) -> Safe:
    """Return texts as paragraphs; None is left out."""
    return join([tag("p", text) for text in texts if text is not None])
