"""The page of models that were composed of several: what was tried, what was chosen, and what limits the result."""

from __future__ import annotations

from typing import Any

from squeak.report.shell import Panel, Tab
from squeak.report.tags import number, percent, table, tag

TRIED = (
    "Every line was fitted without the rows kept back. Its error is the root of the mean squared error there, as a "
    "part of the targets' deviation. The weight is its part in the model."
)


def choice_tab(model: Any) -> Tab | None:
    """Return the table of what an automatic learner tried, and its words on what limits the result."""
    stages = getattr(model, "search_", None)
    if stages is None:
        return None
    tab = Tab("Choice")
    lines = [
        [
            line["stage"],
            line["model"],
            f"{line['rows']:,}",
            f"{line['atoms']:,}",
            number(line["error"], 4),
            percent(line["weight"]) if line["stage"] != "search" else "",
        ]
        for line in stages
    ]
    if lines:
        tab.add(
            Panel(
                "What was tried",
                table(["stage", "model", "rows", "atoms", "error", "weight"], lines),
                TRIED,
                wide=True,
            )
        )
    for words in model.limits_:
        tab.add(Panel("What limits the result", tag("p", f"{words[0].upper()}{words[1:]}.")))
    return tab


def parts_of(model: Any) -> list[tuple[str, str]]:
    """Return the facts at the head of the page: how many parts the model has, and their atoms."""
    experts = getattr(model, "experts_", [])
    parts = [
        *getattr(model, "expansions_", []),
        *getattr(model, "everywhere_", []),
        *(p for e in experts for p in e),
    ]
    facts = [("Kernel functions", f"{sum(map(len, parts)):,}")]
    return [("Local experts", f"{len(experts):,}"), *facts] if len(experts) > 1 else facts
