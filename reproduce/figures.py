"""Figures of the reproductions: one function, one look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).parent / "images"


@contextmanager
def figure(name: str, columns: int, *, height: float = 3.4, share: bool = False) -> Iterator[Any]:
    """Give ``columns`` axes in a row; the figure is saved as images/NAME.png at the end."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn, axes = plt.subplots(1, columns, figsize=(4.6 * columns, height), sharey=share)
    yield axes
    drawn.tight_layout()
    IMAGES.mkdir(exist_ok=True)
    drawn.savefig(IMAGES / f"{name}.png", dpi=110)
    plt.close(drawn)
