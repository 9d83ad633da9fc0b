"""The HTML report (:func:`write`), and figures of what was learned (matplotlib, the extra ``report``)."""

from squeak.report.comparison import draw_comparison
from squeak.report.graph import draw_sparsifier
from squeak.report.progress import draw_progress
from squeak.report.tree import draw_tree
from squeak.report.write import write

__all__ = ["draw_comparison", "draw_progress", "draw_sparsifier", "draw_tree", "write"]
