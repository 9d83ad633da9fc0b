"""Whatever the order of calls, an object is as if the calls that failed had never been made.

Each subject is driven beside a twin that sees only the calls that succeed. Between them come bad input, interrupts
at a random kernel value, saving and loading, cloning, and parameters that are set to what they are. After every
step both must answer in the same bits. Where an interrupt may leave a part learned, the rest is given afterwards,
and the result must be that of one call (values to 1e-7, for the stream was cut elsewhere).
"""

from __future__ import annotations

import copy
import itertools
import tempfile
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import squeak
from squeak import (
    AutoRegressor,
    KernelBlend,
    KernelClassifier,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    KernelRidgeCV,
    Kors,
    LocalExperts,
    Nystroem,
    Squeak,
)
from squeak.bandits import BKB, GPUCB, BatchBKB, ThompsonSampling
from squeak.core.kernels.radial import RBF
from squeak.dpp import DPP
from squeak.graphs import StreamSparsifier
from squeak.graphs import state as graph_room
from squeak.learners import (
    DivideAndConquerRidge,
    KernelCCA,
    KernelGradientDescent,
    NytroRegressor,
    RandomFeatureClassifier,
    RandomFeatureRegressor,
    RandomFeatures,
)
from squeak.online import (
    ConKonsClassifier,
    ConKonsRegressor,
    DualSGDRegressor,
    FOGDClassifier,
    FOGDRegressor,
    KernelOGDRegressor,
    KonsRegressor,
    NOGDRegressor,
    ProjectronRegressor,
    ProsNKonsRegressor,
    SketchedKonsRegressor,
)
from squeak.samplers import BlessR, Uniform

RNG = np.random.default_rng(5)
N = 240
X = RNG.standard_normal((N, 3))
X[::7] = X[0]  # some rows come again and again
Y = np.sin(2 * X[:, 0]) + X[:, 1]
LABELS = np.where(Y > 0, "high", "low")
PROBE = RNG.standard_normal((7, 3))
KERNEL = RBF(1.0)

BLOCKS = st.tuples(st.integers(0, N - 45), st.integers(20, 45)).map(lambda pair: slice(pair[0], pair[0] + pair[1]))
"""Where a block of rows begins and ends; the smallest serves every subject as first rows."""

EVALUATIONS = st.one_of(st.integers(0, 6), st.integers(0, 200))
"""After so many kernel values (calls for a block of them) the user presses Ctrl-C."""


@contextmanager
def interrupted(after: int):
    """Raise KeyboardInterrupt at a kernel evaluation of this process."""
    calls = itertools.count()  # which several threads may use

    def ticking(real):
        def method(self, *rows):
            if next(calls) == after:
                raise KeyboardInterrupt
            return real(self, *rows)

        return method

    with pytest.MonkeyPatch.context() as patch:
        for name in ("_block", "_gram", "_diag", "_against"):
            patch.setattr(RBF, name, ticking(getattr(RBF, name)))
        yield


def bad_rows(kind: str, rows: Any) -> Any:
    """Return rows that nobody can learn from."""
    rows = np.array(rows)
    if kind == "masked":
        hidden = np.zeros(rows.shape, dtype=bool)
        hidden[len(rows) // 2] = True
        return np.ma.array(rows, mask=hidden)
    if kind == "wide":
        return np.hstack([rows, rows])
    if kind == "empty":
        return rows[:0]
    if kind == "text":
        return np.array([["a", "b", "c"]] * len(rows))
    if kind == "dates":
        return np.arange(rows.size).astype("datetime64[D]").reshape(rows.shape)
    rows[-1, -1] = {"nan": np.nan, "infinite": np.inf}[kind]
    return rows


BAD = ("nan", "infinite", "masked", "wide", "empty", "text", "dates")


def predictions(model: Any) -> Any:
    return model.predict(PROBE)


def features(model: Any) -> Any:
    return model.transform(PROBE)


def kept(sampler: Any) -> Any:
    d = sampler.dictionary_
    return np.concatenate([d.indices, d.probabilities, d.weights, [d.ridge, d.n_seen]])


@dataclass(frozen=True)
class Subject:
    """What is driven, and what it promises."""

    make: Callable[[], Any]
    answer: Callable[[Any], Any]
    targets: Any = None
    partial: bool = True
    """It learns from more rows."""
    keeps_progress: bool = False
    """An interrupt leaves what was learned so far, counted in ``n_seen_``."""
    saves: bool = True
    same_after_load: bool = True
    """A loaded copy goes on in the same bits; otherwise it goes on in its own way, and so must a loaded twin."""
    first: dict[str, Any] | None = None
    """What the first rows need besides."""
    bad: tuple[str, ...] = BAD
    """What it refuses: a table may hold text, dates and gaps."""

    def call(self, model: Any, method: str, where: slice, rows: Any = None) -> Any:
        rows = X[where] if rows is None else rows
        given = (rows,) if self.targets is None else (rows, self.targets[where][: len(rows)])
        extra = self.first or {} if method != "fit" else {}
        return getattr(model, method)(*given, **extra)


LAST_BLOCK = {"classes": ["high", "low"]}
SUBJECTS = {
    "Squeak": Subject(lambda: Squeak(KERNEL, ridge=0.1, random_state=0), kept, keeps_progress=True),
    "Squeak, max_atoms": Subject(lambda: Squeak(KERNEL, max_atoms=15, random_state=0), kept, keeps_progress=True),
    "Squeak, median": Subject(lambda: Squeak(RBF("median"), copies=3, random_state=0), kept, keeps_progress=True),
    "Kors": Subject(lambda: Kors(KERNEL, ridge=0.1, random_state=0), kept, keeps_progress=True),
    "Uniform": Subject(lambda: Uniform(KERNEL, max_atoms=12, random_state=0), kept, saves=False),
    "BlessR": Subject(lambda: BlessR(KERNEL, max_atoms=12, random_state=0), kept, partial=False, saves=False),
    "KernelRidge": Subject(
        lambda: KernelRidge(KERNEL, alpha=0.1, max_atoms=15, random_state=0), predictions, Y, same_after_load=False
    ),
    "KernelRidge, dictionary": Subject(
        lambda: KernelRidge(KERNEL, alpha=0.1, dictionary=X[:12]), predictions, Y, same_after_load=False
    ),
    "KernelRidge, intercept": Subject(
        lambda: KernelRidge(KERNEL, sampler=Squeak(), fit_intercept=True, random_state=0),
        predictions,
        Y + 100.0,
        same_after_load=False,
    ),
    "KernelRidge, falkon": Subject(
        lambda: KernelRidge(KERNEL, alpha=0.1, max_atoms=15, solver="falkon", random_state=0),
        predictions,
        Y,
        partial=False,
    ),
    "KernelRidgeCV": Subject(
        lambda: KernelRidgeCV(KERNEL, max_atoms=15, random_state=0), predictions, Y, partial=False
    ),
    "KernelClassifier": Subject(
        lambda: KernelClassifier(KERNEL, max_atoms=15, random_state=0), predictions, LABELS, partial=False
    ),
    "KernelClassifier, logistic": Subject(
        lambda: KernelClassifier(KERNEL, loss="logistic", max_atoms=15, random_state=0),
        lambda model: model.predict_proba(PROBE),
        LABELS,
        partial=False,
    ),
    "KernelRidge, kept": Subject(
        lambda: KernelRidge(KERNEL, alpha=0.1, max_atoms=15, solver="kept", random_state=0),
        predictions,
        Y,
        partial=False,
    ),
    "KernelRidge, learned": Subject(
        lambda: KernelRidge(RBF("learned"), alpha=0.1, max_atoms=10, random_state=0), predictions, Y, partial=False
    ),
    "KernelBlend": Subject(
        lambda: KernelBlend((KERNEL,), max_atoms=8, search_atoms=8, rounds=1, random_state=0),
        predictions,
        Y,
        partial=False,
    ),
    "LocalExperts": Subject(
        lambda: LocalExperts(KernelRidge(KERNEL, max_atoms=6), leaf_rows=12, split_kernel=KERNEL, random_state=0),
        predictions,
        Y,
        partial=False,
    ),
    "AutoRegressor": Subject(
        lambda: AutoRegressor(max_atoms=6, random_state=0),
        predictions,
        Y,
        partial=False,
        bad=("infinite", "masked", "empty"),
    ),
    "NytroRegressor": Subject(
        lambda: NytroRegressor(KERNEL, max_atoms=8, max_iter=5, random_state=0), predictions, Y, partial=False
    ),
    "DivideAndConquerRidge": Subject(
        lambda: DivideAndConquerRidge(KERNEL, n_parts=3, random_state=0), predictions, Y, partial=False
    ),
    "KernelPCA": Subject(
        lambda: KernelPCA(2, kernel=KERNEL, max_atoms=15, random_state=0), features, same_after_load=False
    ),
    "KernelKMeans": Subject(
        lambda: KernelKMeans(3, kernel=KERNEL, max_atoms=15, max_iter=50, random_state=0),
        features,
        same_after_load=False,
    ),
    "KernelCCA": Subject(
        lambda: KernelCCA(1, kernel=KERNEL, kernel_y=KERNEL, max_atoms=15, random_state=0),
        features,
        Y,
        partial=False,
    ),
    "KernelGradientDescent": Subject(
        lambda: KernelGradientDescent(KERNEL, max_iter=5), predictions, Y, partial=False
    ),
    "Nystroem": Subject(lambda: Nystroem(KERNEL, max_atoms=15, random_state=0), features, same_after_load=False),
    "RandomFeatures": Subject(
        lambda: RandomFeatures(KERNEL, n_features=6, random_state=0), features, partial=False
    ),
    "RandomFeatureRegressor": Subject(
        lambda: RandomFeatureRegressor(KERNEL, n_features=8, max_iter=2, random_state=0), predictions, Y
    ),
    "RandomFeatureClassifier": Subject(
        lambda: RandomFeatureClassifier(KERNEL, n_features=8, max_iter=2, random_state=0),
        lambda model: model.decision_function(PROBE),
        LABELS,
        first=LAST_BLOCK,
    ),
    **{
        cls.__name__ + width: Subject(
            lambda cls=cls, kernel=kernel, more=more: cls(kernel, random_state=0, **more),
            predictions,
            Y,
            keeps_progress=True,
        )
        for cls, more in (
            (ConKonsRegressor, {}),
            (ProsNKonsRegressor, {}),
            (KonsRegressor, {}),
            (SketchedKonsRegressor, {}),
            (KernelOGDRegressor, {"penalty": 0.01}),
            (FOGDRegressor, {"n_features": 16}),
            (DualSGDRegressor, {"n_features": 16, "max_atoms": 20}),
            (NOGDRegressor, {"max_atoms": 30, "rank": 8}),
            (ProjectronRegressor, {"max_atoms": 20}),
        )
        for width, kernel in (("", KERNEL), (", median", None))
    },
    "ConKonsRegressor that forgets": Subject(
        lambda: ConKonsRegressor(RBF("learned"), half_life=15.0, alarm_rate=0.3, random_state=0),
        predictions,
        Y,
        keeps_progress=True,
    ),
    "Squeak that fades": Subject(
        lambda: Squeak(KERNEL, ridge=0.5, half_life=40.0, random_state=0), kept, keeps_progress=True
    ),
    **{
        cls.__name__: Subject(
            lambda cls=cls: cls(random_state=0),
            lambda model: model.decision_function(PROBE),
            LABELS,
            keeps_progress=True,
            first=LAST_BLOCK,
        )
        for cls in (ConKonsClassifier, FOGDClassifier)
    },
}


def answer_of(subject: Subject, model: Any) -> Any:
    """Return what a model answers, or the word for one that has seen nothing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(subject.answer(model))
    except NotFittedError:
        return "unfitted"


def same_bits(first: Any, second: Any) -> bool:
    if isinstance(first, str) or isinstance(second, str):
        return isinstance(first, str) and isinstance(second, str)
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def reloaded(model: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.sqk"
        squeak.save(model, path)
        return squeak.load(path)


class Driven(RuleBasedStateMachine):
    """A subject, its twin, and all that can happen to it."""

    subject: Subject

    def __init__(self) -> None:
        super().__init__()
        self.model, self.twin = self.subject.make(), self.subject.make()
        self.seen = 0

    def compare(self) -> None:
        assert same_bits(answer_of(self.subject, self.model), answer_of(self.subject, self.twin))
        if self.subject.keeps_progress:
            assert self.model.n_seen_ == self.twin.n_seen_ == self.seen

    def run(self, model: Any, method: str, where: slice, rows: Any = None) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.subject.call(model, method, where, rows)

    def method(self, wanted: str) -> str:
        return wanted if self.subject.partial else "fit"

    def learned(self, method: str, where: slice) -> None:
        self.seen = (self.seen if method == "partial_fit" else 0) + where.stop - where.start

    @rule(method=st.sampled_from(["fit", "partial_fit"]), where=BLOCKS)
    def learn(self, method: str, where: slice) -> None:
        method = self.method(method)
        for model in (self.model, self.twin):
            assert self.run(model, method, where) is model
        self.learned(method, where)
        self.compare()

    @rule(method=st.sampled_from(["fit", "partial_fit"]), where=BLOCKS, kind=st.sampled_from(BAD))
    def bad_input_changes_nothing(self, method: str, where: slice, kind: str) -> None:
        method = self.method(method)
        if kind not in self.subject.bad or (kind == "wide" and (method == "fit" or not self.seen)):
            return  # rows of another width begin anew
        with pytest.raises((ValueError, TypeError)):
            self.run(self.model, method, where, bad_rows(kind, X[where]))
        self.compare()

    @rule(method=st.sampled_from(["fit", "partial_fit"]), where=BLOCKS, after=EVALUATIONS)
    def interrupt(self, method: str, where: slice, after: int) -> None:
        method = self.method(method)
        before = answer_of(self.subject, self.model)
        try:
            with interrupted(after):
                self.run(self.model, method, where)
        except KeyboardInterrupt:
            now = answer_of(self.subject, self.model)
            if not self.subject.keeps_progress or same_bits(now, before):
                self.compare()
                return
            done = self.model.n_seen_ - (self.seen if method == "partial_fit" else 0)
            assert 0 < done < where.stop - where.start
            self.run(self.model, "partial_fit", slice(where.start + done, where.stop))
            self.run(self.twin, method, where)
            now, right = answer_of(self.subject, self.model), answer_of(self.subject, self.twin)
            assert now.shape == right.shape
            np.testing.assert_allclose(now, right, rtol=1e-7, atol=1e-9)
            self.twin = copy.deepcopy(
                self.model
            )  # the bits may differ by rounding, as the stream was cut elsewhere
        else:
            self.run(self.twin, method, where)
        self.learned(method, where)
        self.compare()

    @precondition(lambda self: self.subject.saves and self.seen)
    @rule()
    def save_and_load(self) -> None:
        self.model = reloaded(self.model)
        if not self.subject.same_after_load:
            self.twin = reloaded(self.twin)
        self.compare()

    @rule()
    def a_clone_is_new(self) -> None:
        other = clone(self.model)
        assert type(other) is type(self.model)
        assert answer_of(self.subject, other) == "unfitted"
        assert repr(other) == repr(self.model)
        self.compare()

    @rule()
    def parameters_set_to_what_they_are_change_nothing(self) -> None:
        self.model.set_params(**self.model.get_params(deep=False))
        self.compare()


class DrivenOnline(Driven):
    """Online learners also take rows one by one."""

    @precondition(lambda self: self.seen)
    @rule(where=BLOCKS, count=st.integers(1, 5))
    def learn_one(self, where: slice, count: int) -> None:
        for model in (self.model, self.twin):
            for i in range(where.start, where.start + count):
                model.learn_one(X[i], self.subject.targets[i])
        self.seen += count
        self.compare()

    @precondition(lambda self: self.seen)
    @rule(where=BLOCKS, after=st.integers(0, 3))
    def interrupt_one(self, where: slice, after: int) -> None:
        x, y = X[where.start], self.subject.targets[where.start]
        try:
            with interrupted(after):
                self.model.learn_one(x, y)
        except KeyboardInterrupt:
            assert self.model.n_seen_ == self.seen
            self.compare()
        else:
            self.twin.learn_one(x, y)
            self.seen += 1
            self.compare()

    @precondition(lambda self: self.seen)
    @rule(kind=st.sampled_from(["nan", "masked", "wide", "text", "dates"]))
    def one_bad_row_changes_nothing(self, kind: str) -> None:
        with pytest.raises((ValueError, TypeError)):
            self.model.learn_one(bad_rows(kind, X[:1])[0], self.subject.targets[0])
        self.compare()


ARMS = X[:40]


class DrivenBandit(RuleBasedStateMachine):
    """A bandit and its twin: asked, told, interrupted, saved."""

    make: Callable[[], Any]

    def __init__(self) -> None:
        super().__init__()
        self.bandit, self.twin = type(self).make(), type(self).make()

    def compare(self) -> None:
        for mine, theirs in zip(self.answer(self.bandit), self.answer(self.twin), strict=True):
            assert same_bits(np.asarray(mine), np.asarray(theirs))

    @staticmethod
    def answer(bandit: Any) -> list[Any]:
        return [*bandit.posterior(), bandit.counts_, bandit.sums_, bandit.pulls_, bandit.rewards_, bandit.pending_]

    @rule()
    def ask_and_tell(self) -> None:
        first, second = np.atleast_1d(self.bandit.ask()), np.atleast_1d(self.twin.ask())
        assert np.array_equal(first, second)
        for bandit in (self.bandit, self.twin):
            bandit.tell(first, Y[first])
        self.compare()

    @rule()
    def ask(self) -> None:
        assert np.array_equal(self.bandit.ask(), self.twin.ask())
        self.compare()

    @rule(arms=st.lists(st.integers(0, len(ARMS) - 1), min_size=1, max_size=4))
    def tell(self, arms: list[int]) -> None:
        for bandit in (self.bandit, self.twin):
            bandit.tell(arms, Y[arms])
        self.compare()

    @rule(kind=st.sampled_from(["nan", "masked", "text", "far", "many", "dates"]))
    def bad_rewards_change_nothing(self, kind: str) -> None:
        told = {
            "nan": ([1, 2], [1.0, np.nan]),
            "masked": ([1, 2], np.ma.array([1.0, 2.0], mask=[False, True])),
            "text": ([1], ["good"]),
            "far": ([len(ARMS)], [1.0]),
            "many": ([1], [1.0, 2.0]),
            "dates": ([1], np.array(["2020-01-01"], dtype="datetime64[D]")),
        }[kind]
        with pytest.raises((ValueError, TypeError)):
            self.bandit.tell(*told)
        self.compare()

    @rule(arm=st.integers(0, len(ARMS) - 1), after=st.integers(0, 8))
    def interrupt(self, arm: int, after: int) -> None:
        """A reward told before an interrupt is known, and the posterior is that of all rewards."""
        known = self.bandit.n_told_
        try:
            with interrupted(after):
                self.bandit.tell([arm], [Y[arm]])
        except KeyboardInterrupt:
            assert self.bandit.n_told_ == known + 1 == self.bandit.counts_.sum()
            self.twin.tell([arm], [Y[arm]])
            if isinstance(self.bandit, GPUCB):  # the others draw another dictionary
                for mine, right in zip(self.bandit.posterior(), self.twin.posterior(), strict=True):
                    np.testing.assert_allclose(mine, right, rtol=1e-6, atol=1e-6)
            self.twin = copy.deepcopy(self.bandit)
        else:
            self.twin.tell([arm], [Y[arm]])
        self.compare()

    @rule()
    def save_and_load(self) -> None:
        self.bandit = reloaded(self.bandit)
        self.compare()


class DrivenSparsifier(RuleBasedStateMachine):
    """A stream of edges and its twin; the first scoring comes after few edges."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.twin = (StreamSparsifier(oversampling=2, random_state=0) for _ in range(2))
        self.seen = 0

    def compare(self) -> None:
        if not self.seen:
            with pytest.raises(NotFittedError):
                self.model.sparsifier_  # noqa: B018
            return
        assert self.model.n_seen_ == self.twin.n_seen_ == self.seen
        mine, theirs = self.model.sparsifier_, self.twin.sparsifier_
        assert mine.shape == theirs.shape
        assert same_bits(mine.toarray(), theirs.toarray())

    @staticmethod
    def edges(seed: int, size: int = 150) -> Any:
        rng = np.random.default_rng(seed)
        u = rng.integers(0, 30, size)
        return np.column_stack([u, (u + rng.integers(1, 30, size)) % 30, rng.uniform(0.5, 2.0, size)])

    @rule(method=st.sampled_from(["fit", "partial_fit"]), seed=st.integers(0, 9))
    def learn(self, method: str, seed: int) -> None:
        for model in (self.model, self.twin):
            getattr(model, method)(self.edges(seed))
        self.seen = (self.seen if method == "partial_fit" else 0) + 150
        self.compare()

    @rule(
        method=st.sampled_from(["fit", "partial_fit"]),
        kind=st.sampled_from(["nan", "negative", "text", "masked", "late"]),
    )
    def bad_edges_change_nothing(self, method: str, kind: str) -> None:
        edges = self.edges(3)
        given: Any = edges
        if kind == "nan":
            edges[-1, 2] = np.nan
        elif kind == "negative":
            edges[-1, 0] = -1
        elif kind == "text":
            given = [["a", "b", "heavy"]]
        elif kind == "masked":
            given = np.ma.array(edges, mask=edges > 1.9)
        else:
            given = iter([self.edges(4), np.array([[0.0, 1.0, -2.0]])])
        with pytest.raises((ValueError, TypeError)):
            getattr(self.model, method)(given)
        self.compare()

    @rule(seed=st.integers(0, 9), after=st.integers(0, 3))
    def interrupt(self, seed: int, after: int) -> None:
        """An interrupt keeps the blocks that were read."""
        blocks, left, real = [self.edges(seed), self.edges(seed + 1)], [after], graph_room.coins

        def ticking(*args):
            left[0] -= 1
            if left[0] == -1:
                raise KeyboardInterrupt
            return real(*args)

        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(graph_room, "coins", ticking)
                self.model.partial_fit(iter(blocks))
            read = 2
        except KeyboardInterrupt:
            read = (getattr(self.model, "n_seen_", 0) - self.seen) // 150 if hasattr(self.model, "_stream") else 0
        for block in blocks[:read]:
            self.twin.partial_fit(block)
        self.seen += 150 * read
        self.compare()

    @rule()
    def a_clone_is_new(self) -> None:
        other = clone(self.model)
        assert other.get_params() == self.model.get_params()
        with pytest.raises(NotFittedError):
            other.sparsifier_  # noqa: B018


class DrivenDPP(RuleBasedStateMachine):
    """A determinantal process and its twin: fitted, sampled, saved."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.twin = (DPP(KERNEL, random_state=0) for _ in range(2))
        self.fitted = False

    def compare(self) -> None:
        if not self.fitted:
            with pytest.raises(NotFittedError):
                self.model.sample()
            return
        assert self.model.n_seen_ == self.twin.n_seen_
        assert self.model.expected_size_ == self.twin.expected_size_

    @rule(where=BLOCKS)
    def fit(self, where: slice) -> None:
        for model in (self.model, self.twin):
            model.fit(X[where])
        self.fitted = True
        self.compare()

    @rule(where=BLOCKS, kind=st.sampled_from([kind for kind in BAD if kind != "wide"]))
    def bad_input_changes_nothing(self, where: slice, kind: str) -> None:
        with pytest.raises((ValueError, TypeError)):
            self.model.fit(bad_rows(kind, X[where]))
        self.compare()

    @rule(where=BLOCKS, after=EVALUATIONS)
    def interrupt_fit(self, where: slice, after: int) -> None:
        try:
            with interrupted(after):
                self.model.fit(X[where])
        except KeyboardInterrupt:
            self.compare()
        else:
            self.fitted = True
            self.twin.fit(X[where])
            self.compare()

    @precondition(lambda self: self.fitted)
    @rule(k=st.sampled_from([None, 2, 4]))
    def sample(self, k: int | None) -> None:
        assert np.array_equal(self.model.sample(k=k), self.twin.sample(k=k))

    @precondition(lambda self: self.fitted)
    @rule(k=st.sampled_from([0, -1, 10_000, "two"]))
    def a_bad_size_changes_nothing(self, k: Any) -> None:
        with pytest.raises((ValueError, TypeError)):
            self.model.sample(k=k)
        self.sample(None)

    @precondition(lambda self: self.fitted)
    @rule()
    def save_and_load(self) -> None:
        self.model = reloaded(self.model).set_params(random_state=0)  # the seed of a next fit is not in the file
        self.compare()
        self.sample(None)


def machines() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, subject in SUBJECTS.items():
        base = DrivenOnline if subject.targets is not None and subject.keeps_progress else Driven
        found[name] = type("Machine", (base,), {"subject": subject})
    for name, make in {
        "GPUCB": lambda: GPUCB(ARMS, KERNEL, random_state=0),
        "BKB": lambda: BKB(ARMS, KERNEL, random_state=0),
        "BatchBKB": lambda: BatchBKB(ARMS, KERNEL, random_state=0),
        "ThompsonSampling": lambda: ThompsonSampling(ARMS, KERNEL, random_state=0),
    }.items():
        found[name] = type("Machine", (DrivenBandit,), {"make": staticmethod(make)})
    if hasattr(StreamSparsifier, "resume"):  # one that cannot be resumed may keep a part of a block that failed
        found["StreamSparsifier"] = DrivenSparsifier
    return {**found, "DPP": DrivenDPP}


MACHINES = machines()


@pytest.fixture(autouse=True)
def few_edges_are_enough(monkeypatch):
    monkeypatch.setattr(graph_room, "FIRST", 50)


@pytest.mark.parametrize("name", MACHINES)
def test_failed_calls_leave_no_trace(name):
    run_state_machine_as_test(MACHINES[name], settings=settings(max_examples=3, stateful_step_count=8))


DEAR = ("KernelRidge, learned", "KernelBlend", "LocalExperts", "AutoRegressor")
"""Whose fits search for a model: every step takes a while."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_failed_calls_leave_no_trace_in_long_runs(name):
    examples = 5 if name in DEAR else 40
    run_state_machine_as_test(MACHINES[name], settings=settings(max_examples=examples, stateful_step_count=25))
