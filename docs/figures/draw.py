"""Draw the pictures that README and pages show: ``make figures``, or ``python docs/figures/draw.py NAME …``.

``docs/images/NAME.png`` is the figure that ``examples/plot_NAME.py`` leaves. Those that take longer, real data or
the benchmarks' results have a script beside this one; ``bench_….png`` are drawn by ``make bench``.
"""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"


def pages() -> list[Path]:
    """Return README and the Markdown pages of docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("howto/*.md"))]


def shown() -> list[str]:
    """Return the names of the pictures that pages show."""
    return sorted(
        {name for page in pages() for name in re.findall(r"images/(?!bench_)(\w+)\.png", page.read_text())}
    )


def script_of(name: str) -> Path:
    """Return the script that draws a picture."""
    own = ROOT / "docs" / "figures" / f"{name}.py"
    return own if own.exists() else ROOT / "examples" / f"plot_{name}.py"


def draw(name: str) -> None:
    """Run the picture's script and save its figure."""
    figure = runpy.run_path(str(script_of(name)), run_name="__main__")["figure"]
    figure.savefig(IMAGES / f"{name}.png", dpi=110)
    plt.close("all")


if __name__ == "__main__":
    mpl.use("Agg")
    for picture in sys.argv[1:] or shown():
        print(picture, flush=True)
        draw(picture)
