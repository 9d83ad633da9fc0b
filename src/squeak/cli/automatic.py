"""``squeak fit`` where everything is chosen by itself: which rows and options go that way, and the fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from squeak.cli.errors import option
from squeak.cli.pages import searched
from squeak.cli.reading import Categories, Missing, Scale

CHOSEN = {
    "length_scale",
    "alpha",
    "loss",
    "class_weight",
    "dictionary",
    "checkpoint",
    "every",
    "workers",
    "scheduler",
}
"""Options that ``--kernel auto`` has no use for."""

MOST_ROWS, MOST_BYTES = 1_000_000, 2 * 2**30
"""More rows, or more bytes of them as numbers, are learned in passes where nobody says how."""

FOR_AUTO: dict[str, Any] = {
    "scale": Scale.robust,
    "categories": Categories.auto,
    "missing": Missing.median,
    "learn_rows": MOST_ROWS,
}
"""How rows are read for ``--kernel auto`` where the command line does not say: as AutoRegressor reads a table."""


def reason_for_passes(given: set[str]) -> str | None:
    """Return words for the options that only a fit in passes has; None where there are none."""
    if not given:
        return None
    return f"{', '.join(map(option, sorted(given)))} {'is' if len(given) == 1 else 'are'} not for --kernel auto"


def too_many(source: Any) -> str | None:
    """Return words for why rows are not held in memory; None where they are. Text is read to be counted."""
    most = min(MOST_ROWS, MOST_BYTES // (8 * max(1, len(source.feature_names))))
    count = source.n_rows
    if count is None:
        count = 0
        for block in source.blocks():
            count += len(block.y)
            if count > most:
                break
    return None if count <= most else f"there are more than {most:,} rows"


def fit_auto(source: Any, learner: Any, out: Path) -> list[str]:
    """Fit AutoRegressor or AutoClassifier, as a user of Python would, and return lines about what was chosen."""
    learner.fit(source).save(out)
    skipped = f", {source.skipped_:,} skipped" if source.skipped_ else ""
    return [
        f"{type(learner).__name__}{skipped}: all settings were chosen by the error on held-out rows → {out}",
        *searched(learner),
    ]
