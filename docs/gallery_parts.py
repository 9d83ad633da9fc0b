"""What the gallery shows, and in which order.

An example's picture is the figure that it leaves in the variable ``figure``. The gallery's own scraper sees only
the figures of pyplot, which those of :mod:`squeak.report` are not.
"""

from __future__ import annotations

from typing import Any

from sphinx_gallery.scrapers import figure_rst

ORDER = [
    *("leverage", "dictionary", "accuracy", "ridge", "stream", "samplers", "disqueak", "files"),
    *(
        "tables",
        "regression",
        "alpha",
        "uncertainty",
        "classifier",
        "pca",
        "denoising",
        "kmeans",
        "random_features",
    ),
    *("online", "pros_n_kons", "sparsifier", "few_labels", "sites"),
    *("batches", "widths", "starvation", "minimize", "diverse_subsets"),
]
"""From the dictionary to what is solved with it; the pages' order."""


class TeachingOrder:
    """Sort the examples as ``ORDER`` has them; the gallery makes one for each folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> int:
        """Return the place of an example."""
        return ORDER.index(filename.removeprefix("plot_").removesuffix(".py"))


def figure_scraper(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figure the first time that it is there, and return the lines that show it."""
    figure = block_vars["example_globals"].get("figure")
    if figure is None or getattr(figure, "in_the_gallery", False):
        return ""
    figure.in_the_gallery = True
    path = next(block_vars["image_path_iterator"])
    figure.savefig(path, dpi=110)
    return str(figure_rst([path], gallery_conf["src_dir"]))
