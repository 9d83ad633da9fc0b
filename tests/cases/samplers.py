"""Every sampler, streams, merges, trees, checkpoints, and what measures them."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

import squeak
from squeak import leverage
from squeak import samplers as room
from squeak.kernels import RBF, Linear, Matern, PairwiseKernel
from squeak.samplers import (
    Bless,
    BlessR,
    Disqueak,
    ExactRLS,
    GreedyCholesky,
    InkEstimate,
    Kors,
    ManyStep,
    MultinomialNystrom,
    OnlineOracle,
    OnlineOracleRemoval,
    Recursive,
    RPCholesky,
    Squeak,
    Tree,
    TwoStep,
    Uniform,
)
from tests.cases import case, of_dictionary, points

FITS = {
    "Squeak": Squeak(RBF(1.0), 1.0, random_state=0),
    "Squeak, copies": Squeak(RBF("median"), 1.0, oversampling=6, copies=6, random_state=0),
    "Squeak, max_atoms": Squeak(RBF(1.0), max_atoms=40, random_state=0),
    "Squeak, default ridge": Squeak(RBF(2.0), random_state=3),
    "Squeak, from_paper": Squeak.from_paper(0.5, 0.1, 400, kernel=RBF(2.0), ridge=10.0, random_state=0),
    "Squeak, theory": Squeak(RBF(3.0), 20.0, oversampling="theory", eps=0.9, delta=0.5, n=400, random_state=0),
    "Kors": Kors(RBF(1.0), 1.0, oversampling=4, random_state=0),
    "Kors, copies": Kors(Matern(2.0), 1.0, oversampling=4, copies=4, random_state=0),
    "Uniform": Uniform(RBF(1.0), 50, random_state=0),
    "Uniform, replacement": Uniform(RBF(1.0), 50, replacement=True, random_state=0),
    "ExactRLS": ExactRLS(RBF(1.0), 1.0, oversampling=5, random_state=0),
    "TwoStep": TwoStep(RBF(1.0), 1.0, oversampling=5, first_atoms=100, random_state=0),
    "TwoStep, original": TwoStep(RBF(1.0), 1.0, oversampling=5, first_atoms=100, original=True, random_state=0),
    "ManyStep": ManyStep(RBF(1.0), 1.0, oversampling=5, copies=5, random_state=0),
    "Recursive": Recursive(RBF(1.0), 1.0, oversampling=5, random_state=0),
    "Recursive, max_atoms": Recursive(RBF(1.0), max_atoms=40, random_state=0),
    "Bless": Bless(RBF(1.0), 1.0, oversampling=4, random_state=0),
    "Bless, max_atoms": Bless(RBF(1.0), max_atoms=60, oversampling=4, random_state=0),
    "BlessR": BlessR(RBF("median"), 1.0, oversampling=4, random_state=0),
    "BlessR, max_atoms": BlessR(RBF(1.0), max_atoms=60, oversampling=4, random_state=0),
    "RPCholesky": RPCholesky(RBF(1.0), 40, random_state=0),
    "RPCholesky, tolerance": RPCholesky(RBF(2.0), 200, tol=1e-2, random_state=0),
    "GreedyCholesky": GreedyCholesky(RBF(1.0), 40),
    "MultinomialNystrom": MultinomialNystrom(
        Linear(offset=1.0), 50, probabilities="diagonal", ridge=1.0, random_state=0
    ),
    "BinomialNystrom": room.BinomialNystrom(RBF(1.0), 60, ridge=1.0, random_state=0),
    "LiteralSqueak": room.LiteralSqueak(RBF(1.0), 1.0, copies=6, eps=0.3, leaf_rows=50, random_state=0),
    "LiteralSqueak, over": room.LiteralSqueak(
        RBF(1.0), 1.0, copies=3, leaf_rows=50, paper="aistats", estimates="over", clip=True, random_state=0
    ),
    "InkEstimate": InkEstimate(RBF(1.0), 1.0, copies=80, random_state=0),
    "OnlineOracle": OnlineOracle(RBF(1.0), 1.0, oversampling=3, random_state=0),
    "OnlineOracleRemoval": OnlineOracleRemoval(RBF(1.0), 1.0, oversampling=5, random_state=0),
}
FACTS = ("passes_", "trace_error_", "online_dimension_", "effective_dimension_")


def _fit(sampler):
    def run(folder):
        X = points()
        made = clone(sampler).fit(X)
        found = of_dictionary(made.dictionary_)
        found |= {name: float(getattr(made, name)) for name in FACTS if getattr(made, name, None) is not None}
        if hasattr(made, "path_"):
            found["path"] = [len(d) for d in made.path_]
        if made.dictionary_.calibrated:
            found["scores"] = made.dictionary_.leverage_scores(X[:50])
        return found

    return run


for _name, _sampler in FITS.items():
    case(f"samplers: {_name}")(_fit(_sampler))


def fed(sampler, X, sizes=(1, 7, 64, 100, 1, 227)):
    """Return the sampler after it was fed the rows in blocks of these sizes."""
    for block in np.split(X, np.cumsum(sizes)[:-1]):
        sampler.partial_fit(block)
    return sampler


@case("samplers: Squeak in blocks")
def _(folder):
    found = of_dictionary(fed(Squeak(RBF(1.0), 1.0, random_state=1), points()).dictionary_)
    one_by_one = fed(Squeak(RBF(1.0), 1.0, random_state=1), points(), [1] * 400).dictionary_
    return {**found, "one by one": one_by_one.indices, "their weights": one_by_one.weights}


@case("samplers: Squeak in blocks, max_atoms")
def _(folder):
    return of_dictionary(fed(Squeak(RBF(1.0), max_atoms=30, random_state=1), points()).dictionary_)


@case("samplers: Squeak, a ridge that grows")
def _(folder):
    return of_dictionary(Squeak(RBF(1.0), lambda n: 0.5 + n / 200, random_state=1).fit(points()).dictionary_)


@case("samplers: Kors in blocks")
def _(folder):
    return of_dictionary(fed(Kors(RBF(1.0), 1.0, random_state=1), points()).dictionary_)


@case("samplers: Uniform in blocks")
def _(folder):
    return of_dictionary(fed(Uniform(RBF(1.0), 30, random_state=1), points()).dictionary_)


@case("samplers: CSR and float32 rows")
def _(folder):
    X = points(d=8)
    X *= X > 0.5
    sparse = Squeak(RBF(1.5), 1.0, random_state=0).fit(sp.csr_array(X)).dictionary_
    single = Squeak(RBF(1.5), 1.0, random_state=0).fit(X.astype(np.float32)).dictionary_
    return {**of_dictionary(sparse), "atoms": sparse.atoms.toarray(), "single": single.indices}


@case("samplers: objects and scikit-learn's kernels")
def _(folder):
    from sklearn.gaussian_process.kernels import RationalQuadratic

    words = [f"{a}{b}{c}" for a in "abcdefg" for b in "hijklm" for c in "nopq"]
    kernel = PairwiseKernel(lambda a, b: sum(x == y for x, y in zip(a, b, strict=True)) / 3)
    text = Squeak(kernel, 1.0, oversampling=3, random_state=0).fit(words).dictionary_
    theirs = Bless(RationalQuadratic(1.0, 2.0), 1.0, oversampling=3, random_state=0).fit(points()).dictionary_
    return {**of_dictionary(text), "theirs": theirs.indices, "their weights": theirs.weights}


@case("samplers: merge")
def _(folder):
    learn = Squeak(RBF(1.0), 1.0, oversampling=5)
    parts = [
        clone(learn).set_params(source=name, random_state=i).fit(points(seed=i)).dictionary_
        for i, name in enumerate("abc")
    ]
    found = of_dictionary(squeak.merge(*parts, random_state=0))
    found["raised"] = squeak.merge(*parts, random_state=0, ridge=3.0).indices
    return found


@case("samplers: merge, max_atoms")
def _(folder):
    learn = Squeak(RBF(1.0), 1.0, oversampling=5, random_state=0)
    parts = [clone(learn).set_params(source=str(i)).fit(points(seed=i)).dictionary_ for i in range(2)]
    return of_dictionary(squeak.merge(*parts, random_state=0, max_atoms=50))


TREES = {
    "balanced": Disqueak(RBF(1.0), 1.0, n_leaves=4, random_state=0),
    "sequential, copies": Disqueak(
        RBF("median"), 1.0, oversampling=6, copies=6, tree="sequential", n_leaves=3, random_state=0
    ),
    "nested": Disqueak(RBF(1.0), 1.0, tree=Tree(((0, 1), (2, (3, 4)))), random_state=0),
    "leaves by Kors": Disqueak(RBF(1.0), 1.0, n_leaves=4, leaf=Kors(oversampling=5), random_state=0),
    "max_atoms": Disqueak(RBF(1.0), max_atoms=50, n_leaves=4, random_state=0),
}


def _tree(sampler):
    def run(folder):
        made = clone(sampler).fit(points(800))
        sizes = [[node.node, node.rows, node.atoms] for node in made.nodes_]
        return {**of_dictionary(made.dictionary_), "nodes": sizes, "tree": str(made.tree_)}

    return run


for _name, _sampler in TREES.items():
    case(f"samplers: Disqueak, {_name}")(_tree(_sampler))


@case("samplers: Disqueak, a folder of nodes")
def _(folder):
    make = Disqueak(RBF(1.0), 1.0, n_leaves=4, random_state=0)
    clone(make).fit(points(800), checkpoint=folder / "run")
    return of_dictionary(clone(make).fit(points(800), checkpoint=folder / "run").dictionary_)


@case("samplers: trees")
def _(folder):
    made = [Tree.balanced(7), Tree.sequential(4), Tree(((0, 1), 2, (3, 4)))]
    return {
        "text": [str(tree) for tree in made],
        "heights": [tree.height for tree in made],
    }


class _StopError(Exception):
    pass


@case("samplers: a checkpoint is resumed")
def _(folder):
    blocks = np.split(np.random.default_rng(5).random((210_000, 1)), 7)  # more than two blocks of a source

    def until(n):
        def read():
            for number, block in enumerate(blocks):
                if number == n:
                    raise _StopError
                yield block

        return squeak.rows(read, learn_rows=100)

    found = {}
    for name, make in (("Squeak", Squeak), ("Kors", Kors)):
        path = folder / f"{name}.sqk"
        try:
            make(RBF(0.3), 50.0, random_state=2).fit(until(5), checkpoint=path, every=0.0)
        except _StopError:
            found[f"{name}, rows at the stop"] = squeak.load(path).n_seen_
        resumed = make.resume(path, until(None), every=0.0)
        found |= {f"{name}, {key}": value for key, value in of_dictionary(resumed.dictionary_).items()}
    return found


@case("samplers: saved in mid-stream")
def _(folder):
    X = points()
    first = Squeak(RBF("median"), 1.0, random_state=4).partial_fit(X[:150])
    squeak.save(first, folder / "s.sqk")
    again = squeak.load(folder / "s.sqk").partial_fit(X[150:])
    return {**of_dictionary(again.dictionary_), "kernel": repr(again.kernel_)[:20]}


@case("samplers: compare")
def _(folder):
    table = room.compare(points(150), RBF(1.0), 1.0, oversampling=(3, 6), repeats=1, random_state=0)
    timeless = [name for name in table.columns if name not in ("sampler", "seconds")]
    return {"sampler": list(table["sampler"]), **{name: table[name].to_numpy() for name in timeless}}


@case("samplers: the conference's constants")
def _(folder):
    return {"both": [room.squeak_oversampling_aistats(0.5, 0.1, 1000, distributed=d) for d in (False, True)]}


@case("samplers: theory and plan")
def _(folder):
    from squeak.samplers.planning import Calibration

    names = [name for name in room.__all__ if name.endswith("_oversampling")]
    known = Calibration(dim=50, atoms=2000, start=8.0, growth=4.0, row=2e-5, merge=10.0, seconds=0.0)
    planned = asdict(room.plan(1e9, 50, 2000, 200, cores=1, calibration=known))
    numbers = {f"plan: {key}": float(v) for key, v in planned.items() if isinstance(v, int | float)}
    return {"oversampling": [getattr(room, name)(0.5, 0.1, 1000) for name in names], "names": names, **numbers}


@case("samplers: leverage scores and accuracy")
def _(folder):
    X, kernel = points(300), RBF(1.0)
    d = Squeak(kernel, 1.0, random_state=0).fit(X).dictionary_
    estimate = leverage.estimate_accuracy(d, X, n_probe=100)
    return {
        "exact": leverage.exact_leverage_scores(X, kernel, 1.0),
        "dimension": leverage.effective_dimension(X, kernel, 1.0),
        "its dimension": d.effective_dimension(),
        "its eigenvalues": d.eigenvalues()[:20],
        "accuracy": leverage.accuracy(d, X),
        "estimate": [estimate.lower, estimate.upper, estimate.residual],
    }
