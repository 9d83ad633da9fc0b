"""Whether a target is numbers or classes: as the user says, or as its first values look."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import numpy as np
import typer

from squeak.cli.errors import echo
from squeak.core.checks import refuse_mixed


class Task(StrEnum):
    """What is learned."""

    auto = "auto"
    regression = "regression"
    classification = "classification"


TaskChoice = Annotated[
    Task,
    typer.Option(help="With auto, a target of text, truth values or a few whole numbers is learned as classes."),
]
Target = Annotated[str, typer.Option(help="The column to predict.", show_default=False)]

MOST_CODES = 12
"""Up to so many different whole numbers are taken for classes, …"""

ROWS_OF_A_CODE = 10
"""… where there are so many rows for each."""


def is_classification(task: Task, source: Any, quiet: bool) -> bool:
    """Tell whether the target is classes, and say so where nobody did."""
    if task is not Task.auto:
        return task is Task.classification
    for block in source.blocks():
        return holds_classes(block.y, quiet)
    raise ValueError("there are no rows")


def holds_classes(y: Any, quiet: bool) -> bool:
    """Tell whether the first targets look like classes: text, truth values, or few whole numbers; and say so."""
    refuse_mixed(y)
    values, kind = np.unique(y), y.dtype.kind
    few = len(values) <= min(MOST_CODES, len(y) // ROWS_OF_A_CODE)
    if kind not in "OUSb" and not (few and np.array_equal(values, np.round(values))):
        return False
    if not quiet:
        other = "" if kind in "OUS" else "; --task regression predicts numbers"
        echo(f"the target has {len(values):,} different values, learned as classes{other}", err=True)
    return True
