"""What the figures of matplotlib share: they need no screen, and are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from squeak.core.outputs import replacing

COLOURS = (
    *("#0b6e99", "#d9730d", "#448361", "#9f6b53", "#9065b0", "#c14c8a"),
    *("#d44c47", "#cb912f", "#787774", "#337ea9", "#1f1f1f"),
)
BLUE, ORANGE, GREY = *COLOURS[:2], "#9aa5ad"


def new_figure(width: float, height: float, parts: int = 2, grid: bool = False) -> tuple[Any, list[Any]]:
    """Return an empty figure and its parts, side by side."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    found = list(figure.subplots(1, parts, squeeze=False)[0])
    for axes in found:
        axes.spines[["top", "right"]].set_visible(False)
        if grid:
            axes.grid(visible=True, which="major", color="0.92")
    return figure, found


def finished(figure: Any, path: str | os.PathLike[str] | None, title: str = "") -> Any:
    """Return a figure with its title, written to a file where one is named."""
    if title:
        figure.suptitle(title)
    if path is not None:
        save_figure(figure, path)
    return figure


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure of matplotlib in the format of the path's ending."""
    with replacing(path) as stream:
        figure.savefig(stream, dpi=150, format=Path(path).suffix.removeprefix(".") or "png")
