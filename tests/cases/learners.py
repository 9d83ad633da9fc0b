"""Every learner, solver and option that changes the problem."""

from __future__ import annotations

import numpy as np
import pandas as pd
import scipy.sparse as sp

import squeak
from squeak.kernels import RBF, Laplacian, Linear, Matern, Metric
from squeak.learners import (
    AutoClassifier,
    AutoRegressor,
    BasicFalkon,
    DivideAndConquerRidge,
    KernelBlend,
    KernelCCA,
    KernelClassifier,
    KernelGradientDescent,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    KernelRidgeCV,
    LocalExperts,
    Nystroem,
    NytroRegressor,
    QuadratureFeatures,
    RandomFeatureClassifier,
    RandomFeatureRegressor,
    RandomFeatures,
)
from squeak.samplers import Bless, RPCholesky, Squeak
from tests.cases import SINGLE, case, classes, points, targets

NEW = slice(0, 40)
SEVERAL = ("near", "middle", "far")
ITERATIVE = 1e-6
"""For solvers that stop by what is left to gain, on kernel values in float32."""
CHOSEN = 5e-3
"""For models that choose by such solutions where to split, or which width to take: processors round differently."""
COEFFICIENTS = 1e-8
"""For coefficients, whose last digits depend on the BLAS where atoms lie close to each other."""


def sampler():
    """Return a sampler that learners fill in with their own kernel and seed."""
    return Squeak(ridge=1.0, oversampling=4)


def landmarks():
    """Return rows that a learner is given as its dictionary."""
    return points(50, seed=21)


def of_ridge(model, X=None):
    """Return what a regression is."""
    found = {"predictions": model.predict(points(40, seed=11) if X is None else X)}
    for name in ("dual_coef_", "intercept_", "alpha_"):
        found[name] = np.asarray(getattr(model, name), dtype=float)
    return {**found, "solver": str(model.solver_), "atoms": len(model.dictionary_)}


RIDGES = {
    "direct": KernelRidge(RBF(1.0), 0.5, sampler=sampler(), solver="direct", random_state=0),
    "direct, given rows": KernelRidge(RBF(1.0), 0.5, dictionary=landmarks(), solver="direct", random_state=0),
    "direct, intercept": KernelRidge(
        Matern(2.0), 1.0, sampler=sampler(), fit_intercept=True, solver="direct", random_state=0
    ),
    "direct, regularised": KernelRidge(
        RBF(1.0), 0.5, sampler=sampler(), regularised=True, solver="direct", random_state=0
    ),
    "exact": KernelRidge(RBF(1.0), 0.5, max_atoms=1000, random_state=0),
    "exact, intercept": KernelRidge(Laplacian(2.0), 0.5, max_atoms=1000, fit_intercept=True, random_state=0),
    "RPCholesky": KernelRidge(RBF(1.0), 0.5, sampler=RPCholesky(max_atoms=40), random_state=0),
}


def _ridge(model, weighted=False):
    def run(folder):
        X = points()
        y = targets(X) + 3.0
        weight = {"sample_weight": np.linspace(0.5, 2.0, len(X))} if weighted else {}
        return of_ridge(_copy(model).fit(X, y, **weight))

    return run


def _copy(model):
    from sklearn.base import clone

    return clone(model)


for _name, _model in RIDGES.items():
    case(f"learners: KernelRidge, {_name}", COEFFICIENTS)(_ridge(_model))
case("learners: KernelRidge, direct, weights", COEFFICIENTS)(_ridge(RIDGES["direct"], weighted=True))
case("learners: KernelRidge, exact, weights", COEFFICIENTS)(_ridge(RIDGES["exact"], weighted=True))


@case("learners: KernelRidge, several outputs and deviations", COEFFICIENTS)
def _(folder):
    X = points()
    model = KernelRidge(RBF(1.0), 0.5, sampler=sampler(), solver="direct", random_state=0)
    several = _copy(model).fit(X, np.column_stack([targets(X), X[:, 0] ** 2]))
    mean, std = _copy(model).fit(X, targets(X)).predict(points(40, seed=11), return_std=True)
    return {**of_ridge(several), "mean": mean, "std": std, "score": model.fit(X, targets(X)).score(X, targets(X))}


FALKON = {
    "falkon": KernelRidge(RBF(1.0), 0.5, sampler=sampler(), solver="falkon", tol=1e-12, random_state=0),
    "falkon, Bless": KernelRidge(
        RBF(1.0), 0.5, sampler=Bless(ridge=1.0), solver="falkon", tol=1e-12, random_state=0
    ),
    "falkon, given rows": KernelRidge(
        RBF(1.0), 0.5, dictionary=landmarks(), solver="falkon", tol=1e-12, random_state=0
    ),
    "falkon, voronoi": KernelRidge(
        RBF(1.0), 0.5, dictionary=landmarks(), solver="falkon", preconditioner="voronoi", tol=1e-12, random_state=0
    ),
    "falkon, no kernel values kept": KernelRidge(
        RBF(1.0), 0.5, sampler=sampler(), solver="falkon", memory_budget=0, tol=1e-12, random_state=0
    ),
}


def _falkon(model):
    def run(folder):
        X = points()
        made = _copy(model).fit(X, targets(X))
        return {"predictions": made.predict(points(40, seed=11)), "solver": made.solver_}

    return run


for _name, _model in FALKON.items():
    case(f"learners: KernelRidge, {_name}", ITERATIVE)(_falkon(_model))


@case("learners: KernelRidge, falkon, weights", ITERATIVE)
def _(folder):
    X = points()
    model = _copy(FALKON["falkon"]).fit(X, targets(X), sample_weight=np.linspace(0.5, 2.0, len(X)))
    return {"predictions": model.predict(points(40, seed=11))}


@case("learners: KernelRidge, CSR rows", COEFFICIENTS)
def _(folder):
    X = points(d=6)
    X *= X > 0
    model = KernelRidge(RBF(1.5), 0.5, sampler=sampler(), solver="direct", random_state=0).fit(
        sp.csr_array(X), targets(X)
    )
    return of_ridge(model, sp.csr_array(X[NEW]))


@case("learners: KernelRidge, float32 rows", SINGLE)
def _(folder):
    X = points().astype(np.float32)
    model = KernelRidge(RBF(1.0), 0.5, sampler=sampler(), solver="direct", random_state=0).fit(X, targets(X))
    return of_ridge(model, X[NEW])


@case("learners: KernelRidge, default atoms", ITERATIVE)
def _(folder):
    X = points(900)
    model = KernelRidge(RBF(1.0), 0.5, random_state=0).fit(X, targets(X))
    return {"predictions": model.predict(X[NEW]), "atoms": len(model.dictionary_), "solver": model.solver_}


@case("learners: KernelRidge, max_atoms")
def _(folder):
    X = points(900)
    model = KernelRidge(RBF(1.0), 0.5, max_atoms=60, solver="direct", random_state=0).fit(X, targets(X))
    return {"indices": model.dictionary_.indices, **of_ridge(model)}


@case("learners: KernelRidge, auto", 1e-8)
def _(folder):
    X = points()
    model = KernelRidge(RBF("auto"), "auto", max_atoms=1000, random_state=0).fit(X, targets(X))
    return {"predictions": model.predict(X[NEW]), "alpha": model.alpha_, "width": model.kernel_.length_scale}


@case("learners: KernelRidge, partial_fit", COEFFICIENTS)
def _(folder):
    X = points()
    model = KernelRidge(RBF(1.0), 0.5, sampler=sampler(), random_state=0)
    for rows in np.split(X, [50, 57, 250]):
        model.partial_fit(rows, targets(X)[: len(rows)])
    return of_ridge(model)


@case("learners: KernelRidge, partial_fit with intercept", COEFFICIENTS)
def _(folder):
    X = points()
    model = KernelRidge(RBF(1.0), 0.5, sampler=sampler(), fit_intercept=True, random_state=0)
    for number, rows in enumerate(np.split(X, 4)):
        model.partial_fit(rows, targets(rows) + 5 * number)
    return of_ridge(model)


def table(n=500):
    """Return a table with numbers, a category and gaps."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(points(n), columns=["a", "b", "c"])
    frame["to"] = rng.choice(["AMS", "CDG", "LIL"], n)
    frame["y"] = targets(points(n)) + (frame["to"] == "LIL")
    frame.loc[::17, "b"] = np.nan
    return frame


@case("learners: KernelRidge, from files")
def _(folder):
    table().to_parquet(folder / "t.parquet", row_group_size=100)
    source = squeak.rows(folder / "t.parquet", "y", scale="standard", missing="mean")
    model = KernelRidge(RBF(2.0), 0.5, sampler=sampler(), fit_intercept=True, solver="direct", random_state=0).fit(
        source
    )
    return of_ridge(model, table().drop(columns="y")[:40])


@case("learners: KernelRidge, rows that can be read once", COEFFICIENTS)
def _(folder):
    X = points()
    blocks = ((part, targets(part)) for part in np.split(X, 4))
    model = KernelRidge(RBF(1.0), 0.5, sampler=sampler(), random_state=0).fit(squeak.rows(blocks, target=True))
    return of_ridge(model)


@case("learners: KernelRidgeCV", 1e-8)
def _(folder):
    X = points()
    model = KernelRidgeCV(RBF(1.0), sampler=sampler(), fit_intercept=True, random_state=0).fit(X, targets(X))
    return {"alpha": model.alpha_, "errors": model.errors_, "predictions": model.predict(points(40, seed=11))}


CLASSIFIERS = {
    "squared": (KernelClassifier(RBF(1.0), 0.5, sampler=sampler(), solver="direct", random_state=0), ("in", "out")),
    "squared, three classes": (
        KernelClassifier(RBF(1.0), 0.5, sampler=sampler(), solver="direct", random_state=0),
        SEVERAL,
    ),
    "squared, balanced": (
        KernelClassifier(
            RBF(1.0), 0.5, sampler=sampler(), class_weight="balanced", solver="direct", random_state=0
        ),
        SEVERAL,
    ),
    "squared, exact": (KernelClassifier(RBF(1.0), 0.5, max_atoms=1000, random_state=0), SEVERAL),
}


def _classifier(model, names):
    def run(folder):
        X = points()
        made = _copy(model).fit(X, classes(X, names))
        new = points(40, seed=11)
        found = {"decision": made.decision_function(new), "predicted": made.predict(new)}
        found |= {"intercept": made.intercept_, "classes": made.classes_, "solver": made.solver_}
        if made.loss == "logistic":
            found["probabilities"] = made.predict_proba(new)
        return found

    return run


for _name, (_model, _names) in CLASSIFIERS.items():
    case(f"learners: KernelClassifier, {_name}")(_classifier(_model, _names))
for _name, _names in (("logistic", ("in", "out")), ("logistic, three classes", SEVERAL)):
    _logistic = KernelClassifier(RBF(1.0), 0.5, loss="logistic", sampler=sampler(), tol=1e-12, random_state=0)
    case(f"learners: KernelClassifier, {_name}", ITERATIVE)(_classifier(_logistic, _names))


@case("learners: KernelClassifier, from files")
def _(folder):
    table().to_csv(folder / "t.csv", index=False)
    source = squeak.rows(folder / "t.csv", "to", missing="median")
    model = KernelClassifier(RBF(2.0), 0.5, sampler=sampler(), solver="direct", random_state=0).fit(source)
    new = table().drop(columns="to")[:40]
    return {"decision": model.decision_function(new), "predicted": model.predict(new), "classes": model.classes_}


@case("learners: Nystroem")
def _(folder):
    X, new = points(), points(40, seed=11)
    eigen = Nystroem(RBF(1.0), sampler=sampler(), random_state=0).fit(X)
    triangular = Nystroem(RBF(1.0), sampler=sampler(), form="triangular", random_state=0).fit(X)
    few = Nystroem(RBF(1.0), sampler=sampler(), n_components=10, regularised=True, random_state=0).fit(X)
    blocks = Nystroem(RBF(1.0), sampler=sampler(), form="triangular", random_state=0)
    for rows in np.split(X, 4):
        blocks.partial_fit(rows)
    Z = eigen.transform(new)
    return {
        "products": Z @ Z.T,
        "size": list(Z.shape),
        "triangular": triangular.transform(new),
        "few": few.transform(new) @ few.transform(new).T,
        "blocks": blocks.transform(new),
    }


@case("learners: KernelPCA", ITERATIVE)
def _(folder):
    X, new = points(), points(40, seed=11)
    model = KernelPCA(4, kernel=RBF(2.0), sampler=sampler(), random_state=0).fit(X)
    blocks = KernelPCA(3, kernel=RBF(2.0), centre=False, sampler=sampler(), random_state=0)
    for rows in np.split(X, 4):
        blocks.partial_fit(rows)
    return {
        "eigenvalues": model.eigenvalues_,
        "explained": model.explained_variance_ratio_,
        "error": model.reconstruction_error_,
        "components": np.abs(model.transform(new)),
        "blocks": np.abs(blocks.transform(new)),
        "back": model.inverse_transform(model.transform(new)),
    }


@case("learners: KernelKMeans", 1e-8)
def _(folder):
    centres = np.array([[0.0, 0, 0], [3, 3, 0], [0, 4, 1]])
    X = points() * 0.5 + centres[np.arange(400) % 3]
    model = KernelKMeans(3, kernel=RBF(1.5), sampler=sampler(), random_state=0).fit(X)
    blocks = KernelKMeans(3, kernel=RBF(1.5), sampler=sampler(), random_state=0)
    for rows in np.split(X, 4):
        blocks.partial_fit(rows)
    return {
        "labels": model.labels_,
        "inertia": model.inertia_,
        "weights": model.cluster_weights_,
        "distances": model.transform(X[NEW]),
        "blocks": blocks.predict(X),
    }


@case("learners: KernelCCA", 1e-8)
def _(folder):
    X = points()
    Y = np.column_stack([X[:, 0] ** 2, targets(X)])
    model = KernelCCA(2, kernel=RBF(1.5), kernel_y=RBF(1.0), sampler=sampler(), random_state=0).fit(X, Y)
    return {
        "values": model.values_,
        "correlations": model.correlations_,
        "directions": np.abs(model.transform(points(40, seed=11))),
        "other side": np.abs(model.transform_y(Y[NEW])),
        "score": model.score(X, Y),
    }


@case("learners: RandomFeatures")
def _(folder):
    X = points(40)
    kernels = {"RBF": RBF(1.0), "Laplacian": Laplacian(2.0), "Matern": Matern(2.0, nu=1.5)}
    return {name: RandomFeatures(k, n_features=50, random_state=0).fit_transform(X) for name, k in kernels.items()}


@case("learners: RandomFeatureRegressor")
def _(folder):
    X = points()
    several = np.column_stack([targets(X), X[:, 0] ** 2])
    model = RandomFeatureRegressor(RBF(1.0), n_features=60, max_iter=5, random_state=0).fit(X, targets(X))
    both = RandomFeatureRegressor(
        RBF(1.0), n_features=60, max_iter=2, step=0.5, batch_size=10, tail=0.5, random_state=0
    )
    blocks = RandomFeatureRegressor(RBF(1.0), n_features=60, random_state=0)
    for rows in np.split(X, 4):
        blocks.partial_fit(rows, targets(rows))
    new = points(40, seed=11)
    return {
        "predictions": model.predict(new),
        "step": model.step_,
        "passes": model.n_passes_,
        "errors": model.validation_errors_,
        "several": both.fit(X, several).predict(new),
        "blocks": blocks.predict(new),
    }


@case("learners: RandomFeatureClassifier")
def _(folder):
    X, new, found = points(), points(40, seed=11), {}
    for loss in ("squared", "logistic"):
        model = RandomFeatureClassifier(RBF(1.0), loss=loss, n_features=60, max_iter=4, random_state=0)
        model.fit(X, classes(X, SEVERAL))
        found |= {f"{loss}, decision": model.decision_function(new), f"{loss}, predicted": model.predict(new)}
    blocks = RandomFeatureClassifier(RBF(1.0), loss="logistic", n_features=60, random_state=0)
    for rows in np.split(X, 4):
        blocks.partial_fit(rows, classes(rows), classes=["in", "out"])
    return {**found, "probabilities": model.predict_proba(new), "blocks": blocks.predict_proba(new)}


@case("learners: baselines")
def _(folder):
    X, new = points(200), points(40, seed=11)
    parts = DivideAndConquerRidge(RBF(1.0), 0.5, n_parts=4, random_state=0).fit(X, targets(X))
    nytro = NytroRegressor(RBF(1.0), max_atoms=30, validation_fraction=0.2, random_state=0)
    nytro.fit(X, targets(X))
    basic = BasicFalkon(RBF(1.0), 0.5, max_atoms=30, max_iter=10, random_state=0).fit(X, targets(X))
    drawn = RandomFeatureRegressor(RBF(1.0), n_features=40, replacement=True, random_state=0).fit(X, targets(X))
    nodes = QuadratureFeatures(RBF(1.0), n_features=150).fit(X[:, :2])
    models = {"parts": parts, "nytro": nytro, "drawn": drawn, "basic": basic}
    return {name: model.predict(new) for name, model in models.items()} | {"nodes": nodes.transform(new[:, :2])}


@case("learners: KernelGradientDescent")
def _(folder):
    X, new = points(200), points(40, seed=11)
    fixed = KernelGradientDescent(RBF(1.0), max_iter=50).fit(X, targets(X))
    stopped = KernelGradientDescent(RBF(1.0), max_iter=100, validation_fraction=0.2, random_state=0)
    stopped.fit(X, targets(X))
    return {
        "fixed": fixed.predict(new),
        "stopped": stopped.predict(new),
        "iterations": stopped.n_iter_,
        "errors": stopped.validation_errors_,
    }


@case("learners: KernelBlend", ITERATIVE)
def _(folder):
    X, new = points(200), points(40, seed=11)
    model = KernelBlend(
        [Laplacian("learned"), Metric(RBF("learned"), None)],
        max_atoms=40,
        search_atoms=30,
        rounds=1,
        random_state=0,
    ).fit(X, targets(X))
    return {"predictions": model.predict(new), "weights": model.weights_, "back": model.back_values_}


@case("learners: LocalExperts", CHOSEN)
def _(folder):
    X, new = points(200), points(40, seed=11)
    estimators = KernelRidge(RBF(1.0), 0.5, max_atoms=30), KernelClassifier(RBF(1.0), 0.5, max_atoms=30)
    quick = {"leaf_rows": 80, "split_kernel": RBF(1.0), "random_state": 0}
    ridge, decided = (LocalExperts(one, **quick) for one in estimators)
    return {
        "predictions": ridge.fit(X, targets(X)).predict(new),
        "leaves": ridge.tree_.n_leaves,
        "scores": decided.fit(X, classes(X, SEVERAL)).decision_function(new),
    }


@case("learners: AutoRegressor and AutoClassifier", CHOSEN)
def _(folder):
    X, new = points(), points(40, seed=11)
    model = AutoRegressor(max_atoms=30, leaf_rows=150, random_state=0).fit(X, targets(X))
    mean, std = model.predict(new, return_std=True)
    low, high = model.predict_interval(new)
    decided = AutoClassifier(max_atoms=30, random_state=0).fit(X, classes(X))
    return {
        "mean": mean,
        "std": std,
        "low": low,
        "high": high,
        "relevance": model.relevance_,
        "scores": decided.decision_function(new),
        "every row an atom": AutoRegressor(random_state=0).fit(X[:200], targets(X[:200])).predict(new),
    }


@case("learners: saved and loaded")
def _(folder):
    X, found = points(), {}
    models = {
        "ridge": KernelRidge(Linear() + RBF(1.0), 0.5, sampler=sampler(), solver="direct", random_state=0),
        "pca": KernelPCA(3, kernel=RBF(2.0), sampler=sampler(), random_state=0),
        "features": RandomFeatures(RBF(1.0), n_features=20, random_state=0),
    }
    for name, model in models.items():
        model.fit(X, targets(X)).save(folder / "m.sqk")
        again = squeak.load(folder / "m.sqk")
        found[name] = again.predict(X[NEW]) if name == "ridge" else np.abs(again.transform(X[NEW]))
    return found
