"""One small object of every kind that a file can hold, and what a user does with it after loading."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

import squeak
from squeak import bandits, online
from squeak.dpp import DPP
from squeak.graphs import StreamSparsifier
from squeak.graphs.sample import EdgeSample
from squeak.kernels import RBF, Laplacian, Linear, Matern, Metric, PairwiseKernel, Polynomial
from squeak.learners import (
    BasicFalkon,
    DivideAndConquerRidge,
    KernelCCA,
    KernelGradientDescent,
    NytroRegressor,
    QuadratureFeatures,
)
from tests.core.mutations import put_together, taken_apart

N = 40
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
NEW = RNG.standard_normal((3, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
LABELS = np.where(Y > 0.5, "high", np.where(Y < -0.5, "low", "mid"))
BLENDED = (Laplacian("learned"), Metric(RBF("learned"), None))
FRAME_OF_X = pd.DataFrame(X, columns=["a", "b"])
FRAME = pd.DataFrame({"km": X[:, 0], "to": np.where(X[:, 1] > 0, "A", "B")})
STEPS = np.random.default_rng(1).uniform(-1, 1, (160, 2))


@dataclass(frozen=True)
class Specimen:
    """What makes the object, and what uses it: returns numbers that must be finite."""

    make: Callable[[], Any]
    use: Callable[[Any], Any]
    load: Callable[[Path], Any] = squeak.load
    save: Callable[[Any, Path], None] = squeak.save


def use_dictionary(d: Any) -> Any:
    rows = NEW if d.preprocessing is None else FRAME[:3]
    if sp.issparse(d.atoms):
        rows = sp.csr_array(NEW)
    found = [d.weights, d.positions]
    if d.calibrated:
        found += [d.leverage_scores(rows), d.eigenvalues(), d.effective_dimension()]
    return [repr(d), d._repr_html_(), *found]


def use_sampler(sampler: Any) -> Any:
    sampler.partial_fit(X + 0.5)
    return [*use_dictionary(sampler.dictionary_), sampler.effective_dimension_, repr(sampler)]


def use_preprocessing(p: Any) -> Any:
    return [p.encode(FRAME[:4]), repr(p), str(p.decode(p.encode(FRAME[:4])))]


def use_learner(model: Any) -> Any:
    found = [repr(model)]
    for name in ("predict", "transform", "decision_function", "predict_proba"):
        if hasattr(model, name):
            said = getattr(model, name)(NEW)
            found.append(said if np.asarray(said).dtype.kind in "biuf" else list(map(str, said)))
    return found


def use_ridge(model: Any) -> Any:
    # a file with fewer than nine scores has infinite intervals of 90%: so says the guarantee
    return [*use_learner(model), *model.predict(NEW, return_std=True), *model.predict_interval(NEW, 0.5)]


def more(targets: Any = None) -> Callable[[Any], Any]:
    def use(model: Any) -> Any:
        before = use_learner(model)
        model.partial_fit(X, *([] if targets is None else [targets]))
        return before + use_learner(model)

    return use


def use_online_regressor(model: Any) -> Any:
    model.partial_fit(X[:5], Y[:5])
    model.learn_one(X[0], 0.5)
    return [model.predict(NEW), model.predict_one(NEW[0]), repr(model), model.n_atoms_]


def use_online_classifier(model: Any) -> Any:
    classes = model.classes_.tolist()
    model.partial_fit(X[:5], np.array([classes[i % len(classes)] for i in range(5)], dtype=model.classes_.dtype))
    return [model.decision_function(NEW), list(map(str, model.predict(NEW))), repr(model)]


def letters(a: str, b: str) -> float:
    return float(len(set(a) & set(b)))


WORDS = ["squeak", "ünder", "mouse", "größe", "keyboard"]


def use_words(d: Any) -> Any:
    return [d.leverage_scores(["mouse", "tree"]), repr(d), d.effective_dimension()]


def stopped(path: Path) -> None:
    """Write the checkpoint of a run as it is before its last words: all rows are read, and it is not finished."""
    path.unlink(missing_ok=True)
    squeak.Squeak(RBF(1.0), ridge=1.0, random_state=0).fit(X, checkpoint=path)
    members = taken_apart(path.read_bytes())
    members["meta.json"] = members["meta.json"].replace(b'"finished": true', b'"finished": false')
    path.write_bytes(put_together(members))


def resumed(path: Path) -> Any:
    return squeak.Squeak.resume(path, X)


def use_edges(sample: Any) -> Any:
    return [sample.weights, sample.graph.weights, sample.effective_dimension(), repr(sample)]


def use_bandit(bandit: Any) -> Any:
    if hasattr(bandit, "batch_size"):  # how many arms to ask for is the user's to say, and may take long
        bandit.batch_size = min(bandit.batch_size, 20)
    found = []
    for _ in range(3):
        asked = np.atleast_1d(bandit.ask())
        bandit.tell(asked, np.sin(asked.astype(float)))
        found.append(asked)
    return [*found, bandit.best_.mean, repr(bandit)]


def use_box(box: Any) -> Any:
    limits = [0.5] * (box.n_constraints_ or 0)
    for _ in range(2):
        box.tell(box.ask(), 0.25 if box.objectives == 1 else [0.25] * box.objectives, limits)
    return [box.front_, box.rewards_]


def use_dpp(dpp: Any) -> Any:
    return [dpp.expected_size_, dpp.sample(), dpp.sample(k=2), repr(dpp)]


def use_dpp_of_files(dpp: Any) -> Any:
    return use_dpp(dpp.attach_rows(FRAME_OF_X))


def told(cls: Any, **params: Any) -> Any:
    bandit = cls(X[:12], RBF(1.0), random_state=0, **params)
    for _ in range(8):
        asked = np.atleast_1d(bandit.ask())
        bandit.tell(asked, np.sin(asked.astype(float)))
    return bandit


def told_box(sides: Any, steps: int, constraints: Any = (), **params: Any) -> Any:
    box = bandits.BoxUCB(sides, random_state=0, n_initial=3, **params)
    for step in range(steps):
        values = np.sin(3.0 * step + np.arange(box.objectives)).tolist()
        box.tell(box.ask(), values if box.objectives > 1 else values[0], [c + 0.1 * step for c in constraints])
    return box


def failed_box(box: Any) -> Any:
    box.fail(box.ask())
    return box


def squeak_(cls: Any = squeak.Squeak, **params: Any) -> Any:
    return cls(**{"kernel": RBF(1.0), "ridge": 1.0, "random_state": 0, **params}).fit(X)


def edges() -> EdgeSample:
    near = np.exp(-((X[:15, None] - X[None, :15]) ** 2).sum(axis=2)) * (1 - np.eye(15))
    return StreamSparsifier(random_state=0, oversampling=2.0).fit(near).sample_


def edge_stream() -> StreamSparsifier:
    near = np.exp(-((X[:15, None] - X[None, :15]) ** 2).sum(axis=2)) * (1 - np.eye(15))
    return StreamSparsifier(random_state=0, oversampling=2.0).fit(near)


def use_edge_stream(stream: Any) -> Any:
    return [*use_edges(stream.sample_), repr(stream)]


def of_files() -> DPP:
    path = Path(os.environ["SQUEAK_SPECIMENS"]) / "rows.csv"
    path.write_text("a,b\n" + "\n".join(f"{float(a)!r},{float(b)!r}" for a, b in X) + "\n")
    return DPP(RBF(1.0), random_state=0).fit(squeak.rows(path))


SPECIMENS: dict[str, Specimen] = {
    "dictionary": Specimen(lambda: squeak_(kernel=RBF(np.array([1.0, 2.0]))).dictionary_, use_dictionary),
    "dictionary, CSR": Specimen(
        lambda: (
            squeak.Kors(kernel=2.0 * Matern(1.0) + Linear(), ridge=1.0, copies=3, random_state=0)
            .fit(sp.csr_array(X * (X > 0)))
            .dictionary_
        ),
        use_dictionary,
    ),
    "dictionary, table": Specimen(
        lambda: (
            squeak.Squeak(kernel=Polynomial(2), ridge=1.0, random_state=0)
            .fit(squeak.rows(FRAME, scale="standard", missing="mean"))
            .dictionary_
        ),
        use_dictionary,
    ),
    "stream": Specimen(lambda: squeak_(kernel=RBF("median"), ridge=None, max_atoms=15), use_sampler),
    "stream, Kors": Specimen(lambda: squeak_(squeak.Kors, copies=2), use_sampler),
    "preprocessing": Specimen(
        lambda: squeak.rows(FRAME, scale="standard", missing="mean").preprocessing, use_preprocessing
    ),
    "preprocessing, clipped": Specimen(
        lambda: squeak.rows(FRAME, scale="robust", missing="median").preprocessing, use_preprocessing
    ),
    "preprocessing, targets": Specimen(
        lambda: squeak.rows(FRAME, target=Y, scale="standard", categories="target").preprocessing, use_preprocessing
    ),
    "dictionary, text": Specimen(
        lambda: squeak.Squeak(PairwiseKernel(letters), ridge=0.1, random_state=0).fit(WORDS).dictionary_,
        use_words,
        lambda path: squeak.load(path, kernel=PairwiseKernel(letters)),
    ),
    "checkpoint": Specimen(lambda: None, use_sampler, resumed, lambda nothing, path: stopped(path)),
    "checkpoint, loaded": Specimen(lambda: None, use_sampler, save=lambda nothing, path: stopped(path)),
    "edges": Specimen(edges, use_edges),
    "edge-stream": Specimen(edge_stream, use_edge_stream),
    "kernel-ridge": Specimen(
        lambda: squeak.KernelRidge(RBF(1.0), max_atoms=12, random_state=0, solver="direct").fit(X, Y), use_ridge
    ),
    "kernel-ridge, two outputs": Specimen(
        lambda: squeak.KernelRidge(RBF(1.0), max_atoms=12, random_state=0).fit(X, np.c_[Y, -Y]), use_learner
    ),
    "kernel-ridge-cv": Specimen(
        lambda: squeak.KernelRidgeCV(RBF(1.0), max_atoms=12, random_state=0).fit(X, Y), use_ridge
    ),
    "kernel-classifier": Specimen(
        lambda: squeak.KernelClassifier(RBF(1.0), max_atoms=12, random_state=0).fit(X, LABELS), use_learner
    ),
    "kernel-classifier, whole numbers": Specimen(
        lambda: squeak.KernelClassifier(RBF(1.0), max_atoms=12, random_state=0).fit(X, Y > 0), use_learner
    ),
    "kernel-blend": Specimen(
        lambda: squeak.KernelBlend(BLENDED, max_atoms=6, search_atoms=6, rounds=1, random_state=0).fit(X, Y),
        use_learner,
    ),
    "local-experts": Specimen(
        lambda: squeak.LocalExperts(
            squeak.KernelBlend(BLENDED, max_atoms=5, search_atoms=5, rounds=0), leaf_rows=15, random_state=0
        ).fit(X, np.c_[Y, -Y]),
        use_learner,
    ),
    "local-experts, classes": Specimen(
        lambda: squeak.LocalExperts(
            squeak.KernelClassifier(RBF(1.0), max_atoms=5), leaf_rows=20, random_state=0
        ).fit(X, LABELS),
        use_learner,
    ),
    "auto-regressor": Specimen(
        lambda: squeak.AutoRegressor(max_atoms=6, random_state=0).fit(X, Y),
        lambda model: [
            *use_learner(model),
            *model.predict(NEW, return_std=True),
            *model.predict_interval(NEW, 0.5),
            model.relevance_,
        ],
    ),
    "auto-regressor, table": Specimen(
        lambda: squeak.AutoRegressor(max_atoms=6, random_state=0).fit(FRAME, Y),
        lambda model: [repr(model), model.predict(FRAME[:3])],
    ),
    "auto-regressor, trees": Specimen(
        lambda: squeak.AutoRegressor(max_atoms=6, random_state=0).fit(STEPS, np.floor(3 * STEPS[:, 0])),
        lambda model: [repr(model), model.predict(STEPS[:5])],
    ),
    "auto-classifier": Specimen(
        lambda: squeak.AutoClassifier(max_atoms=6, random_state=0).fit(X, LABELS), use_learner
    ),
    "kernel-gradient-descent": Specimen(
        lambda: KernelGradientDescent(RBF(1.0), max_iter=20).fit(X, Y), use_learner
    ),
    "basic-falkon": Specimen(
        lambda: BasicFalkon(RBF(1.0), max_atoms=8, max_iter=5, random_state=0).fit(X, Y), use_learner
    ),
    "divide-and-conquer-ridge": Specimen(
        lambda: DivideAndConquerRidge(RBF(1.0), n_parts=3, random_state=0).fit(X, Y), use_learner
    ),
    "nytro-regressor": Specimen(
        lambda: NytroRegressor(RBF(1.0), max_atoms=8, validation_fraction=0.2, random_state=0).fit(X, Y),
        use_learner,
    ),
    "kernel-cca": Specimen(
        lambda: KernelCCA(kernel=RBF(1.0), max_atoms=10, random_state=0).fit(X, np.c_[Y, -Y]), use_learner
    ),
    "kernel-k-means": Specimen(
        lambda: squeak.KernelKMeans(3, kernel=RBF(1.0), max_atoms=12, random_state=0).fit(X), more()
    ),
    "kernel-pca": Specimen(
        lambda: squeak.KernelPCA(2, kernel=RBF(1.0), max_atoms=12, random_state=0).fit(X), more()
    ),
    "nystroem": Specimen(
        lambda: squeak.Nystroem(kernel=RBF(1.0), max_atoms=12, random_state=0).fit(X), use_learner
    ),
    "quadrature-features": Specimen(lambda: QuadratureFeatures(RBF(1.0), n_features=30).fit(X), use_learner),
    "random-features": Specimen(
        lambda: squeak.RandomFeatures(RBF(1.0), n_features=20, random_state=0).fit(X), use_learner
    ),
    "random-feature-regressor": Specimen(
        lambda: squeak.RandomFeatureRegressor(RBF(1.0), n_features=20, random_state=0).fit(X, Y), more(Y)
    ),
    "random-feature-classifier": Specimen(
        lambda: squeak.RandomFeatureClassifier(RBF(1.0), n_features=20, random_state=0).fit(X, LABELS), more(LABELS)
    ),
    "box_ucb": Specimen(lambda: told_box([(-1.0, 1.0), (0.0, 2.0)], 6), use_box),
    "box_ucb, mixed": Specimen(
        lambda: told_box([["a", "b", "c"], bandits.Integer(1, 9), bandits.Real(0.1, 10.0, log=True)], 6), use_box
    ),
    "box_ucb, many": Specimen(lambda: told_box([(-1.0, 1.0)], 9, crossover=4, max_atoms=4), use_box),
    "box_ucb, constraints and failures": Specimen(
        lambda: failed_box(told_box([(-1.0, 1.0), (0.0, 2.0)], 5, constraints=[0.5, -0.5])), use_box
    ),
    "box_ucb, conditions and objectives": Specimen(
        lambda: told_box([["a", "b"], (0.0, 2.0)], 6, conditions={1: (0, ["b"])}, objectives=2), use_box
    ),
    "box_ucb, new": Specimen(lambda: told_box([(-1.0, 1.0)], 1), use_box),
    "dpp": Specimen(lambda: DPP(RBF(1.0), random_state=0).fit(X), use_dpp),
    "dpp, sampler": Specimen(
        lambda: DPP(RBF(1.0), squeak.Squeak(oversampling=8.0), expected_size=5, random_state=0).fit(X), use_dpp
    ),
    "dpp, files": Specimen(of_files, use_dpp_of_files),
}
for name in (
    *("GPUCB", "BKB", "BatchBKB", "AutoUCB", "UniformArms", "ExpectedImprovement", "ThompsonSampling"),
    *("ProbabilityOfImprovement", "GPBUCB", "SorUCB", "DictionaryThompson"),
):
    cls = getattr(bandits, name)
    SPECIMENS[cls.kind] = Specimen(lambda cls=cls: told(cls), use_bandit)
for name in online.__all__:
    cls = getattr(online, name)
    if name.endswith("Regressor"):
        extra = {"max_atoms": 8, "rank": 4} if name.startswith("NOGD") else {}
        extra = {"n_features": 20} if name.startswith(("FOGD", "DualSGD")) else extra
        SPECIMENS[f"online, {name}"] = Specimen(
            lambda cls=cls, extra=extra: cls(RBF(1.0), random_state=0, **extra).fit(X, Y), use_online_regressor
        )
SPECIMENS["online, warming up"] = Specimen(
    lambda: online.ProsNKonsRegressor(random_state=0).partial_fit(X[:20], Y[:20]), use_online_regressor
)
SPECIMENS["online, scaled"] = Specimen(
    lambda: online.ConKonsRegressor(RBF(1.0), scale="robust", max_atoms=8, random_state=0).fit(X[:40], Y[:40]),
    use_online_regressor,
)
SPECIMENS["online, scaled, after a drift"] = Specimen(
    lambda: online.ConKonsRegressor(RBF(1.0), scale="robust", alarm_rate=0.5, max_atoms=8, random_state=0).fit(
        np.tile(X, (9, 1)), np.concatenate([np.tile(Y, 6), 4.0 - np.tile(Y, 3)])
    ),
    use_online_regressor,
)
SPECIMENS["online, three classes"] = Specimen(
    lambda: online.ConKonsClassifier(RBF(1.0), random_state=0).fit(X, LABELS), use_online_classifier
)
SPECIMENS["online, two classes"] = Specimen(
    lambda: online.FOGDClassifier(RBF(1.0), n_features=20, random_state=0).fit(X, Y > 0), use_online_classifier
)
