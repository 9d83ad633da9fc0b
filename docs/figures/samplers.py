"""Draw the comparison of samplers on 1,500 rows of cadata, from the benchmark's own results."""

from __future__ import annotations

import json
from pathlib import Path

from squeak.report import draw_comparison

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "samplers.json"
table = json.loads(RESULTS.read_text())["tables"]["cadata"]["part"]
figure = draw_comparison(table, title="1,500 rows of cadata, mean of two runs")
