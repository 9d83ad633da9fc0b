"""The thesis' two experiments with few labels (figures 4.1 and 4.2), each in small.

The first: points of four clusters in the plane, the two upper ones of one class and the two lower ones of the other,
four labels, unweighted nearest-neighbour graphs from sparse to nearly full. Published: 12,100 points, k from 100 to
12,000; here a quarter of both. The clusters' shape is in the figure only: here four Gaussian ones above each other, those
of a class nearer to each other than to the next class, so that a graph joins them only where k is larger than a cluster. The second: spam, 75,419 mails of TREC 2007 as TF-IDF rows; here spambase, 4,601 mails × 57 word
frequencies.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from benchmarks.common import DATA

from reproduce.figures import figure
from squeak.graphs import EigenFunctions, HarmonicClassifier, NearestLabel, SubSampling, knn_graph

POINTS, SEEDS, OVERSAMPLING = 3_025, 5, 30.0
NEIGHBOURS = (25, 250, 700, 800, 1_000, 1_125, 1_250, 1_500, 2_000, 2_500, 3_000)
SPAM_NEIGHBOURS = (10, 30, 100, 300, 1_000)
FUNCTIONS = (5, 20, 50)
LABELS = (20, 100, 1_000)


def clusters(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points, classes, and labels of which four are known: two at the top, two at the bottom."""
    rng = np.random.default_rng(seed)
    heights = np.array([4.0, 1.5, -1.5, -4.0])
    sizes = np.full(4, POINTS // 4)
    sizes[0] += POINTS - sizes.sum()
    cluster = np.repeat(np.arange(4), sizes)
    X = 0.2 * rng.standard_normal((POINTS, 2))
    X[:, 1] += heights[cluster]
    classes = (cluster >= 2).astype(np.int64)
    y = np.full(POINTS, -1)
    for outer in (0, 3):
        known = rng.choice(np.flatnonzero(cluster == outer), 2, replace=False)
        y[known] = classes[known]
    return X, classes, y


def synthetic() -> list[dict[str, Any]]:
    table = []
    for k in NEIGHBOURS:
        accuracy: dict[str, list[float]] = {"stable": [], "sparse": []}
        kept, edges = [], []
        for seed in range(SEEDS):
            X, classes, y = clusters(seed)
            A = knn_graph(X, k, scaling="none")
            stable = HarmonicClassifier(alpha=4.0).fit(A, y)
            sparse = HarmonicClassifier(alpha=4.0, sparsifier=OVERSAMPLING, random_state=seed).fit(A, y)
            for name, model in (("stable", stable), ("sparse", sparse)):
                accuracy[name].append(float(np.mean(model.transduction_ == classes)))
            kept.append(len(sparse.graph_))
            edges.append(A.nnz // 2)
        entry = {"k": k, "edges": float(np.mean(edges)), "kept": float(np.mean(kept))}
        entry |= {name: [float(np.mean(a)), float(np.std(a))] for name, a in accuracy.items()}
        table.append(entry)
        print(
            f"  k = {k:>5}: STABLE {entry['stable'][0]:.3f}, SPARSE {entry['sparse'][0]:.3f} with "
            f"{entry['kept'] / entry['edges']:.1%} of the edges",
            flush=True,
        )
    return table


def spam() -> list[dict[str, Any]]:
    path = DATA / "spambase.npz"
    if not path.exists():
        print("  spambase is not at hand: set SQUEAK_DATA")
        return []
    with np.load(path) as file:
        X, classes = np.log1p(file["X"].astype(np.float64)), file["y"].astype(np.int64)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    candidates: dict[str, list[tuple[str, Any, Any]]] = {"SPARSE-HFS": [], "STABLE-HFS": [], "SubSampling": []}
    graphs = {}
    for k in SPAM_NEIGHBOURS:
        graphs[k] = A = knn_graph(X, k, scaling="global")  # one σ for all, as in the thesis
        candidates["STABLE-HFS"].append((f"k = {k}", HarmonicClassifier(), A))
        candidates["SPARSE-HFS"].append(
            (f"k = {k}", HarmonicClassifier(sparsifier=OVERSAMPLING, random_state=0), A)
        )
        if k <= 300:
            candidates["SubSampling"].append((f"k = {k}", SubSampling(920, n_neighbors=k, random_state=0), X))
    candidates["EigFun"] = [(f"q = {q}", EigenFunctions(q), X) for q in FUNCTIONS]
    candidates["1-NN"] = [("", NearestLabel(), X)]
    table = []
    for name, choices in candidates.items():
        for setting, model, rows in choices:
            for labels in LABELS:
                found, start = [], time.perf_counter()
                for seed in range(SEEDS):
                    known = np.random.default_rng(seed).choice(len(classes), labels, replace=False)
                    y = np.full(len(classes), -1)
                    y[known] = classes[known]
                    found.append(float(np.mean(model.fit(rows, y).transduction_ == classes)))
                entry = {"method": name, "setting": setting, "labels": labels}
                entry |= {"mean": float(np.mean(found)), "std": float(np.std(found))}
                entry["seconds"] = (time.perf_counter() - start) / SEEDS
                if name == "SPARSE-HFS":
                    entry["edges"] = [len(model.graph_), graphs[int(setting[4:])].nnz // 2]
                table.append(entry)
        print(f"  {name} done", flush=True)
    return table


def run() -> dict[str, Any]:
    found = {"synthetic": synthetic(), "spam": spam()}
    draw(found)
    return found


def draw(found: dict[str, Any]) -> None:
    with figure("few_labels", 2) as (left, right):
        k = [e["k"] for e in found["synthetic"]]
        for name, style in (("stable", "o-"), ("sparse", "s--")):
            mean, std = np.array([e[name] for e in found["synthetic"]]).T
            left.errorbar(k, mean, std, fmt=style, capsize=2, ms=4, label=f"{name.upper()}-HFS")
        left.set(xlabel="neighbours k", ylabel="accuracy", title="four clusters, four labels")
        left.legend()
        for labels, style in zip(LABELS, ("o-", "s-", "^-"), strict=True):
            rows = [e for e in found["spam"] if e["method"] == "SPARSE-HFS" and e["labels"] == labels]
            sizes = [int(e["setting"][4:]) for e in rows]
            right.errorbar(
                sizes,
                [e["mean"] for e in rows],
                [e["std"] for e in rows],
                fmt=style,
                capsize=2,
                ms=4,
                label=f"SPARSE-HFS, {labels:,} labels",
            )
        right.set(xscale="log", xlabel="neighbours k", ylabel="accuracy", title="spam")
        right.legend()


def page(found: dict[str, Any]) -> str:
    text = [
        "## Few labels on a graph (thesis, figures 4.1 and 4.2)",
        "",
        f"**Four clusters in the plane.** {POINTS:,} points where the thesis has 12,100, and a quarter of its neighbours; {SEEDS} draws; "
        f"oversampling {OVERSAMPLING:g}. Published (in words and a figure): both fail on sparse graphs, are best at 37% of all points as neighbours, never "
        "differ significantly, fall again on nearly full graphs, and the sparsifier's size does not depend on k: below 10% of the edges at the best k.",
        "",
        "| k | edges | STABLE-HFS | SPARSE-HFS | edges kept |",
        "|---|---|---|---|---|",
    ]
    text += [
        f"| {e['k']:,} | {e['edges']:,.0f} | {e['stable'][0]:.3f} ± {e['stable'][1]:.3f} | **{e['sparse'][0]:.3f}** ± {e['sparse'][1]:.3f} | "
        f"{e['kept']:,.0f} ({e['kept'] / e['edges']:.1%}) |"
        for e in found["synthetic"]
    ]
    gaps = [abs(e["stable"][0] - e["sparse"][0]) for e in found["synthetic"]]
    text += [
        "",
        f"The largest gap between the two is {max(gaps):.3f}.",
        "",
        "![few labels](images/few_labels.png)",
        "",
    ]
    if found["spam"]:
        text += [
            "**Spam.** TREC 2007 is not at hand; spambase, 4,601 mails × 57 columns, log(1 + x), standardised. Accuracy on all mails, "
            f"{SEEDS} draws of the labels, at the best setting for each number of labels (found on the same draws, for all methods alike); SubSampling "
            "has 20% of the mails, as in the thesis. Published in a figure only: SPARSE-HFS best at 3,000 of 75,419 neighbours, with 5% of the edges.",
            "",
            "| | " + " | ".join(f"{labels:,} labels" for labels in LABELS) + " |",
            "|---|" + "---|" * len(LABELS),
        ]
        for method in dict.fromkeys(e["method"] for e in found["spam"]):
            cells = []
            for labels in LABELS:
                rows = [e for e in found["spam"] if e["method"] == method and e["labels"] == labels]
                best = max(rows, key=lambda e: e["mean"])
                kept = f", {best['edges'][0] / best['edges'][1]:.0%} of the edges" if "edges" in best else ""
                setting = f" ({best['setting']}{kept})" if best["setting"] else ""
                cells.append(f"{best['mean']:.3f} ± {best['std']:.3f}{setting}")
            text.append(f"| {method} | " + " | ".join(cells) + " |")
        text += dense_curves(found["spam"])
    return "\n".join(text) + "\n"


def dense_curves(spam: list[dict[str, Any]]) -> list[str]:
    """Return the two methods beside each other where the graph is dense enough to be sparsified."""
    edges = {e["setting"]: e["edges"] for e in spam if "edges" in e}
    dense = [setting for setting, (kept, of) in edges.items() if kept <= 0.2 * of]
    text = [
        "",
        "**Where the graph is dense enough to be sparsified.** The same runs at those k at which at most 20% of the edges are kept: STABLE-HFS, then SPARSE-HFS.",
        "",
        "| | edges kept | " + " | ".join(f"{labels:,} labels" for labels in LABELS) + " |",
        "|---|---|" + "---|" * len(LABELS),
    ]
    for setting in dense:
        kept, of = edges[setting]
        cells = []
        for labels in LABELS:
            both = [
                next(e for e in spam if (e["method"], e["setting"], e["labels"]) == (method, setting, labels))
                for method in ("STABLE-HFS", "SPARSE-HFS")
            ]
            cells.append(" / ".join(f"{e['mean']:.3f} ± {e['std']:.3f}" for e in both))
        text.append(f"| {setting} | {kept:,} of {of:,} ({kept / of:.1%}) | " + " | ".join(cells) + " |")
    return [
        *text,
        "",
        "At k = 300, with an eighth of the edges, the curves agree within the spread of the draws, except for 1% at 100 labels. At k = 1,000, with 4% of them, SPARSE-HFS loses up to 6% "
        "(the next section finds the reason for such losses on the other graph). On these mails neither is best at such a k.",
    ]
