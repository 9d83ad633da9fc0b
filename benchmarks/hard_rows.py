"""How far FALKON on float32 values ends above the least objective, on rows that are hard for it.

    python -m benchmarks.hard_rows

The rows, and the dense solution in float64 beside them, are those of ``tests/learners/test_kept.py``:
3,000 rows, 120 atoms, ``solver="kept"``, and nine values of alpha from 1e-8·n to n. For each kind of rows the table
says how many fits stayed in float32, the largest gap of these as a part of the objective, and how many were solved
in float64. The table of ``docs/learners.md`` is this one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.learners.test_kept import HOSTILE, M, N, gap, kept, rows_and_targets

from squeak.kernels import RBF


def cases() -> dict[str, list[tuple[Any, Any, float, Any]]]:
    """Return rows, targets, width and weights by what is hard about them."""
    X, y = rows_and_targets()
    weights = 10.0 ** np.random.default_rng(2).uniform(-3, 3, N)

    def changed(name: str) -> tuple[Any, Any, float, Any]:
        rows, width = HOSTILE[name](X)
        wave = np.sin(2 * (rows[:, 0] - rows[:, 0].mean()) / width)
        return rows, wave + 0.2 * np.random.default_rng(1).standard_normal(N), width, None

    return {
        "RBF of width 0.3 (atoms hardly overlap)": [(X, y, 0.3, None)],
        "RBF of width 1": [(X, y, 1.0, None)],
        "RBF of width 4 (K_MM is nearly singular)": [(X, y, 4.0, None)],
        "RBF of width 30 (K_MM has the numerical rank 35)": [(X, y, 30.0, None)],
        "columns with an offset of 10⁶": [changed("offset")],
        "every centre three times": [changed("repeated")],
        "atoms far from the rows; rows far from the atoms": [changed("far atoms"), changed("outliers")],
        "weights over six orders of magnitude": [(X, y, 1.0, weights)],
    }


def main() -> None:
    """Print the table."""
    print("| rows | solved in float32 | worst gap of these | solved in float64, and `solver_reason_` says so |")
    print("|---|---|---|---|")
    for name, some in cases().items():
        single, gaps = 0, [0.0]
        for X, y, width, weights in some:
            for power in range(-8, 1):
                model = kept(kernel=RBF(width), alpha=10.0**power * N, dictionary=X[:M]).fit(X, y, weights)
                if model.solver_ == "kept":
                    single, gaps = single + 1, [*gaps, float(gap(model, X, y, weights))]
        fits = 9 * len(some)
        print(f"| {name} | {single} of {fits} | {max(gaps):.0e} | {fits - single} |", flush=True)


if __name__ == "__main__":
    main()
