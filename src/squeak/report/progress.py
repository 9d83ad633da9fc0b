"""One figure of online learners: progressive loss and atoms against rows."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from squeak.report.figures import COLOURS, finished, new_figure


def draw_progress(runs: Any, path: str | os.PathLike[str] | None = None, title: str = "") -> Any:
    """Draw what :func:`squeak.online.progressive_validation` found: loss of the last rows, and atoms, against rows.

    Parameters
    ----------
    runs : Progress, or dict of name to Progress
    path : path, optional
        Where to save the figure; its ending decides the format.
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.online import ConKonsRegressor, progressive_validation
    >>> from squeak.report import draw_progress
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> progress = progressive_validation(ConKonsRegressor(random_state=0), X, np.sin(X[:, 0]))
    >>> len(draw_progress(progress).axes)
    2
    """
    named = runs if isinstance(runs, dict) else {"": runs}
    figure, (left, right) = new_figure(10, 4, grid=True)
    for number, (name, run) in enumerate(named.items()):
        style = {"color": COLOURS[number % len(COLOURS)], "linewidth": 1.3, "label": f"{name} {run.mean_loss:.4g}"}
        window = max(1, len(run.losses) // 20)
        sums = np.concatenate([[0.0], np.cumsum(run.losses)])
        ends = np.unique(np.append(run.rows[run.rows >= window], len(run.losses)))
        left.plot(ends, (sums[ends] - sums[ends - window]) / window, **style)
        right.plot(run.rows, run.atoms, **style)
    words = "mean loss of the last twentieth, each row predicted before it is learned"
    left.set(xlabel="rows", yscale="log", title=words)
    left.title.set_fontsize(10)
    right.set(xlabel="rows", title="atoms")
    left.legend(frameon=False, fontsize=8, title="mean loss in all", title_fontsize=8)
    return finished(figure, path, title)
