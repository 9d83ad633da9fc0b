"""Figures of what was learned; needs matplotlib (the extra ``report``)."""

from squeak.report.comparison import draw_comparison

__all__ = ["draw_comparison"]
