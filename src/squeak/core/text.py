"""Text from files and users, made safe for where it is shown: a terminal, a page, a cell of a CSV file.

Names of columns, categories and classes come from data, and data may hold anything: escape sequences that rewrite
a terminal, characters that no page can hold, cells that a spreadsheet would run as formulas.
"""

from __future__ import annotations

import html
from typing import Any

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""


def for_terminal(value: Any, keep: str = "") -> str:
    r"""Return a text with every character that is not printable as its escape; those in ``keep`` stay."""
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in str(value))


def for_page(value: Any) -> str:
    """Return a text as HTML, escaped for an element or an attribute, without characters that a page cannot hold."""
    return html.escape("".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in str(value)), quote=True)


def for_cell(value: str) -> str:
    """Return a text for a cell of a CSV file: an apostrophe goes before what a spreadsheet would run as a formula.

    That is a text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return. A number such as -1 and
    a sign alone stay as they are.
    """
    if not value.startswith(FORMULA) or len(value) == 1:
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
