"""Where links of the Markdown pages lead: on a forge to files of the repository, on the site to its pages."""

from __future__ import annotations

import re

PAGES = {
    "README.md": "/index.md",
    "CHANGELOG.md": "/changelog.md",
    "CONTRIBUTING.md": "/contributing.md",
    "benchmarks/README.md": "/benchmarks.md",
    "reproduce/README.md": "/reproduction.md",
    "examples/README.rst": "/gallery/index.rst",
}


def site_target(link: str) -> str:
    """Return where a link of a page leads on the site; what has no page of its own stays as it is.

    >>> site_target("../benchmarks/README.md"), site_target("../../examples/plot_dpp.py"), site_target("rows.md")
    ('/benchmarks.md', '/gallery/plot_dpp.rst', 'rows.md')
    """
    path = re.sub(r"^(\.\./)+", "", link)
    example = re.fullmatch(r"examples/(plot_\w+)\.py", path)
    if example:
        return f"/gallery/{example[1]}.rst"
    return PAGES.get(path, link) if path != link else link


def read_for_site(text: str) -> str:
    """Return a page's text with its links led to pages of the site."""
    return re.sub(r"\]\(([^)#\s]+)", lambda link: f"]({site_target(link[1])}", text)
