"""A small file of every kind that squeak saves, with what its object answers, for later versions to read.

    python -m tests.write_files tests/data/v0.2    write the files of this version, and expected.json

Rows are made by arithmetic, not by a random generator, so that every later version makes the same ones.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.gaussian_process.kernels import DotProduct, RationalQuadratic

import squeak
from squeak import bandits, dpp, graphs, learners, online
from squeak.kernels import RBF, Constant, Laplacian, Linear, Matern, PairwiseKernel, Polynomial
from squeak.samplers import Disqueak, Kors, RPCholesky, Squeak

EXPECTED = "expected.json"


def points(n: int = 120, d: int = 2, shift: float = 0.0) -> Any:
    """Return rows spread evenly over a square around 0."""
    steps = np.array([0.7548776662466927, 0.5698402909980532, 0.6710436067037893])[:d]
    return 4.0 * ((np.arange(1, n + 1)[:, None] * steps + shift) % 1.0) - 2.0


def targets(X: Any) -> Any:
    """Return a polynomial of the rows, which needs no library's sine."""
    return X[:, 0] * X[:, 1] + 0.5 * X[:, 0]


def classes(X: Any) -> Any:
    """Return three classes of the rows."""
    return np.array(["far", "middle", "near"])[(X[:, 0] > -0.5).astype(int) + (X[:, 1] > 0.4)]


NEW = points(5, shift=0.3)


def table(n: int = 40) -> Any:
    """Return a table with a number, a category, a date and gaps."""
    X = points(n)
    frame = pd.DataFrame(
        {
            "km": 100 * X[:, 0],
            "to": np.array(["AMS", "LIL", "CDG"])[np.arange(n) % 3],
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(n) * 5 % 37, unit="D"),
            "late": targets(X),
        }
    )
    frame.loc[::9, "km"] = np.nan
    return frame


def flights() -> Any:
    """Return the table as a source of rows."""
    return squeak.rows(table(), "late", scale="standard", missing="mean")


def words() -> list[str]:
    """Return rows that are text."""
    return [a + b for a in "abcd" for b in "efg"]


def alike(a: str, b: str) -> float:
    """Compare two words."""
    return sum(x == y for x, y in zip(a, b, strict=True)) / 2


TEXT = PairwiseKernel(alike)


def stream() -> Any:
    """Return a column that is longer than two blocks of a source."""
    return (np.arange(1, 140_001)[:, None] * 0.6180339887498949) % 1.0


class StopError(Exception):
    """What stops a run, so that its checkpoint is that of a run in the middle."""


def stopped(last: int | None) -> Any:
    """Return the column as a source; with a number, it breaks off after so many rows."""

    def read() -> Any:
        for start in range(0, 140_000, 10_000):
            if start == last:
                raise StopError
            yield stream()[start : start + 10_000]

    return squeak.rows(read, learn_rows=100)


def small() -> dict[str, Any]:
    """Return what learners are given: a kernel, and a sampler that keeps a few atoms."""
    return {"kernel": RBF(2.0), "sampler": Squeak(ridge=8.0, oversampling=1.5), "random_state": 0}


def arms() -> Any:
    """Return arms for bandits."""
    return points(9)


def judge(arm: int) -> float:
    """Return the reward of an arm."""
    return float(1.0 - ((arms()[arm] - 0.5) ** 2).sum())


Make = Callable[[], Any]
Use = Callable[[Any], dict[str, Any]]


def use_dictionary(d: Any) -> dict[str, Any]:
    """Return what a dictionary is and answers."""
    found = {"indices": d.indices, "counts": d.counts, "weights": d.weights, "ridge": d.ridge, "n_seen": d.n_seen}
    if isinstance(d.atoms, np.ndarray) and d.atoms.dtype.kind == "f":
        found["atoms"] = d.atoms[:4].astype(float)
    if d.preprocessing is not None:
        found |= {"columns": list(d.preprocessing.column_names), "names": list(d.preprocessing.feature_names)}
        found["scores"] = d.leverage_scores(table().drop(columns="late")[:5])
    elif isinstance(d.atoms, list):
        found["scores"] = d.leverage_scores(words())
    elif d.calibrated:
        rows = sp.csr_array(NEW * (NEW > 0)) if sp.issparse(d.atoms) else NEW.astype(d.atoms.dtype)
        found["scores"] = np.asarray(d.leverage_scores(rows), dtype=float)
    return found


def use_stream(sampler: Any) -> dict[str, Any]:
    """Return what a sampler has, and what it has after more rows."""
    before = {f"before, {key}": value for key, value in use_dictionary(sampler.dictionary_).items()}
    return {**before, **use_dictionary(sampler.partial_fit(points(80, shift=0.4)).dictionary_)}


def use_model(model: Any) -> dict[str, Any]:
    """Return what a learner answers, with whatever methods it has."""
    rows = table().drop(columns="late")[:5] if getattr(model, "preprocessing_", None) is not None else NEW
    return answers(model, rows)


def use_table_model(model: Any) -> dict[str, Any]:
    """Return what a learner answers that was fitted on a table."""
    return answers(model, table().drop(columns="late")[:5])


def answers(model: Any, rows: Any) -> dict[str, Any]:
    """Return the answers of every method for new rows."""
    found: dict[str, Any] = {}
    for name in ("predict", "decision_function", "predict_proba", "transform"):
        if hasattr(model, name):
            answer = getattr(model, name)(rows)
            found[name] = np.abs(answer) if type(model).__name__ in ("KernelPCA", "KernelCCA") else answer
    if hasattr(model, "transform_y"):
        found["transform_y"] = np.abs(model.transform_y(NEW))
    if hasattr(model, "classes_"):
        found["classes"] = [str(name) for name in model.classes_]
    return found


def use_deviations(model: Any) -> dict[str, Any]:
    """Return predictions with the standard deviations of f on the kernel's scale, which old files give too."""
    spread = model._left_out.spread(NEW)
    return {"mean": model.predict(NEW), "std": np.sqrt(model.alpha_ * (spread**2 - 1.0))}


def use_online(model: Any) -> dict[str, Any]:
    """Return what an online learner answers, and what it answers after more rows."""
    before = {f"before, {key}": value for key, value in use_model(model).items()}
    more = points(30, shift=0.4)
    y = classes(more) if hasattr(model, "classes_") else targets(more)
    model.partial_fit(more, y)
    return {**before, **use_model(model), "seen": model.n_seen_, "atoms": model.n_atoms_}


def use_online_table(model: Any) -> dict[str, Any]:
    """Return what an online learner of a table answers."""
    return {**use_table_model(model), "seen": model.n_seen_}


def use_preprocessing(found: Any) -> dict[str, Any]:
    """Return a table as the numbers that were learned for it."""
    return {"rows": found.encode(table().drop(columns="late")[:5]), "names": list(found.feature_names)}


def use_edges(sample: Any) -> dict[str, Any]:
    """Return the edges of a sample."""
    names = ("u", "v", "counts", "indices", "weights", "probabilities", "n_seen", "n_nodes")
    return {name: getattr(sample, name) for name in names}


def use_bandit(bandit: Any) -> dict[str, Any]:
    """Return what a bandit believes, and its next pulls."""
    mean, std = bandit.posterior(NEW)
    found = {"pulls": bandit.pulls_.copy(), "mean": mean, "std": std, "best": bandit.best_.index}
    if hasattr(bandit, "is_exact_"):
        found["exact"] = bandit.is_exact_
    return {**found, "next": bandit.run(judge, 6).pulls_}


def use_box(box: Any) -> dict[str, Any]:
    """Return what a box was told."""
    told, values = box.told_
    return {"points": [str(point) for point in told][:3], "values": values, "best": box.best_[1]}


def use_dpp(process: Any) -> dict[str, Any]:
    """Return the next samples of a point process."""
    found = {"size": process.expected_size_, "sample": process.sample()}
    return {**found, "fixed": process.sample(k=4), "marginals": process.marginals()[:5]}


def use_ridge_in_blocks(model: Any) -> dict[str, Any]:
    """Return what a ridge regression answers that was learned in blocks."""
    return answers(model, NEW)


def online_learner(name: str) -> Make:
    """Return a maker of an online learner in the middle of its rows."""

    def make() -> Any:
        few = {"FOGD": {"n_features": 20}, "DualSGD": {"n_features": 20, "max_atoms": 8}}
        few |= {
            "NOGD": {"max_atoms": 10, "rank": 5},
            "BudgetKons": {"max_atoms": 5},
            "ConKons": {"max_atoms": 5},
            "ProsNKons": {"max_atoms": 5},
        }
        kind = next((options for start, options in few.items() if name.startswith(start)), {})
        model = getattr(online, name)(RBF(2.0), random_state=0, **kind)
        X = points(10)
        return model.partial_fit(X, classes(X) if name.endswith("Classifier") else targets(X))

    return make


def bandit(kind: Any, **options: Any) -> Make:
    """Return a maker of a bandit that has been told some rewards."""
    return lambda: kind(arms(), RBF(2.0), noise=0.3, random_state=0, **options).run(judge, 8)


def box() -> Any:
    """Return a box of three sides that has been told some values."""
    sides = [bandits.Real(0.01, 1.0, log=True), bandits.Integer(1, 9), bandits.Categorical(["a", "b"])]
    made = bandits.BoxUCB(sides, random_state=0)
    for number in range(10):
        point = made.ask() if number < 3 else (0.1 * number, number % 9 + 1, "ab"[number % 2])
        made.tell(point, float(number % 4) - 0.1 * number)
    return made


def fitted(model: Any) -> Make:
    """Return a maker of a learner that is fitted to numbers."""
    return lambda: model.fit(points(), targets(points()))


def labelled(model: Any, y: Any = None) -> Make:
    """Return a maker of a classifier."""
    return lambda: model.fit(points(), classes(points()) if y is None else y)


def in_blocks(model: Any) -> Any:
    """Return a regression learned in blocks."""
    for rows in np.split(points(), 3):
        model.partial_fit(rows, targets(rows))
    return model


def kept(sampler: Any, rows: Any = None) -> Make:
    """Return a maker of a dictionary."""
    return lambda: sampler.fit(points() if rows is None else rows).dictionary_


def merged() -> Any:
    """Return a dictionary of two sources."""
    parts = [Squeak(RBF(2.0), 6.0, oversampling=2, source=name, random_state=0).fit(points()) for name in "ab"]
    return squeak.merge(*[part.dictionary_ for part in parts], random_state=0)


def squeak_of(kernel: Any, **options: Any) -> Any:
    """Return a sampler that keeps a few atoms."""
    return Squeak(kernel, 6.0, oversampling=1.5, random_state=0, **options)


SPARSE = sp.csr_array(points() * (points() > 0))
ALGEBRA = 2.0 * Matern(np.array([1.0, 2.0]), nu=2.5) + Polynomial(2, 2.0) * Laplacian(3.0) + Constant(0.5)

FILES: dict[str, tuple[Make, Use]] = {
    "dictionary": (kept(squeak_of(RBF(2.0))), use_dictionary),
    "dictionary-sparse": (
        kept(Kors(Linear(2.0, 1.0), 6.0, oversampling=2, random_state=0), SPARSE),
        use_dictionary,
    ),
    "dictionary-single": (kept(squeak_of(RBF(2.0), copies=4), points().astype(np.float32)), use_dictionary),
    "dictionary-sklearn": (kept(squeak_of(0.5 * RationalQuadratic(2.0) + DotProduct(0.5))), use_dictionary),
    "dictionary-algebra": (kept(squeak_of(ALGEBRA)), use_dictionary),
    "dictionary-table": (lambda: squeak_of(RBF(2.0)).fit(flights()).dictionary_, use_dictionary),
    "dictionary-text": (kept(Squeak(TEXT, 1.0, oversampling=3, random_state=0), words()), use_dictionary),
    "dictionary-landmarks": (kept(RPCholesky(RBF(1.0), 8, random_state=0)), use_dictionary),
    "dictionary-merged": (merged, use_dictionary),
    "stream-squeak": (lambda: squeak_of(RBF("median")).partial_fit(points()), use_stream),
    "stream-squeak-max-atoms": (
        lambda: Squeak(RBF(1.0), max_atoms=12, random_state=0).partial_fit(points()),
        use_stream,
    ),
    "stream-kors": (
        lambda: Kors(Matern(3.0), 6.0, oversampling=1.5, random_state=0).partial_fit(points()),
        use_stream,
    ),
    "preprocessing": (lambda: flights().preprocessing, use_preprocessing),
    "kernel-ridge": (fitted(learners.KernelRidge(solver="direct", **small())), use_deviations),
    "kernel-ridge-intercept": (
        fitted(learners.KernelRidge(solver="direct", fit_intercept=True, **small())),
        use_model,
    ),
    "kernel-ridge-falkon": (fitted(learners.KernelRidge(solver="falkon", **small())), use_model),
    "kernel-ridge-exact": (
        lambda: learners.KernelRidge(RBF(1.0), max_atoms=100).fit(points(10), targets(points(10))),
        use_model,
    ),
    "kernel-ridge-outputs": (
        lambda: learners.KernelRidge(solver="direct", **small()).fit(points(), points()[:, ::-1] ** 2),
        use_model,
    ),
    "kernel-ridge-table": (
        lambda: learners.KernelRidge(solver="direct", **small()).fit(flights()),
        use_table_model,
    ),
    "kernel-ridge-blocks": (lambda: in_blocks(learners.KernelRidge(**small())), use_ridge_in_blocks),
    "kernel-ridge-cv": (fitted(learners.KernelRidgeCV(alphas=(0.1, 1.0, 10.0), **small())), use_model),
    "kernel-classifier": (labelled(learners.KernelClassifier(solver="direct", **small())), use_model),
    "kernel-classifier-logistic": (labelled(learners.KernelClassifier(loss="logistic", **small())), use_model),
    "kernel-classifier-whole": (
        labelled(learners.KernelClassifier(solver="direct", **small()), (points()[:, 0] > 0).astype(int)),
        use_model,
    ),
    "kernel-classifier-truth": (
        labelled(learners.KernelClassifier(solver="direct", **small()), points()[:, 0] > 0),
        use_model,
    ),
    "kernel-gradient-descent": (
        lambda: learners.KernelGradientDescent(RBF(1.0), max_iter=20).fit(points(10), targets(points(10))),
        use_model,
    ),
    "kernel-pca": (fitted(learners.KernelPCA(3, **small())), use_model),
    "kernel-k-means": (fitted(learners.KernelKMeans(3, **small())), use_model),
    "kernel-cca": (
        lambda: learners.KernelCCA(2, kernel_y=RBF(2.0), **small()).fit(points(), points()[:, ::-1] ** 2),
        use_model,
    ),
    "nystroem": (fitted(learners.Nystroem(form="triangular", **small())), use_model),
    "random-features": (fitted(learners.RandomFeatures(RBF(1.0), n_features=12, random_state=0)), use_model),
    "random-feature-regressor": (
        fitted(learners.RandomFeatureRegressor(RBF(1.0), n_features=12, random_state=0)),
        use_model,
    ),
    "random-feature-classifier": (
        labelled(learners.RandomFeatureClassifier(RBF(1.0), loss="logistic", n_features=12, random_state=0)),
        use_model,
    ),
    "online-table": (
        lambda: online.ConKonsRegressor(RBF(2.0), max_atoms=5, random_state=0).fit(flights()),
        use_online_table,
    ),
    "edges": (
        lambda: graphs.StreamSparsifier(2.0, random_state=0).fit(np.ones((12, 12)) - np.eye(12)).sample_,
        use_edges,
    ),
    "gp_ucb": (bandit(bandits.GPUCB), use_bandit),
    "bkb": (bandit(bandits.BKB), use_bandit),
    "batch_bkb": (bandit(bandits.BatchBKB), use_bandit),
    "auto_ucb": (bandit(bandits.AutoUCB), use_bandit),
    "auto_ucb-sparse": (bandit(bandits.AutoUCB, crossover=2, repeats=0.1), use_bandit),
    "expected_improvement": (bandit(bandits.ExpectedImprovement), use_bandit),
    "probability_of_improvement": (bandit(bandits.ProbabilityOfImprovement), use_bandit),
    "gp_bucb": (bandit(bandits.GPBUCB, batch_size=3), use_bandit),
    "uniform_arms": (bandit(bandits.UniformArms), use_bandit),
    "sor_ucb": (bandit(bandits.SorUCB), use_bandit),
    "dictionary_thompson": (bandit(bandits.DictionaryThompson), use_bandit),
    "box_ucb": (box, use_box),
    "dpp": (lambda: dpp.DPP(RBF(2.0), random_state=0).fit(points(18)), use_dpp),
    "dpp-sampler": (
        lambda: dpp.DPP(RBF(2.0), Squeak(ridge=1.0), expected_size=5.0, random_state=0).fit(points(18)),
        use_dpp,
    ),
}
ONLINE = ("Kons", "SketchedKons", "ProsNKons", "ConKons", "BudgetKons", "KernelOGD", "FOGD", "NOGD", "DualSGD")
for _name in ONLINE:
    for _task in ("Regressor", "Classifier"):
        FILES[f"online-{_name}{_task}"] = (online_learner(_name + _task), use_online)


def loaded(path: Path) -> Any:
    """Return the object of a file; the one whose kernel is code is given it."""
    return squeak.load(path, kernel=TEXT if path.stem.endswith("-text") else None)


CHECKPOINTS = {"checkpoint-squeak": Squeak, "checkpoint-kors": Kors}
TREE = "checkpoint-tree"
EDGE_TREE = "checkpoint-edges"


def tree() -> Any:
    """Return a sampler that works up a tree."""
    return Disqueak(RBF(2.0), 6.0, oversampling=1.5, n_leaves=2, random_state=0)


def edge_tree() -> Any:
    """Return a sparsifier that works up a tree, and its edges."""
    u, v = np.triu_indices(12, 1)
    mixed = (np.arange(1, len(u) + 1) * 0.6180339887498949) % 1.0
    edges = np.column_stack([u, v, 0.5 + mixed**2])[np.argsort(mixed)]
    return graphs.DistributedSparsifier(2.0, n_leaves=2, random_state=0), edges


def use_checkpoint(name: str, path: Path) -> dict[str, Any]:
    """Go on with a run that was stopped, to its end. The file is replaced: give a copy."""
    return use_ended(CHECKPOINTS[name].resume(path, stopped(None), every=1e9))


def use_ended(sampler: Any) -> dict[str, Any]:
    """Return what a run came to."""
    d = sampler.dictionary_
    return {"indices": d.indices, "counts": d.counts, "weights": d.weights, "n_seen": d.n_seen}


def use_trees(folder: Path) -> dict[str, Any]:
    """Go on with two trees whose leaves are done. The folders change: give copies."""
    d = tree().fit(points(), checkpoint=folder / TREE).dictionary_
    sparsifier, edges = edge_tree()
    sample = sparsifier.fit(edges, checkpoint=folder / EDGE_TREE).sample_
    return {"indices": d.indices, "weights": d.weights, "edges": sample.indices, "edge weights": sample.weights}


def write_runs(folder: Path) -> None:
    """Write the checkpoints of runs that were stopped half way."""
    for name, kind in CHECKPOINTS.items():
        try:
            kind(RBF(0.6), 5000.0, oversampling=2, random_state=0).fit(
                stopped(100_000), checkpoint=folder / f"{name}.sqk", every=0.0
            )
        except StopError:
            continue
        raise AssertionError(f"the run {name} was not stopped")
    tree().fit(points(), checkpoint=folder / TREE)
    sparsifier, edges = edge_tree()
    sparsifier.fit(edges, checkpoint=folder / EDGE_TREE)
    for name in (TREE, EDGE_TREE):
        (folder / name / "node-2.sqk").unlink()  # the root: the leaves are done, the merge is not


def plain(value: Any) -> Any:
    """Return a value as JSON data, its floats to 14 digits."""
    array = np.asarray(value)
    if array.dtype.kind == "f":
        array = np.array([float(f"{number:.13e}") for number in array.ravel()]).reshape(array.shape)
    return [str(v) for v in array.ravel()] if array.dtype.kind in "USO" and array.ndim else array.tolist()


def main(folder: Path) -> None:
    """Write every file and what its object answers."""
    import shutil
    import tempfile

    folder.mkdir(parents=True)
    expected: dict[str, Any] = {}
    for name, (make, use) in FILES.items():
        squeak.save(make(), folder / f"{name}.sqk")
        expected[name] = {key: plain(value) for key, value in use(loaded(folder / f"{name}.sqk")).items()}
    write_runs(folder)
    with tempfile.TemporaryDirectory() as copy:
        for name in CHECKPOINTS:
            shutil.copy(folder / f"{name}.sqk", copy)
            answer = use_checkpoint(name, Path(copy) / f"{name}.sqk")
            expected[name] = {key: plain(value) for key, value in answer.items()}
        for name in (TREE, EDGE_TREE):
            shutil.copytree(folder / name, Path(copy) / name)
        expected[TREE] = {key: plain(value) for key, value in use_trees(Path(copy)).items()}
    lines = [f" {json.dumps(name)}: {json.dumps(expected[name], allow_nan=False)}" for name in sorted(expected)]
    (folder / EXPECTED).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf8")


if __name__ == "__main__":
    if len(sys.argv) != 2 or Path(sys.argv[1]).exists():
        sys.exit("usage: python -m tests.write_files FOLDER (a folder that does not exist yet)")
    main(Path(sys.argv[1]))
