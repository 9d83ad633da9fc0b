"""Streams in order: error before each row is learned, κ, processor time and memory, against river's learners.

``python -m benchmarks streams --streams elec2,covtype --methods mixed,arf --rows 20000 --seeds 0``: every part can
be bounded. A measurement is one line of ``results/streams.jsonl``, found again by stream, seed, rows, method and
version of the method's settings: a run measures only what is not there, and ``benchmarks.streams_page`` makes the
tables. ``--part scales`` and ``--part mixture`` are the tables of docs/online.md. Settings of squeak were chosen on
the streams of ``REAL`` and ``MADE``; those of ``UNSEEN`` played no part in any choice. One core.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.common import DATA, RESULTS, PeakMemory
from squeak.core import engine
from squeak.kernels import RBF
from squeak.online import ConKonsClassifier, ConKonsRegressor, MixedKonsClassifier, MixedKonsRegressor

LINES = RESULTS / "streams.jsonl"
MOST_ROWS = 100_000
REAL = {"elec2": False, "covtype": False, "ijcnn1": False, "nycflights": True}
MADE = {"agrawal": False, "sea": False, "led": False, "rbf": False, "hyperplane": False, "friedman": True}
"""The streams, and whether their targets are numbers. Those of ``MADE`` were unseen once: they then showed that
the relevance of columns has to be learned anew after a drift, that linear experts were missing (half-lives 3,000
and 30 out of 9 sets, with the logistic loss for labels), and from what on a column matters (0.15 out of 3)."""

UNSEEN = {
    "sine": False,
    "stagger": False,
    "waveform": False,
    "loans": False,
    "tree": False,
    "blobs": False,
    "planes": True,
}
"""Streams that were written down here, with the numbers of their rows, before any learner was run on them. No
setting was changed because of them. What happens after an alarm was changed later, by what it does to streams of
``REAL`` and ``MADE`` (agrawal and friedman also with other seeds), and the mixture was then measured again. Two of
them, waveform and planes, do not drift."""

UNSEEN_ROWS = dict.fromkeys(UNSEEN, 50_000) | {"planes": 20_000}
"""Fewer rows than the others have: on friedman, a forest of river takes 12 ms per row."""

NAMES = {**REAL, **MADE, **UNSEEN}

WINDOW, REFIT, FIRST = 5_000, 1_000, (25, 50, 100, 200, 400, 700)


@dataclass(frozen=True)
class Stream:
    """Rows in order with their targets."""

    X: np.ndarray
    y: np.ndarray
    numbers: bool


def load(name: str, seed: int, rows: int) -> Stream | None:
    """Return a stream, or None where it is not at hand; real ones are the same for every seed."""
    if name not in REAL:
        rows = min(rows, UNSEEN_ROWS.get(name, rows))
        pairs = list((unseen if name in UNSEEN else made)(name, seed, rows).take(rows))
        X = np.array([list(x.values()) for x, _ in pairs], dtype=np.float64)
        y = np.array([y for _, y in pairs], dtype=np.float64 if NAMES[name] else np.int64)
        return Stream(X, y, NAMES[name])
    path = DATA / f"{name}.npz"
    if not path.exists():
        print(f"  {name}: not at hand, left out")
        return None
    with np.load(path) as file:
        X, y = file["X"][:rows].astype(np.float64), file["y"][:rows]
    y = y.astype(np.float64) if REAL[name] else np.maximum(y, 0).astype(np.int64)  # river's two classes are 0 and 1
    return Stream(np.ascontiguousarray(X), y, REAL[name])


def made(name: str, seed: int, rows: int) -> Any:
    """Return one of river's generators with drift."""
    from river.datasets import synth

    half, wide = rows // 2, max(rows // 20, 1)

    def drifting(first: Any, second: Any) -> Any:
        return synth.ConceptDriftStream(first, second, position=half, width=wide, seed=seed)

    if name == "agrawal":
        return drifting(synth.Agrawal(0, seed=seed), synth.Agrawal(4, seed=seed))
    if name == "sea":
        return drifting(synth.SEA(0, seed=seed, noise=0.1), synth.SEA(2, seed=seed, noise=0.1))
    if name == "led":
        return synth.LEDDrift(seed=seed, noise_percentage=0.1, n_drift_features=4)
    if name == "rbf":
        return synth.RandomRBFDrift(
            seed_model=seed, seed_sample=seed, n_classes=4, n_features=10, n_centroids=20, change_speed=0.001
        )
    if name == "hyperplane":
        return synth.Hyperplane(seed=seed, n_features=10, n_drift_features=4, mag_change=0.001)
    return synth.FriedmanDrift("gra", position=(rows // 3, 2 * rows // 3), transition_window=wide, seed=seed)


def unseen(name: str, seed: int, rows: int) -> Any:
    """Return one of the streams that played no part in any choice."""
    from river.datasets import synth

    def drifting(first: Any, second: Any, width: int) -> Any:
        return synth.ConceptDriftStream(first, second, position=rows // 2, width=width, seed=seed)

    if name == "sine":  # two columns that matter and two of noise; sudden, for river fails with a width of 1
        return drifting(synth.Sine(0, seed=seed, has_noise=True), synth.Sine(2, seed=seed, has_noise=True), 200)
    if name == "stagger":  # three columns of categories; gradual
        return drifting(synth.STAGGER(0, seed=seed), synth.STAGGER(1, seed=seed), rows // 10)
    if name == "waveform":  # three classes, 21 columns and 19 of noise; no drift
        return synth.Waveform(seed=seed, has_noise=True)
    if name == "loans":  # 5% noise in numbers; gradual
        kinds = (synth.Agrawal(function, seed=seed, perturbation=0.05) for function in (2, 6))
        return drifting(*kinds, rows // 10)
    if name == "tree":  # five columns of numbers and five of categories; sudden
        return drifting(*(synth.RandomTree(seed_tree=seed + i, seed_sample=seed) for i in (0, 100)), 200)
    if name == "blobs":  # three classes; gradual
        kinds = (synth.RandomRBF(seed_model=seed + i, seed_sample=seed, n_classes=3) for i in (0, 100))
        return drifting(*kinds, rows // 10)
    return synth.Planes2D(seed=seed)  # numbers; no drift


Run = Callable[[Stream, int], np.ndarray]
"""(stream, seed) ↦ the prediction of every row before it was learned."""


def ours(regressor: Any, classifier: Any, *, singly: bool = False, **params: Any) -> Run:
    """Return the run of one of squeak's learners, in blocks or row by row."""

    def run(data: Stream, seed: int) -> np.ndarray:
        model = (regressor if data.numbers else classifier)(random_state=seed, **params)
        first = {} if data.numbers else {"classes": np.unique(data.y)}
        start = model.test_then_train_one(data.X[0], data.y[0], **first)
        if singly:
            rows = zip(data.X[1:], data.y[1:], strict=True)
            return np.array([start, *(model.test_then_train_one(x, y) for x, y in rows)])
        return np.concatenate([[start], model.test_then_train(data.X[1:], data.y[1:])])

    return run


def rivers(make: Callable[[bool, int, bool], Any]) -> Run:
    """Return the run of a model of river; ``make`` knows if targets are numbers, the seed, if classes are many."""

    def run(data: Stream, seed: int) -> np.ndarray:
        many = not data.numbers and len(np.unique(data.y)) > 2
        model, said = make(data.numbers, seed, many), []
        for row, y in zip(data.X.tolist(), data.y.tolist(), strict=True):
            x = dict(enumerate(row))
            guess = model.predict_one(x)
            said.append(0 if guess is None else guess)
            model.learn_one(x, y)
        return np.array(said, dtype=data.y.dtype)

    return run


def previous(data: Stream, seed: int) -> np.ndarray:
    """Predict the target of the row before."""
    return np.concatenate([[0], data.y[:-1]]).astype(data.y.dtype)


def windows(data: Stream, seed: int) -> np.ndarray:
    """Refit LightGBM every 1,000 rows on the last 5,000, at first sooner; before, say the last target."""
    import lightgbm

    make = lightgbm.LGBMRegressor if data.numbers else lightgbm.LGBMClassifier
    said = previous(data, seed)
    starts = [*FIRST, *range(REFIT, len(data.y), REFIT)]
    for start, stop in pairwise([*starts, len(data.y)]):
        rows, after = slice(max(0, start - WINDOW), start), slice(start, stop)
        if len(np.unique(data.y[rows])) == 1:
            said[after] = data.y[start - 1]
            continue
        model = make(n_jobs=1, verbose=-1, random_state=seed).fit(data.X[rows], data.y[rows])
        said[after] = model.predict(data.X[after])
    return said


def arf(numbers: bool, seed: int, many: bool) -> Any:
    from river import forest

    return forest.ARFRegressor(seed=seed) if numbers else forest.ARFClassifier(seed=seed)


def srp(numbers: bool, seed: int, many: bool) -> Any:
    from river import ensemble

    return ensemble.SRPRegressor(seed=seed) if numbers else ensemble.SRPClassifier(seed=seed)


def hat(numbers: bool, seed: int, many: bool) -> Any:
    from river import tree

    kinds = tree.HoeffdingAdaptiveTreeRegressor, tree.HoeffdingAdaptiveTreeClassifier
    return kinds[0 if numbers else 1](seed=seed)


def amf(numbers: bool, seed: int, many: bool) -> Any:
    from river import forest

    return forest.AMFRegressor(seed=seed) if numbers else forest.AMFClassifier(seed=seed)


def knn(numbers: bool, seed: int, many: bool) -> Any:
    """The last 1,000 rows: river 0.26 has no kNN with ADWIN; a window forgets as well."""
    from river import neighbors, preprocessing

    search = neighbors.LazySearch(window_size=1_000)
    kind = neighbors.KNNRegressor if numbers else neighbors.KNNClassifier
    return preprocessing.StandardScaler() | kind(engine=search)


def linear(numbers: bool, seed: int, many: bool) -> Any:
    from river import linear_model, multiclass, preprocessing

    if numbers:
        return preprocessing.StandardScaler() | linear_model.LinearRegression()
    model = linear_model.LogisticRegression()
    return preprocessing.StandardScaler() | (multiclass.OneVsRestClassifier(model) if many else model)


def passive(numbers: bool, seed: int, many: bool) -> Any:
    from river import linear_model, multiclass, preprocessing

    if numbers:
        return preprocessing.StandardScaler() | linear_model.PARegressor()
    model = linear_model.PAClassifier()
    return preprocessing.StandardScaler() | (multiclass.OneVsRestClassifier(model) if many else model)


METHODS: dict[str, tuple[Run, int]] = {
    "mixed": (ours(MixedKonsRegressor, MixedKonsClassifier), 3),
    "con": (ours(ConKonsRegressor, ConKonsClassifier, curvature="auto"), 1),
    "mixed_singly": (ours(MixedKonsRegressor, MixedKonsClassifier, singly=True), 1),
    "con_singly": (ours(ConKonsRegressor, ConKonsClassifier, singly=True, curvature="auto"), 1),
    "previous": (previous, 1),
    "arf": (rivers(arf), 1),
    "srp": (rivers(srp), 1),
    "hat": (rivers(hat), 1),
    "amf": (rivers(amf), 1),
    "knn": (rivers(knn), 1),
    "linear": (rivers(linear), 1),
    "pa": (rivers(passive), 1),
    "lightgbm": (windows, 2),
}
"""Each with the version of its settings: raise it when they change, and it is measured anew."""


def kappa(y: np.ndarray, said: np.ndarray) -> float:
    """Return Cohen's κ: accuracy beyond that of guessing with the same frequencies."""
    labels = np.unique(np.concatenate([y, said]))
    chance = sum(float(np.mean(y == one) * np.mean(said == one)) for one in labels)
    return float((np.mean(y == said) - chance) / (1.0 - chance)) if chance < 1.0 else 0.0


def measure(data: Stream, method: str, seed: int) -> dict[str, Any]:
    """Return the error of a method on a stream (for numbers, over the variance), κ, processor time and memory."""
    with PeakMemory() as memory, engine.single_blas():
        start = time.process_time()
        said = METHODS[method][0](data, seed)
        seconds = time.process_time() - start
    errors = (said - data.y) ** 2 / data.y.var() if data.numbers else (said != data.y).astype(float)
    return {
        "error": float(errors.mean()),
        "kappa": None if data.numbers else kappa(data.y, said),
        "microseconds": seconds / len(data.y) * 1e6,
        "peak_mb": memory.peak / 1e6,
        "curve": [round(float(part.mean()), 5) for part in np.array_split(errors, 50)],
    }


def recorded() -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the cached results; of several with one key the last one counts."""
    lines = LINES.read_text().splitlines() if LINES.exists() else []
    records = [json.loads(line) for line in lines]
    return {(r["stream"], r["seed"], r["rows"], r["method"], r["settings"]): r for r in records}


def peers(options: argparse.Namespace) -> None:
    """Measure what is chosen and not cached, and print what is known of it."""
    for name in options.streams:
        for seed in options.seeds:
            data = None
            for method in options.methods:
                known, data = recorded(), data or load(name, seed, options.rows)
                if data is None:
                    break
                key = (name, seed, len(data.y), method, METHODS[method][1])
                if options.again or key not in known:
                    words = ("stream", "seed", "rows", "method", "settings")
                    record = dict(zip(words, key, strict=True)) | measure(data, method, seed)
                    RESULTS.mkdir(exist_ok=True)
                    with LINES.open("a") as file:
                        file.write(json.dumps(record) + "\n")
                found = recorded()[key]
                shown = "" if found["kappa"] is None else f", κ {found['kappa']:.3f}"
                print(
                    f"  {name:<11} seed {seed} {len(data.y):>7,} rows {method:<9} error {found['error']:.4f}"
                    f"{shown}, {found['microseconds']:.0f} µs a row, {found['peak_mb']:.0f} MB",
                    flush=True,
                )


def scales(options: argparse.Namespace) -> None:
    """Print the errors on elec2 with columns as they are, multiplied, and constant at first."""
    data = load("elec2", 0, MOST_ROWS)
    if data is None:
        return
    late = data.X.copy()
    late[:500, [0, 2, 4]] = late[0, [0, 2, 4]]
    for seed in options.seeds:
        units = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, data.X.shape[1])
        for words, X in (
            ("plain", data.X),
            ("multiplied", data.X * units),
            ("and constant at first", late * units),
        ):
            for scale in ("auto", None):
                model = ConKonsClassifier(curvature="auto", scale=scale, random_state=seed)
                error = np.mean(model.test_then_train(X, data.y) != data.y)
                print(f"  elec2 {words}, seed {seed}, scale={scale!r}: error {error:.4f}", flush=True)


def mixture(options: argparse.Namespace) -> None:
    """Print the errors on elec2 of one width, of several, of several half-lives, and with relevance of columns."""
    data = load("elec2", 0, MOST_ROWS)
    if data is None:
        return
    for seed in options.seeds:
        for words, model in (
            ("one width", ConKonsClassifier(curvature="auto", random_state=seed)),
            ("three widths", MixedKonsClassifier(RBF("median"), half_lives=(None,), random_state=seed)),
            ("and three half-lives", MixedKonsClassifier(RBF("median"), random_state=seed)),
            ("and relevance", MixedKonsClassifier(random_state=seed)),
        ):
            error = np.mean(model.test_then_train(data.X, data.y) != data.y)
            print(f"  elec2 {words}, seed {seed}: error {error:.4f}", flush=True)


PARTS = {"peers": peers, "scales": scales, "mixture": mixture}


def parse(options: Sequence[str]) -> argparse.Namespace:
    """Return the options of a run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks streams")
    parser.add_argument("--part", choices=PARTS, default="peers")
    parser.add_argument("--streams", default=",".join(NAMES), help="names, with commas between them")
    parser.add_argument("--methods", default=",".join(METHODS), help="names, with commas between them")
    parser.add_argument("--seeds", default="0,1,2,3,4", help="numbers, with commas between them")
    parser.add_argument("--rows", type=int, default=MOST_ROWS, help="the first so many rows of each stream")
    parser.add_argument("--again", action="store_true", help="measure what is cached, too")
    found = parser.parse_args(options)
    found.streams, found.methods = found.streams.split(","), found.methods.split(",")
    found.seeds = [int(seed) for seed in found.seeds.split(",")]
    for given, known in ((found.streams, NAMES), (found.methods, METHODS)):
        unknown = [name for name in given if name not in known]
        if unknown:
            parser.error(f"{unknown[0]!r} is not one of {', '.join(known)}")
    return found


def run(options: Sequence[str] = ()) -> None:
    """Measure what the options choose."""
    found = parse(options)
    PARTS[found.part](found)
