"""Samplers side by side: pivoted Cholesky against its flops, BLESS as rows grow, and one table on real rows."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from benchmarks.common import DATA, interleaved, ratio, real_rows, save
from squeak.core import engine
from squeak.core.rows import check_rows
from squeak.kernels import RBF
from squeak.samplers import Bless, BlessR, RPCholesky, compare

SETS = {"cadata": (None, None), "kin40k": (None, None), "susy_30k": (None, None), "covtype": (50_000, None)}
SETS |= {"mnist": (10_000, None)}
OVERSAMPLING, PART = 10.0, 1_500


def pivots(n: int = 100_000, k: int = 1_000) -> dict[str, Any]:
    """RPCholesky against n·k² flops at the speed of syrk, both on all cores, in turn."""
    X = np.random.default_rng(0).standard_normal((n, 8))
    A = np.asfortranarray(np.random.default_rng(1).standard_normal((n // 5, k)))
    candidates = {
        "RPCholesky": lambda: RPCholesky(RBF(2.0), k, random_state=0).fit(X),
        "syrk": lambda: dsyrk(1.0, A, trans=1),
    }
    seconds = interleaved(candidates, 3)
    seconds["floor"] = [5 * value for value in seconds["syrk"]]  # n/5 rows were multiplied
    found = ratio(seconds, "RPCholesky", "floor")
    rate = n // 5 * k * k / float(np.median(seconds["syrk"])) / 1e9
    print(
        f"  RPCholesky, n = {n:,}, k = {k:,}: {np.median(seconds['RPCholesky']):.1f} s, {found['median']:.2f} times its flops "
        f"({found['min']:.2f} to {found['max']:.2f}) at syrk's {rate:.0f} Gflop/s; target 3"
    )
    return {
        "rows": n,
        "atoms": k,
        "seconds": float(np.median(seconds["RPCholesky"])),
        "ratio": found,
        "gflops": rate,
    }


def growth(sizes: tuple[int, int] = (10_000, 1_000_000), lam: float = 1e-3) -> dict[str, Any]:
    """BLESS at a fixed λ = ridge/n, with and without the one look at every row that checks it for NaN."""
    found: dict[str, Any] = {"lam": lam, "sizes": list(sizes)}
    rows = {n: np.random.default_rng(0).standard_normal((n, 18)) for n in sizes}
    for name, make in (("Bless", Bless), ("BlessR", BlessR)):
        candidates = {
            f"{name} {n}": lambda n=n, make=make: make(RBF(4.0), lam * n, 4.0, random_state=0).fit(rows[n])
            for n in sizes
        }
        candidates |= {f"check {n}": lambda n=n: check_rows(rows[n], RBF(4.0)) for n in sizes}
        seconds = interleaved(candidates, 7)
        small, large = (np.array(seconds[f"{name} {n}"]) - np.array(seconds[f"check {n}"]) for n in sizes)
        each = large / small
        found[name] = {
            "seconds": [float(np.median(seconds[f"{name} {n}"])) for n in sizes],
            "check_seconds": [float(np.median(seconds[f"check {n}"])) for n in sizes],
            "ratio": {"median": float(np.median(each)), "min": float(each.min()), "max": float(each.max())},
        }
        print(
            f"  {name} at λ = {lam:g}: {found[name]['seconds'][0]:.3f} s at {sizes[0]:,} rows, {found[name]['seconds'][1]:.3f} s at "
            f"{sizes[1]:,}; without the check of the rows {np.median(each):.2f} times ({each.min():.2f} to {each.max():.2f}); target 2"
        )
    return found


def rows_of(name: str) -> np.ndarray | None:
    if name == "mnist":
        path = DATA / "mnist.npz"
        if not path.exists():
            return None
        with np.load(path) as file:
            return file["X"].reshape(len(file["X"]), -1)[:10_000] / 255.0
    return real_rows(name)


def tables() -> dict[str, Any]:
    """All samplers on every data set: costs and brackets on all rows, exact measures on 1,500 of them."""
    found = {}
    for name, (limit, _) in SETS.items():
        X = rows_of(name)
        if X is None:
            print(f"  {name} is not at hand: set SQUEAK_DATA")
            continue
        X = X[np.random.default_rng(0).permutation(len(X))[:limit]]
        start = time.perf_counter()
        kernel = RBF("median").resolve(X[:2_000])
        whole = compare(X, kernel, oversampling=OVERSAMPLING, repeats=2, random_state=0)
        part = compare(X[:PART], kernel, oversampling=[5.0, OVERSAMPLING, 20.0], repeats=2, random_state=0)
        found[name] = {
            "rows": len(X),
            "columns": int(X.shape[1]),
            "length_scale": float(kernel.length_scale),
            "whole": whole.to_dict("records"),
            "part": part.to_dict("records"),
        }
        best = part[part["oversampling"] == OVERSAMPLING].set_index("sampler")["accuracy_high"]
        print(
            f"  {name}: {len(X):,} × {X.shape[1]} in {time.perf_counter() - start:.0f} s; on 1,500 rows ε̂ uniform "
            f"{best['Uniform']:.2f}, Squeak {best['Squeak']:.2f}, exact scores {best['ExactRLS']:.2f}",
            flush=True,
        )
    return found


def run() -> None:
    result = {"pivots": pivots(), "growth": growth()}
    with engine.single_blas():
        result["tables"] = tables()
    save("samplers", result)
