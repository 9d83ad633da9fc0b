"""The HTML report (:func:`write`, :func:`write_comparison`), and figures (matplotlib, the extra ``report``)."""

from squeak.report.comparing import write_comparison
from squeak.report.dependence import Dependence, partial_dependence
from squeak.report.figures import draw_comparison, draw_progress, draw_sparsifier, draw_tree
from squeak.report.importance import Importance, permutation_importance, relevance
from squeak.report.writing import write

__all__ = [
    "Dependence",
    "Importance",
    "draw_comparison",
    "draw_progress",
    "draw_sparsifier",
    "draw_tree",
    "partial_dependence",
    "permutation_importance",
    "relevance",
    "write",
    "write_comparison",
]
