"""Graphs: leverage against networkit, sparsifiers' accuracy and cost, what they save, labels, edges from a file.

One thread everywhere. Times are seconds of the processor, medians of interleaved rounds, for the machine is shared.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.common import DATA, save
from benchmarks.graph_files import stream, workers

SEEDS = 5


def load(name: str) -> Any:
    from squeak.graphs.edges import check_edges

    with np.load(DATA / f"{name}.npz") as file:
        edges = file["edges"]
        return check_edges(edges[:, 0], edges[:, 1], None, int(file["n_nodes"]))


def labels(name: str) -> Any:
    with np.load(DATA / f"{name}.npz") as file:
        return file["y"]


def walk(name: str) -> Any:
    """Return the graph of four-step random walks: D·P⁴ without its diagonal, all pairs that four steps join."""
    from squeak.graphs.edges import check_edges

    graph = load(name)
    A = graph.adjacency()
    D = sp.diags(1.0 / np.maximum(graph.degrees(), 1.0))
    two = (A @ D @ A).tocsr()
    upper = sp.triu(two @ D @ two, k=1).tocoo()
    return check_edges(upper.row, upper.col, upper.data, graph.n_nodes)


def cpu(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    found = run()
    return time.process_time() - start, found


def rounds(candidates: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, Any]:
    """Return medians of processor seconds, and the ratio of the first to each other, in interleaved rounds."""
    for run in candidates.values():
        run()
    seconds = {name: np.array([]) for name in candidates}
    for _ in range(repeats):
        for name, run in candidates.items():
            seconds[name] = np.append(seconds[name], cpu(run)[0])
    first = next(iter(candidates))
    return {
        "seconds": {name: float(np.median(each)) for name, each in seconds.items()},
        "ratio": {
            name: {
                "median": float(np.median(each / seconds[first])),
                "min": float((each / seconds[first]).min()),
                "max": float((each / seconds[first]).max()),
            }
            for name, each in seconds.items()
            if name != first
        },
    }


def leverage() -> dict[str, Any]:
    """Edge leverage beside networkit's ApproxSpanningEdge(0.3)."""
    import networkit as nk

    from squeak.graphs import edge_leverage

    nk.setNumberOfThreads(1)
    found = {}
    for name in ("ego_facebook", "ego_twitter"):
        edges = load(name)
        G = nk.Graph(edges.n_nodes)
        G.addEdges((edges.u.astype(np.uint64), edges.v.astype(np.uint64)))
        G.indexEdges()

        def peer(G: Any = G) -> Any:
            approximation = nk.centrality.ApproxSpanningEdge(G, 0.3)
            approximation.run()
            return approximation

        def ours(name: str = name) -> Any:
            return edge_leverage(load_again(name), random_state=0)

        timed = rounds({"squeak": ours, "networkit": peer}, 5)
        reference = (
            edge_leverage(edges, "factor")
            if name == "ego_facebook"
            else edge_leverage(edges, "projections", n_projections=96, tol=1e-4, random_state=9)
        )
        theirs = np.zeros(len(edges))
        scores = np.array(peer().scores())
        ids = {}
        for u, v, number in zip(*edges_of(G), strict=True):
            ids[(min(u, v), max(u, v))] = number
        for place, pair in enumerate(zip(edges.u.tolist(), edges.v.tolist(), strict=True)):
            theirs[place] = scores[ids[pair]]
        found[name] = timed | {
            "nodes": edges.n_nodes,
            "edges": len(edges),
            "errors": {"squeak": errors(ours(), reference), "networkit": errors(theirs, reference)},
        }
        r = timed["ratio"]["networkit"]
        print(
            f"  {name}: networkit/squeak {r['median']:.2f} ({r['min']:.2f} to {r['max']:.2f}), {found[name]['errors']}",
            flush=True,
        )
    return found


def load_again(name: str, known: dict[str, Any] = {}) -> Any:  # noqa: B006
    """Return a graph whose cached matrices are not there yet, without reading the file again."""
    if name not in known:
        known[name] = load(name)
    return known[name].take(slice(None))


def edges_of(G: Any) -> Any:
    pairs = [(u, v, G.edgeId(u, v)) for u, v in G.iterEdges()]
    return list(zip(*pairs, strict=True))


def errors(found: Any, reference: Any) -> dict[str, float]:
    gap = np.abs(found / reference - 1)
    return {
        "median": float(np.median(gap)),
        "99%": float(np.quantile(gap, 0.99)),
        "zeros": float((found == 0).mean()),
        "smallest_ratio": float((found / reference).min()),
    }


def accuracy() -> dict[str, Any]:
    """Accuracy of sparsifiers: one coin beside the papers' copies at equal size, and the law ε·√(kept/n)."""
    from squeak.graphs import edge_leverage, sparsifier_report, sparsify
    from squeak.graphs.edges import check_edges

    found: dict[str, Any] = {"law": [], "coins": []}
    n = 1000
    graphs = {name: load(name) for name in ("ego_facebook", "wiki_vote", "email_enron")}
    graphs["complete"] = check_edges(*np.triu_indices(n, 1))
    for name, edges in graphs.items():
        points: dict[int, list[tuple[float, float]]] = {}
        for q in (6, 10, 16, 24):
            for form in (1, 0):
                reports = [
                    sparsifier_report(
                        edges, sparsify(edges, oversampling=q, copies=1 if form else q, random_state=s)
                    )
                    for s in range(3)
                ]
                kept = float(np.mean([r.kept for r in reports]))
                eps = float(np.mean([r.accuracy for r in reports]))
                points.setdefault(form, []).append((kept, eps))
                if form:
                    found["law"].append(
                        {
                            "graph": name,
                            "oversampling": q,
                            "kept": kept / len(edges),
                            "per_node": kept / edges.n_nodes,
                            "eps": eps,
                            "law": eps * np.sqrt(kept / edges.n_nodes),
                            "whole": all(r.same_components for r in reports),
                        }
                    )
        coin, copies = np.log(points[1]), np.log(points[0])
        low, high = max(coin[0, 0], copies[0, 0]), min(coin[-1, 0], copies[-1, 0])
        if high > low:
            at = np.linspace(low, high, 5)
            ratio = np.exp(np.interp(at, coin[:, 0], coin[:, 1]) - np.interp(at, copies[:, 0], copies[:, 1]))
            found["coins"].append({"graph": name, "ratio": float(ratio.mean()), "largest": float(ratio.max())})
            print(f"  {name}: coin/copies at equal size {ratio.mean():.2f} (at most {ratio.max():.2f})", flush=True)
    for r in found["law"]:
        print(
            f"  {r['graph']} q̄ {r['oversampling']}: {r['per_node']:.1f} edges a node, ε {r['eps']:.2f}, law {r['law']:.2f}"
        )
    once = float(
        np.median([cpu(lambda: edge_leverage(load_again("ego_twitter"), random_state=s))[0] for s in range(3)])
    )
    draws = [cpu(lambda: sparsify(load_again("ego_twitter"), oversampling=20, random_state=s)) for s in range(3)]
    report = sparsifier_report(load("ego_twitter"), draws[0][1])
    found["twitter"] = {
        "kept": report.kept / report.edges,
        "eps": report.accuracy,
        "law": report.law,
        "whole": report.same_components,
        "seconds": float(np.median([seconds for seconds, _ in draws])),
        "leverage_seconds": once,
    }
    found["twitter"]["ratio"] = found["twitter"]["seconds"] / once
    print("  ego_twitter", found["twitter"], flush=True)
    return found


def dense() -> list[dict[str, Any]]:
    """What sparsifying costs and saves on dense graphs, in solves of ten right-hand sides."""
    from squeak.graphs import knn_graph, sparsify, spectral_accuracy
    from squeak.graphs.edges import check_edges
    from squeak.graphs.forms import read_graph
    from squeak.graphs.harmonic import solve_harmonic

    def digits(k: int) -> Any:
        with np.load(DATA / "usps.npz") as file:
            return read_graph(knn_graph(file["X"].astype(np.float64), k)).edges

    graphs: dict[str, Callable[[], Any]] = {
        "cora, as it is": lambda: load("cora"),
        "usps, 20 neighbours": lambda: digits(20),
        "cora, 4 steps": lambda: walk("cora"),
        "ca_grqc, 4 steps": lambda: walk("ca_grqc"),
        "usps, 200 neighbours": lambda: digits(200),
        "usps, 1000 neighbours": lambda: digits(1000),
    }
    rng = np.random.default_rng(0)
    rows = []
    for name, make in graphs.items():
        graph = make()
        chosen = np.sort(rng.choice(graph.n_nodes, 100, replace=False))
        values = np.eye(10)[rng.integers(10, size=100)]
        cost, H = cpu(lambda: sparsify(graph.take(slice(None)), oversampling=30, random_state=0))
        smaller = sparsify(graph, oversampling=20, random_state=0)
        uniform = uniform_sample(graph, len(H))

        def solving(g: Any) -> Any:
            return solve_harmonic(g.take(slice(None)), chosen, values, 1.0, centred=True)

        full = float(np.median([cpu(lambda: solving(graph))[0] for _ in range(3)]))
        small = float(np.median([cpu(lambda: solving(H))[0] for _ in range(3)]))
        row = {
            "graph": name,
            "nodes": graph.n_nodes,
            "edges": len(graph),
            "degree": 2 * len(graph) / graph.n_nodes,
            "kept": len(H) / len(graph),
            "cost": cost / full,
            "faster": full / small,
            "faster_20": full / float(np.median([cpu(lambda: solving(smaller))[0] for _ in range(3)])),
            "eps_20": spectral_accuracy(graph, smaller, tol=0.02),
            "full_seconds": full,
            "eps": spectral_accuracy(graph, H, tol=0.02),
            "eps_uniform": spectral_accuracy(
                graph, check_edges(uniform.u, uniform.v, uniform.weights, graph.n_nodes), tol=0.02
            ),
        }
        rows.append(row)
        print(
            "  " + ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()),
            flush=True,
        )
    return rows


def uniform_sample(graph: Any, kept: int) -> Any:
    chosen = np.sort(np.random.default_rng(1).choice(len(graph), kept, replace=False))
    return graph.take(chosen).with_weights(graph.weights[chosen] * len(graph) / kept)


def learning() -> list[dict[str, Any]]:
    """Labels from few: STABLE and SPARSE beside LabelSpreading and the baselines, on the unlabelled nodes."""
    from sklearn.semi_supervised import LabelSpreading

    from squeak.graphs import HarmonicClassifier, SimpleHarmonic, SubSampling, knn_graph
    from squeak.graphs.baselines import EigenFunctions, NearestLabel

    rows = []
    for name in ("cora", "pubmed", "musae_github", "usps"):
        truth, X = labels(name), None
        if name == "usps":
            with np.load(DATA / "usps.npz") as file:
                X = file["X"].astype(np.float64)
            A = knn_graph(X, 10)
        else:
            A = load(name).adjacency()
        for count in (20, 100, 1000):
            scores: dict[str, list[float]] = {}
            for seed in range(SEEDS):
                y = np.full(len(truth), -1)
                chosen = np.random.default_rng(seed).choice(len(truth), count, replace=False)
                y[chosen] = truth[chosen]
                rest = y == -1
                models: dict[str, Any] = {
                    "STABLE": HarmonicClassifier(),
                    "SPARSE": HarmonicClassifier(sparsifier=30, random_state=seed),
                    "HFS": HarmonicClassifier(centred=False),
                    "SIMPLE": SimpleHarmonic(min(count, 50)),
                }
                for model_name, model in models.items():
                    scores.setdefault(model_name, []).append(
                        float((model.fit(A, y).transduction_ == truth)[rest].mean())
                    )
                for a in (0.2, 0.99):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        model = LabelSpreading(kernel=lambda a, b: A, alpha=a, max_iter=30).fit(
                            np.zeros((len(y), 1)), y
                        )
                    scores.setdefault(f"LabelSpreading({a})", []).append(
                        float((model.transduction_ == truth)[rest].mean())
                    )
                if X is not None:
                    for model_name, model in (
                        ("EigFun", EigenFunctions()),
                        ("SubSampling", SubSampling(2000, random_state=seed)),
                        ("1-NN", NearestLabel()),
                    ):
                        scores.setdefault(model_name, []).append(
                            float((model.fit(X, y).transduction_ == truth)[rest].mean())
                        )
            row = {
                "data": name,
                "labels": count,
                "mean": {k: 100 * float(np.mean(v)) for k, v in scores.items()},
                "std": {k: 100 * float(np.std(v)) for k, v in scores.items()},
            }
            rows.append(row)
            print(f"  {name} {count}: " + ", ".join(f"{k} {v:.1f}" for k, v in row["mean"].items()), flush=True)
    return rows


def run() -> None:
    os.environ["SQUEAK_NUM_THREADS"] = "1"
    if not (DATA / "ego_twitter.npz").exists():
        print("  the graphs are not at hand (SQUEAK_DATA): left out")
        return
    parts = {"leverage": leverage, "accuracy": accuracy, "dense": dense, "learning": learning, "stream": stream}
    parts["workers"] = workers
    chosen = os.environ.get("GRAPHS", "").split(",") if os.environ.get("GRAPHS") else list(parts)
    from benchmarks.common import RESULTS

    known: dict[str, Any] = {}
    if (RESULTS / "graphs.json").exists():
        import json

        known = json.loads((RESULTS / "graphs.json").read_text())
        known.pop("measured_with", None)
        known.pop("note", None)
    for name in chosen:
        known[name] = parts[name]()
        save("graphs", known)
