"""Show each example's picture in the gallery: the figure that it leaves in the variable ``figure``.

The gallery's own scraper sees only the figures of pyplot; those of :mod:`squeak.report` are none.
"""

from __future__ import annotations

from typing import Any

from sphinx_gallery.scrapers import figure_rst


def figure_scraper(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figure the first time that it is there, and return the lines that show it."""
    figure = block_vars["example_globals"].get("figure")
    if figure is None or getattr(figure, "in_the_gallery", False):
        return ""
    figure.in_the_gallery = True
    path = next(block_vars["image_path_iterator"])
    figure.savefig(path, dpi=110)
    return str(figure_rst([path], gallery_conf["src_dir"]))
