"""HTML and SVG from Python: every text is escaped unless it was made here."""

from __future__ import annotations

import math
from typing import Any

from squeak.core.checks import is_number
from squeak.core.text import for_page

VOID = frozenset({"meta", "br", "link", "img"})


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
