"""Resistances, sparsifiers (of all edges, of streams, on threads), harmonic learners, embeddings, baselines."""

from __future__ import annotations

import networkx as nx
import numpy as np

from squeak import graphs as room
from squeak.samplers import Tree
from tests.cases import case, points

SOLVED = 1e-6
"""For systems that are solved by iterations up to a tolerance of their own."""


def graph(n=120, seed=0):
    """Return a weighted graph of two communities."""
    G = nx.planted_partition_graph(2, n // 2, 0.4, 0.05, seed=seed)
    A = nx.to_scipy_sparse_array(G, format="csr", dtype=float)
    upper = np.random.default_rng(1).uniform(0.5, 2.0, (n, n))
    return A.multiply(np.triu(upper, 1) + np.triu(upper, 1).T).tocsr()


def edges(n=120):
    """Return the edges of the graph as rows: two nodes and a weight, in random order."""
    A = graph(n)
    u, v = np.triu(A.toarray()).nonzero()
    found = np.column_stack([u, v, A.toarray()[u, v]])
    return np.random.default_rng(2).permutation(found)


def of_sample(sample):
    """Return what a sample of edges is."""
    return {
        "u": sample.u,
        "v": sample.v,
        "counts": sample.counts,
        "indices": sample.indices,
        "weights": sample.weights,
        "probabilities": sample.probabilities,
        "n_seen": sample.n_seen,
    }


def of_matrix(A):
    """Return an adjacency matrix as its edges and weights."""
    A = A.tocsr()
    A.sort_indices()
    return {"edges": A.indices, "weights": A.data}


@case("graphs: KelnerLevin")
def _(folder):
    return of_sample(room.KelnerLevin(6, eps=0.3, block_edges=400, random_state=0).fit(edges()).sample_)


@case("graphs: resistances and leverage, exact")
def _(folder):
    A = graph()
    return {
        "resistances": room.effective_resistances(A),
        "ridge": room.effective_resistances(A, ridge=0.5),
        "leverage": room.edge_leverage(A),
        "networkx": room.edge_leverage(nx.karate_club_graph()),
    }


@case("graphs: resistances by projections and by a factor", SOLVED)
def _(folder):
    projected = room.effective_resistances(graph(), "projections", random_state=0)
    return {"projections": projected, "factor": room.effective_resistances(graph(), "factor")}


@case("graphs: sparsify")
def _(folder):
    found = of_matrix(room.sparsify(graph(), oversampling=6, random_state=0))
    ridge = of_matrix(room.sparsify(graph(), oversampling=6, ridge=2.0, random_state=0))
    copies = of_matrix(room.sparsify(graph(), oversampling=6, copies=6, random_state=0))
    eps = of_matrix(room.sparsify(graph(), eps=0.9, random_state=0))
    found |= {f"ridge, {key}": value for key, value in ridge.items()}
    return {**found, "copies": copies["weights"], "eps": eps["weights"]}


@case("graphs: sparsifier report and accuracy", SOLVED)
def _(folder):
    H = room.sparsify(graph(), oversampling=6, random_state=0)
    report = room.sparsifier_report(graph(), H)
    whole = [report.n_nodes, report.edges, report.kept, report.components, report.sparsifier_components]
    measured = [report.accuracy, report.law, *report.total_weight, *report.largest_weight]
    return {"whole": whole, "measured": measured, "accuracy": room.spectral_accuracy(graph(), H)}


STREAMS = {
    "StreamSparsifier": room.StreamSparsifier(5.0, random_state=0),
    "StreamSparsifier, ridge and copies": room.StreamSparsifier(5.0, ridge=1.0, copies=5, random_state=0),
    "OnlineSparsifier": room.OnlineSparsifier(3.0, random_state=0),
}


def _stream(sparsifier):
    def run(folder):
        from sklearn.base import clone

        made = clone(sparsifier).set_params(n_nodes=120)
        for block in np.array_split(edges(), 5):
            made.partial_fit(block)
        whole = clone(sparsifier).fit(edges())
        found = {**of_sample(made.sample_), "components": made.n_components_, "whole": whole.sample_.indices}
        return {**found, "their weights": whole.sparsifier_.data}

    return run


for _name, _sparsifier in STREAMS.items():
    case(f"graphs: {_name}")(_stream(_sparsifier))


@case("graphs: DistributedSparsifier on threads")
def _(folder):
    balanced = room.DistributedSparsifier(5.0, n_leaves=4, random_state=0).fit(edges())
    nested = room.DistributedSparsifier(5.0, tree=Tree(((0, 1), 2)), random_state=0).fit(edges())
    sizes = [[node.node, node.rows, node.atoms] for node in balanced.nodes_]
    return {**of_sample(balanced.sample_), "nodes": sizes, "nested": nested.sample_.indices}


@case("graphs: a saved sample and blocks of edges")
def _(folder):
    sample = room.StreamSparsifier(5.0, random_state=0).fit(edges()).sample_
    sample.save(folder / "e.sqk")
    again = room.EdgeSample.load(folder / "e.sqk")
    sizes = [len(block) for block in room.edge_blocks(iter([edges()[:100], edges()[100:130]]))]
    return {**of_sample(again), "dimension": float(again.effective_dimension()), "blocks": sizes}


def halves(n=120, known=(0, 3, 60, 70)):
    """Return labels of a few nodes, −1 for the others."""
    y = np.full(n, -1)
    y[list(known)] = [int(node >= n // 2) for node in known]
    return y


@case("graphs: HarmonicClassifier", SOLVED)
def _(folder):
    model = room.HarmonicClassifier().fit(graph(), halves())
    sparse = room.HarmonicClassifier(0.5, centred=False, sparsifier=6.0, random_state=0).fit(graph(), halves())
    return {
        "transduction": model.transduction_,
        "scores": model.scores_,
        "shares": model.label_distributions_,
        "sparsified": sparse.scores_,
        "unreached": model.n_unreached_,
    }


@case("graphs: harmonic learners on rows", SOLVED)
def _(folder):
    truth = np.repeat([0, 1], 60)
    X = points(120, 2) + 4 * truth[:, None]
    model = room.HarmonicClassifier(n_neighbors=6).fit(X, halves())
    new = points(20, 2, seed=11) + 2
    y = np.where(np.arange(120) % 10 == 0, X[:, 0], np.nan)
    values = room.HarmonicRegressor(n_neighbors=6).fit(X, y)
    return {
        "scores": model.scores_,
        "probabilities": model.predict_proba(new),
        "predicted": model.predict(new),
        "values": values.transduction_,
        "new values": values.predict(new),
        **of_matrix(room.knn_graph(X, 6)),
        "gaussian": room.knn_graph(X, 4, scaling="none").data,
    }


@case("graphs: HarmonicRegressor", SOLVED)
def _(folder):
    y = np.full(120, np.nan)
    y[[0, 30, 60, 119]] = 0.0, 1.0, 2.0, 3.0
    plain = room.HarmonicRegressor(0.1, centred=False).fit(graph(), y)
    centred = room.HarmonicRegressor(sparsifier=6.0, random_state=0).fit(graph(), y)
    return {"plain": plain.transduction_, "sparsified": centred.transduction_}


@case("graphs: OnlineHarmonic", 1e-8)
def _(folder):
    truth = np.random.default_rng(4).integers(2, size=300)
    X = points(300, 2) + 4 * truth[:, None]
    y = np.where(np.arange(300) < 6, truth, -1)
    model = room.OnlineHarmonic(max_centres=40)
    for block, labels in zip(np.split(X, [1, 50, 200]), np.split(y, [1, 50, 200]), strict=True):
        model.partial_fit(block, labels)
    return {
        "centres": model.centres_,
        "counts": model.counts_,
        "radius": float(model.radius_),
        "scores": model.scores(X[:40]),
        "predicted": model.predict(X),
    }


@case("graphs: LaplacianSmoother", SOLVED)
def _(folder):
    values = points(120, 2)
    plain = room.LaplacianSmoother(2.0).fit(graph()).transform(values)
    sparse = room.LaplacianSmoother(2.0, sparsifier=6.0, random_state=0).fit(graph()).transform(values[:, 0])
    return {"plain": plain, "sparsified": sparse}


@case("graphs: eigenmaps and spectral clustering", SOLVED)
def _(folder):
    labels = room.spectral_clustering(graph(), 2, random_state=0)
    sparse = room.spectral_clustering(graph(), 2, sparsifier=8.0, random_state=0)
    return {
        "maps": np.abs(room.laplacian_eigenmaps(graph(), 3)),
        "not normalised": np.abs(room.laplacian_eigenmaps(graph(), 2, normalised=False)),
        "labels": np.asarray(labels) == labels[0],
        "sparsified": np.asarray(sparse) == sparse[0],
    }


@case("graphs: baselines", SOLVED)
def _(folder):
    truth = np.repeat([0, 1], 60)
    X = points(120, 2) + 4 * truth[:, None]
    return {
        "nearest": room.NearestLabel().fit(X, halves()).transduction_,
        "eigenfunctions": room.EigenFunctions(4).fit(X, halves()).transduction_,
        "subsampling": room.SubSampling(60, random_state=0).fit(X, halves()).transduction_,
        "simple": room.SimpleHarmonic(4).fit(graph(), halves()).transduction_,
    }
