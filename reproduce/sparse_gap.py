"""Why SPARSE-HFS falls below STABLE-HFS on nearly full graphs: the oversampling, the draw or the solver.

The graph is that of figure 4.1 in small (3,025 points in four clusters) at the k where the two differ most. The same
graph is sparsified at three oversamplings with several draws each, and the harmonic function of one sparsifier is
also computed by a dense elimination, which no conditioning and no tolerance can disturb.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reproduce.few_labels import clusters
from squeak.graphs import HarmonicClassifier, knn_graph

NEIGHBOURS, OVERSAMPLINGS, GRAPHS, DRAWS = (1_500, 2_500), (30.0, 100.0, 300.0), 2, 2


def signed(model: Any) -> np.ndarray:
    """Return the score of class 1 less that of class 0."""
    return np.asarray(model.scores_[:, 1] - model.scores_[:, 0])


def by_elimination(model: Any, y: np.ndarray, alpha: float) -> np.ndarray:
    """Return the centred solution on the model's own graph, from a dense factor."""
    A = model.graph_.adjacency().toarray()
    known = y != -1
    Q = alpha * (np.diag(A.sum(axis=1)) - A) + np.diag(known.astype(float))
    values = np.where(known, 2.0 * (y == 1) - 1.0, 0.0)
    values[known] -= values[known].mean()
    u, v = np.linalg.solve(Q, np.column_stack([values, np.ones(len(y))])).T
    return np.asarray(u - v * u.sum() / v.sum())


def run() -> dict[str, Any]:
    found: dict[str, Any] = {"rows": []}
    for k in NEIGHBOURS:
        per: dict[float, list[dict[str, float]]] = {over: [] for over in OVERSAMPLINGS}
        exact = []
        for seed in range(GRAPHS):
            X, classes, y = clusters(seed)
            A = knn_graph(X, k, scaling="none")
            stable = HarmonicClassifier(alpha=4.0).fit(A, y)
            f = signed(stable)
            exact.append(float(np.mean(stable.transduction_ == classes)))
            for over in OVERSAMPLINGS:
                for draw in range(DRAWS):
                    sparse = HarmonicClassifier(alpha=4.0, sparsifier=over, random_state=draw).fit(A, y)
                    g = signed(sparse)
                    off = float(np.sqrt(np.mean((g - f) ** 2)))
                    entry = {
                        "accuracy": float(np.mean(sparse.transduction_ == classes)),
                        "kept": len(sparse.graph_) / (A.nnz // 2),
                        "off": off / float(np.median(np.abs(f))),
                    }
                    if seed == draw == 0:
                        h = by_elimination(sparse, y, 4.0)
                        entry["solver"] = float(np.abs(h - g).max() / np.abs(h).max())
                    per[over].append(entry)
                    print(f"  k = {k}, oversampling {over:g}: {entry}", flush=True)
        for over, entries in per.items():
            row: dict[str, Any] = {"k": k, "oversampling": over, "stable": float(np.mean(exact))}
            row |= {name: float(np.mean([e[name] for e in entries])) for name in ("accuracy", "kept", "off")}
            row["solver"] = max(e["solver"] for e in entries if "solver" in e)
            found["rows"].append(row)
    return found


def page(found: dict[str, Any]) -> str:
    text = [
        "## Why SPARSE-HFS falls behind on nearly full graphs",
        "",
        f"The graphs of the four clusters above where the two methods agree (k = 1,500) and where they differ most (k = 2,500); {GRAPHS} graphs, {DRAWS} draws of each "
        "sparsifier. The error of f is the root mean square of its change by sparsifying, in units of the median |f| of STABLE-HFS, whose sign is the class. The "
        "last column is the largest difference between our solver and a dense elimination on the same sparsifier.",
        "",
        "| k | oversampling | edges kept | STABLE-HFS | SPARSE-HFS | error of f | solver |",
        "|---|---|---|---|---|---|---|",
    ]
    text += [
        f"| {e['k']:,} | {e['oversampling']:g} | {e['kept']:.1%} | {e['stable']:.3f} | {e['accuracy']:.3f} | {e['off']:.2f} | {e['solver']:.0e} |"
        for e in found["rows"]
    ]
    low = [e for e in found["rows"] if e["k"] == NEIGHBOURS[-1]]
    text += [
        "",
        f"It is the oversampling, together with a function that has hardly any margin. On the nearly full graph most of f is within a few percent of zero, so that STABLE-HFS itself is right for "
        f"{low[0]['stable']:.0%} of the points only, and a sparsifier's error is larger than f: {low[0]['off']:.1f} times the median |f| at oversampling {low[0]['oversampling']:g}, "
        f"{low[-1]['off']:.1f} times at {low[-1]['oversampling']:g}. The accuracy rises with the oversampling from {low[0]['accuracy']:.3f} to {low[-1]['accuracy']:.3f}, towards that of the full graph. "
        "Draws differ by much less than the gap, and the solver is exact to many digits: neither the draw nor conditioning is the reason. Where the graph has a margin, nothing is lost with 4% of the edges.",
    ]
    return "\n".join(text) + "\n"
