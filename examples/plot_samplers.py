"""Draw the comparison of samplers on 1,500 rows of cadata, from the benchmark's own results."""

from __future__ import annotations

import json
from pathlib import Path

from squeak.report import draw_comparison

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Read the results, draw, save."""
    results = json.loads((ROOT / "benchmarks" / "results" / "samplers.json").read_text())
    table = results["tables"]["cadata"]["part"]
    draw_comparison(table, ROOT / "docs" / "images" / "samplers.png", "1,500 rows of cadata, mean of two runs")


if __name__ == "__main__":
    main()
