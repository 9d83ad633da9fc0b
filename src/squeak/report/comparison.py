"""One figure of many samplers: accuracy against size."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from squeak.report.figures import COLOURS, finished, new_figure

MARKERS = "os^vDPX<>*h"


def draw_comparison(table: Any, path: str | os.PathLike[str] | None = None, title: str = "") -> Any:
    """Draw the table of :func:`squeak.samplers.compare`: ε̂ and trace error against atoms, a curve a sampler.

    Parameters
    ----------
    table : DataFrame or list of dict
    path : path, optional
        Where to save the figure; its ending decides the format.
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.kernels import RBF
    >>> from squeak.report import draw_comparison
    >>> from squeak.samplers import Squeak, Uniform, compare
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> table = compare(X, RBF(1.0), 1.0, samplers=[Squeak(), Uniform()], repeats=1, random_state=0)
    >>> len(draw_comparison(table).axes)
    2
    """
    records = table.to_dict("records") if hasattr(table, "to_dict") else list(table)
    figure, parts = new_figure(10, 4.5, grid=True)
    measures = (("accuracy_high", "ε̂ = ‖P − P̃‖ (guarantees hold below 1)"), ("trace_error", "Tr(K − K̃) / Tr K"))
    for axes, (measure, label) in zip(parts, measures, strict=True):
        for number, name in enumerate(dict.fromkeys(record["sampler"] for record in records)):
            points = sorted((r["atoms"], r[measure]) for r in records if r["sampler"] == name)
            shown = [(atoms, value) for atoms, value in points if np.isfinite(value) and value > 1e-15]
            if shown:
                style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
                axes.plot(*zip(*shown, strict=True), label=name, markersize=5, linewidth=1.2, **style)
        axes.set(xscale="log", yscale="log", xlabel="atoms", title=label)
    parts[1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return finished(figure, path, title)
