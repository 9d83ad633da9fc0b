"""SQUEAK and KORS against their limit: one threaded pass that scores every row with the final dictionary.

The limit is what a sampler would cost that knew its dictionary from the start but looked at each row in full:
blocks of k(atoms, X), application of L⁻¹, column sums, by the same code that gives leverage scores. Screening
stops early for most rows, which is how a sampler can be faster than this limit.
"""

from __future__ import annotations

import numpy as np

from benchmarks.common import interleaved, ratio, save
from squeak import Kors, Squeak
from squeak.kernels import RBF

SETTINGS = {
    # about 850 final atoms each, from dense to sparse sampling
    "Squeak, oversampling 10": (Squeak, RBF(8.1), 10.0),
    "Squeak, oversampling 4": (Squeak, RBF(5.2), 4.0),
    "Kors, oversampling 5": (Kors, RBF(10.2), 5.0),
    "Kors, oversampling 2": (Kors, RBF(5.8), 2.0),
}


def run(n: int = 100_000, d: int = 8, repeats: int = 5) -> None:
    X = np.random.default_rng(0).standard_normal((n, d))
    found = {}
    print(f"{n:,} rows × {d} columns; target: at most 1.3 × the limit")
    for name, (cls, kernel, oversampling) in SETTINGS.items():
        sampler = cls(kernel=kernel, ridge=1.0, oversampling=oversampling, random_state=0)
        dictionary = sampler.fit(X).dictionary_
        seconds = interleaved(
            {"sampler": lambda s=sampler: s.fit(X), "limit": lambda d=dictionary: d.factor.residuals(X)}, repeats
        )
        found[name] = {
            "atoms": len(dictionary),
            "effective_dimension": dictionary.effective_dimension(),
            "seconds": float(np.median(seconds["sampler"])),
            "limit_seconds": float(np.median(seconds["limit"])),
            "ratio": ratio(seconds, "sampler", "limit"),
        }
        r = found[name]["ratio"]
        print(
            f"  {name:26s} {len(dictionary):5d} atoms  {found[name]['seconds']:.2f} s, limit "
            f"{found[name]['limit_seconds']:.2f} s: {r['median']:.2f} × ({r['min']:.2f} to {r['max']:.2f})"
        )
    save("limit", {"rows": n, "columns": d, "settings": found})


if __name__ == "__main__":
    run()
