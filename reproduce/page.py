"""One HTML page of all reproductions, with its figures inside: nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import re
from pathlib import Path

from markdown_it import MarkdownIt

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid #8886; padding-top: 1rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid #8883; white-space: nowrap; }
img { max-width: 100%; background: white; border-radius: 6px; } code { font-size: .9em; }
nav ul { columns: 2; padding-left: 1.2rem; } @media (max-width: 40rem) { nav ul { columns: 1; } }
"""


def html_page(text: str, folder: Path) -> str:
    """Return Markdown as one HTML page; images of ``folder`` become part of it."""
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    body = body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    headings: list[str] = []

    def named(match: re.Match[str]) -> str:
        headings.append(match.group(1))
        return f'<h2 id="part-{len(headings)}">{match.group(1)}</h2>'

    def inside(match: re.Match[str]) -> str:
        data = base64.b64encode((folder / match.group(1)).read_bytes()).decode()
        return f'src="data:image/png;base64,{data}"'

    body = re.sub(r"<h2>(.*?)</h2>", named, body)
    body = re.sub(r'src="(images/[\w.-]+)"', inside, body)
    items = "".join(f'<li><a href="#part-{i}">{words}</a></li>' for i, words in enumerate(headings, 1))
    body = body.replace("</h1>", f"</h1><nav><ul>{items}</ul></nav>", 1)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return f'<!doctype html><html lang="en"><head>{head}<title>Reproductions</title><style>{STYLE}</style></head><body>{body}</body></html>\n'
