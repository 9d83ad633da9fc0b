"""Every online learner, in blocks and row by row, and what measures them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone

import squeak
from squeak import online as room
from squeak.kernels import RBF, Linear
from tests.cases import case, classes, points, targets

N = 260
NAMES = (
    *("Kons", "SketchedKons", "ProsNKons", "ConKons", "BudgetKons"),
    *("MixedKons", "KernelOGD", "FOGD", "NOGD", "DualSGD", "Projectron"),
)
OPTIONS = {
    "BudgetKons": {"max_atoms": 20},
    "NOGD": {"max_atoms": 40, "rank": 10},
    "FOGD": {"n_features": 100},
    "DualSGD": {"n_features": 100, "max_atoms": 30},
}
FACTS = ("n_seen_", "n_atoms_", "n_coordinates_", "n_growths_")


def made(name, task, **changes):
    """Return a learner, unfitted."""
    return getattr(room, name + task)(RBF(1.0), random_state=0, **OPTIONS.get(name, {}), **changes)


def fed(model, X, y, sizes=(1, 3, 40, 130, 86), **first):
    """Return the learner after it was fed the rows in blocks of these sizes."""
    edges = np.cumsum(sizes)[:-1]
    for rows, values in zip(np.split(X, edges), np.split(y, edges), strict=True):
        model.partial_fit(rows, values, **first)
        first = {}
    return model


def of(model):
    """Return what an online learner is."""
    new = points(40, seed=11)
    facts = [int(getattr(model, name)) for name in FACTS if hasattr(model, name)]
    found = {"facts": facts, "predicted": model.predict(new)}
    if hasattr(model, "classes_"):
        found["decision"] = model.decision_function(new)
    return found


def _learner(name, task):
    def run(folder):
        X = points(N)
        y = targets(X) if task == "Regressor" else classes(X)
        names = {"classes": ["in", "out"]} if task == "Classifier" else {}
        blocks, rows = fed(made(name, task), X, y, **names), made(name, task)
        for number, (x, value) in enumerate(zip(X, y, strict=True)):
            rows.learn_one(x, value, **(names if number == 0 else {}))
        single = of(rows)
        ones = np.array([rows.predict_one(x) for x in points(20, seed=11)])
        return {**of(blocks), **{f"row by row, {key}": value for key, value in single.items()}, "ones": ones}

    return run


for _name in NAMES:
    for _task in ("Regressor", "Classifier"):
        case(f"online: {_name}{_task}")(_learner(_name, _task))


@case("online: several classes and other losses")
def _(folder):
    X = points(N)
    y = classes(X, ("near", "middle", "far"))
    found = {}
    for name, loss in (("ConKons", "logistic"), ("Kons", "squared_hinge"), ("FOGD", "logistic")):
        model = made(name, "Classifier", loss=loss).fit(X, y)
        found |= {f"{name}, {key}": value for key, value in of(model).items()}
    several = room.ConKonsRegressor(RBF(1.0), random_state=0).fit(X, targets(X))
    return {**found, "fit": several.predict(points(40, seed=11))}


@case("online: settings of the papers")
def _(folder):
    X, found = points(N), {}
    for name in ("ProsNKons", "ConKons", "BudgetKons"):
        options = {"max_atoms": 20} if name == "BudgetKons" else {}
        make = getattr(room, f"{name}Regressor").from_paper
        model = make(kernel=RBF(1.0), bound=3.0, random_state=0, **options).fit(X, targets(X))
        found |= {f"{name}, {key}": value for key, value in of(model).items()}
    model = room.KonsRegressor(Linear(), alpha=1.0, bound=4.0).fit(X, targets(X))
    return {**found, "bound": float(room.regret_bound(model, norm=2.0))}


@case("online: progressive validation")
def _(folder):
    X = points(N)
    found = {}
    for name, model, y in (
        ("regression", room.ConKonsRegressor(RBF(1.0), random_state=0), targets(X)),
        ("classification", room.FOGDClassifier(RBF(1.0), n_features=100, random_state=0), classes(X)),
    ):
        progress = room.progressive_validation(clone(model), X, y)
        found |= {f"{name}, losses": progress.losses, f"{name}, mean": progress.mean_loss}
        found |= {f"{name}, atoms": progress.atoms, f"{name}, surrogate": progress.surrogate}
    progress = room.progressive_validation(room.ConKonsRegressor(RBF(1.0), random_state=0), X, targets(X))
    batch = room.Batch(room.ConKonsRegressor(RBF(1.0), random_state=0).fit(X, targets(X))).fit(X, targets(X))
    return {**found, "batch": batch.losses_, "norm": batch.norm_, "predicted": batch.predict(X[:20])}


@case("online: test, then train")
def _(folder):
    X = points(N)
    model = room.ConKonsRegressor(RBF(1.0), random_state=0)
    answers = [model.test_then_train(rows, targets(rows)) for rows in np.split(X, 4)]
    return {"answers": np.concatenate([np.ravel(np.asarray(a, dtype=float)) for a in answers]), **of(model)}


@case("online: tables, sparse rows, saved and loaded")
def _(folder):
    X = points(N)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(to=np.where(X[:, 2] > 0, "A", "B"), y=targets(X))
    source = squeak.rows(frame, "y", scale="standard")
    model = room.ConKonsRegressor(RBF(1.0), random_state=0).fit(source)
    sparse = sp.csr_array(X * (X > 0))
    second = room.FOGDRegressor(RBF(1.0), n_features=100, random_state=0).partial_fit(sparse, targets(X))
    half = room.ProsNKonsRegressor(RBF(1.0), random_state=0).partial_fit(X[:130], targets(X)[:130])
    half.save(folder / "m.sqk")
    again = squeak.load(folder / "m.sqk").partial_fit(X[130:], targets(X)[130:])
    return {
        "table": model.predict(frame.drop(columns="y")[:40]),
        "sparse": second.predict(sparse[:40]),
        **{f"again, {key}": value for key, value in of(again).items()},
    }
