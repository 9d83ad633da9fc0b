"""Run the reproductions: ``python -m reproduce [name ...]``; results go to reproduce/results, README.md and index.html."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from reproduce import (
    bless_accuracy,
    disre,
    falkon_alternatives,
    falkon_bless,
    few_labels,
    random_features,
    regret_curves,
    settings,
    sparse_gap,
    starvation,
    table_3_1,
    table_5_1,
    table_5_2,
)
from reproduce.page import html_page

HERE = Path(__file__).parent
ALL = {"table_3_1": table_3_1, "bless_accuracy": bless_accuracy, "falkon_bless": falkon_bless}
ALL |= {
    "table_5_1": table_5_1,
    "table_5_2": table_5_2,
    "settings": settings,
    "disre": disre,
    "few_labels": few_labels,
}
ALL |= {"sparse_gap": sparse_gap, "random_features": random_features, "falkon_alternatives": falkon_alternatives}
ALL |= {"starvation": starvation, "regret_curves": regret_curves}
HEAD = """# Reproductions

What the papers report beside what squeak measures, by `make reproduce` (more than an hour on two cores; one of them:
`.venv/bin/python -m reproduce table_3_1`). Real data sets are looked for in `SQUEAK_DATA` and left out where absent. Two cores of a
shared machine. This page and `index.html` are written from `results/*.json`.
"""


def main() -> None:
    for name in sys.argv[1:] or ALL:
        if name not in ALL:
            sys.exit(f"no reproduction is called {name!r}; there are {', '.join(ALL)}")
        print(f"── {name}", flush=True)
        found = ALL[name].run()
        if found:
            (HERE / "results" / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    write_page()


def write_page() -> None:
    """Write README.md from the results that are there."""
    pages = [HEAD]
    for name, module in ALL.items():
        path = HERE / "results" / f"{name}.json"
        if path.exists():
            pages.append(module.page(json.loads(path.read_text())))
    text = "\n\n".join(page.strip() for page in pages if page) + "\n"
    (HERE / "README.md").write_text(text)
    (HERE / "index.html").write_text(html_page(text, HERE))


if __name__ == "__main__":
    main()
