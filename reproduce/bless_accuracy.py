"""BLESS's table of leverage-score accuracy, on the 30,000 rows of SUSY that are at hand.

Published: 70,000 rows, σ = 4, λ = 1e-5, M = 10,000 columns, 10 repetitions. Here: 30,000 rows, so ridge = λ·n is 0.3 in
place of 0.7; oversampling 4, which gives about as many columns; 2 repetitions. The exact scores need the whole kernel
matrix: 7.2 GB and some ten minutes.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from benchmarks.common import real_rows
from scipy.linalg import cholesky, solve_triangular

from squeak.core import engine
from squeak.core.kernels import block
from squeak.kernels import RBF
from squeak.samplers import Bless, BlessR, Recursive, Squeak, Uniform

SIGMA, LAMBDA, REPEATS, OVERSAMPLING = 4.0, 1e-5, 2, 4.0
PUBLISHED = {  # seconds, mean, 5%, 95%
    "BLESS": (17, 1.06, 0.57, 2.03),
    "BLESS-R": (17, 1.06, 0.73, 1.50),
    "SQUEAK": (52, 1.06, 0.70, 1.48),
    "Uniform": (None, 1.09, 0.22, 3.75),
    "RRLS": (235, 1.59, 1.00, 2.70),
}


BLOCK = 1_500


def exact_scores(X: np.ndarray, kernel: Any, ridge: float) -> np.ndarray:
    """Return 1 − ridge·[(K + ridge·I)⁻¹]_ii from one factor, in the memory of one n × n matrix.

    Both the factor and its inverse go block by block: LAPACK's own routines for the whole of so large a matrix end in a
    segmentation fault here.
    """
    n = len(X)
    blocks = engine.tiles(n, BLOCK)
    L = np.zeros((n, n))
    for part in blocks:
        L[part, : part.stop] = block(kernel, X[part], X[: part.stop])
    L[np.diag_indices(n)] = 1.0 + ridge
    for part in blocks:  # left-looking: all that is left of this block row is known
        for before in blocks[: blocks.index(part)]:
            L[part, before] -= L[part, : before.start] @ L[before, : before.start].T
            L[part, before] = solve_triangular(L[before, before], L[part, before].T, lower=True).T
        L[part, part] -= L[part, : part.start] @ L[part, : part.start].T
        L[part, part] = cholesky(L[part, part], lower=True)
    squares = np.zeros(n)
    for part in blocks:  # columns of L⁻¹, a block of them at a time
        columns = np.zeros((n - part.start, part.stop - part.start))
        for below in blocks[blocks.index(part) :]:
            right = np.eye(part.stop - part.start) if below == part else 0.0
            known = slice(0, below.start - part.start)
            right = right - L[below, part.start : below.start] @ columns[known]
            here = slice(below.start - part.start, below.stop - part.start)
            columns[here] = solve_triangular(L[below, below], right, lower=True)
        squares[part] = np.einsum("ij,ij->j", columns, columns)
    return 1.0 - ridge * squares


def run(rows: int | None = None) -> dict[str, Any]:
    X = real_rows("susy_30k")
    if X is None:
        print("  susy_30k is not at hand: set SQUEAK_DATA")
        return {}
    X = X[:rows]
    kernel, ridge = RBF(SIGMA), LAMBDA * len(X)
    start = time.perf_counter()
    exact = exact_scores(X, kernel, ridge)
    seconds = time.perf_counter() - start
    d_eff = float(exact.sum())
    print(f"  exact scores in {seconds:.0f} s: effective dimension {d_eff:.0f}", flush=True)
    size = round(OVERSAMPLING * d_eff)
    makers = {
        "BLESS": lambda seed: Bless(kernel, ridge, oversampling=OVERSAMPLING, random_state=seed),
        "BLESS-R": lambda seed: BlessR(kernel, ridge, oversampling=OVERSAMPLING, random_state=seed),
        "SQUEAK": lambda seed: Squeak(kernel, ridge, oversampling=OVERSAMPLING, random_state=seed),
        "Uniform": lambda seed: Uniform(kernel, size, ridge=ridge, random_state=seed),
        "RRLS": lambda seed: Recursive(kernel, ridge, oversampling=OVERSAMPLING, random_state=seed),
    }
    table = {}
    for name, make in makers.items():
        runs = []
        for seed in range(REPEATS):
            start = time.perf_counter()
            d = make(seed).fit(X).dictionary_
            took = time.perf_counter() - start
            ratios = d.leverage_scores(X) / exact
            runs.append([took, len(d), ratios.mean(), *np.quantile(ratios, [0.05, 0.95])])
        mean = np.mean(runs, axis=0).tolist()
        table[name] = dict(zip(("seconds", "atoms", "mean", "5%", "95%"), mean, strict=True))
        print(
            f"  {name:<8} {mean[0]:6.1f} s {mean[1]:7.0f} atoms  {mean[2]:.2f} ({mean[3]:.2f} to {mean[4]:.2f})",
            flush=True,
        )
    return {"rows": len(X), "ridge": ridge, "columns_asked": size, "effective_dimension": d_eff, "table": table}


def page(found: dict[str, Any]) -> str:
    if not found:
        return ""
    text = [
        "## Accuracy of leverage scores (BLESS, table in section 5.4 of Carratino's thesis)",
        "",
        f"SUSY, {found['rows']:,} rows where the thesis has 70,000, columns standardised, σ = {SIGMA:g}, λ = {LAMBDA:g} (ridge "
        f"{found['ridge']:g}). Oversampling {OVERSAMPLING:g} at effective dimension {found['effective_dimension']:.0f}; uniform rows are "
        f"{found['columns_asked']:,}; the thesis has 10,000 columns for all. Ratios τ̃/τ over all rows, mean of {REPEATS} runs (the "
        "thesis: 10). The machines differ: compare seconds within a column only.",
        "",
        "| sampler | published: s | mean | 5% | 95% | here: s | atoms | mean | 5% | 95% |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, (seconds, *ratios) in PUBLISHED.items():
        row = found["table"][name]
        ours = f"{row['seconds']:.1f} | {row['atoms']:.0f} | {row['mean']:.2f} | {row['5%']:.2f} | {row['95%']:.2f}"
        theirs = " | ".join(f"{ratio:.2f}" for ratio in ratios)
        text.append(f"| {name} | {'–' if seconds is None else seconds} | {theirs} | {ours} |")
    return "\n".join(text)
