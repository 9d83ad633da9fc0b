"""Samples of a DPP against DPPy's vfx mode on the same kernel and rows, and a million rows."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.common import save
from squeak.dpp import DPP, scale_for_size
from squeak.kernels import RBF

CASES = {"n = 5,000": (5_000, 4, 2.0, 30.0, 3), "n = 2,000": (2_000, 10, 3.0, 85.0, 1)}
"""Rows, columns, width, expected size, and how many of DPPy's samples are waited for."""

LATER = 20


def rows_of(n: int, d: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, d))


def ours(kernel: Any, X: np.ndarray) -> dict[str, Any]:
    start = time.perf_counter()
    dpp = DPP(kernel, random_state=0).fit(X)
    first = [dpp.sample()]
    first_seconds = time.perf_counter() - start
    later = []
    for _ in range(LATER):
        start = time.perf_counter()
        first.append(dpp.sample())
        later.append(time.perf_counter() - start)
    sizes = [len(s) for s in first]
    return {"first": first_seconds, "later": later, "sizes": sizes, "accepted": dpp.acceptance_rate_}


def theirs(kernel: Any, X: np.ndarray, wanted: int) -> dict[str, Any]:
    """DPPy at its defaults; the first sample includes its preprocessing."""
    from dppy.finite_dpps import FiniteDPP

    dpp = FiniteDPP("likelihood", L_eval_X_data=(kernel, X))
    seconds, sizes = [], []
    for _ in range(1 + wanted):
        start = time.perf_counter()
        dpp.sample_exact(mode="vfx", random_state=len(seconds), verbose=False)
        seconds.append(time.perf_counter() - start)
        sizes.append(len(dpp.list_of_samples[-1]))
        print(f"    DPPy: {seconds[-1]:.2f} s", flush=True)
    return {"first": seconds[0], "later": seconds[1:], "sizes": sizes}


def against_dppy() -> dict[str, Any]:
    if find_spec("dppy") is None:
        print("  dppy is not at hand: install the extra `bench`")
        return {}
    found = {}
    for name, (n, d, width, size, wanted) in CASES.items():
        X = rows_of(n, d)
        kernel = scale_for_size(X, RBF(width), size, random_state=0) * RBF(width)
        ours(kernel, X)  # warm up: pages, threads, imports
        us, them = ours(kernel, X), theirs(kernel, X, wanted)
        ratios = {
            "first": them["first"] / us["first"],
            "later": float(np.median(them["later"]) / np.median(us["later"])),
        }
        found[name] = {"rows": n, "columns": d, "size": size, "squeak": us, "dppy": them, "ratios": ratios}
        print(
            f"  {name}, |S| about {size:.0f}: first sample {us['first']:.2f} s against {them['first']:.2f} s "
            f"({ratios['first']:.0f} times), later {np.median(us['later']) * 1e3:.0f} ms against "
            f"{np.median(them['later']) * 1e3:.0f} ms ({ratios['later']:.0f} times)",
            flush=True,
        )
    return found


def million(n: int = 1_000_000, d: int = 20, size: float = 30.0) -> dict[str, Any]:
    """Preprocessing and later samples, in the default form and in the form that reads each row once."""
    X = rows_of(n, d) * np.geomspace(1.0, 0.1, d)
    found: dict[str, Any] = {"rows": n, "columns": d, "size": size}
    kernel = None
    for name, weighted in (("default", False), ("one pass", True)):
        if kernel is None:
            kernel = scale_for_size(X, RBF(2.5), size, random_state=0) * RBF(2.5)
        start = time.perf_counter()
        dpp = DPP(kernel, weighted=weighted, random_state=0).fit(X)
        fit = time.perf_counter() - start
        later, sizes = [], []
        for _ in range(LATER):
            start = time.perf_counter()
            sizes.append(len(dpp.sample()))
            later.append(time.perf_counter() - start)
        found[name] = {
            "fit": fit,
            "later": later,
            "sizes": sizes,
            "atoms": len(dpp.dictionary_),
            "accepted": dpp.acceptance_rate_,
            "part": float(np.median(later)) / fit,
        }
        print(
            f"  {n:,} rows × {d}, {name}: preprocessing {fit:.1f} s ({len(dpp.dictionary_)} atoms), later samples "
            f"{np.median(later) * 1e3:.0f} ms = 1/{fit / np.median(later):.0f} of it; "
            f"mean size {np.mean(sizes):.1f}",
            flush=True,
        )
    return found


def run() -> None:
    save("dpp", {"against_dppy": against_dppy(), "million": million()})
