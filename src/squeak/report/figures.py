"""Figures as files: written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from squeak.core.storage import replacing


def save_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure of matplotlib in the format of the path's ending."""
    with replacing(path) as stream:
        figure.savefig(stream, dpi=150, format=Path(path).suffix.removeprefix(".") or "png")
