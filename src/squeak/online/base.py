"""What all online estimators share: one stream behind, which every row is predicted by and then learned by."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from squeak.core.checks import check_positive
from squeak.core.rows import n_rows, take
from squeak.core.types import Array, Rows
from squeak.data import Cursor, PredictsBlocks, RowSource, by_blocks
from squeak.online.losses import loss_named
from squeak.online.single import SingleRows
from squeak.online.stream import Learner, Tested

LARGEST_TARGET = 1e150
"""A larger target's square is not a number that float64 has."""

SCALES = ("auto", "robust", None)

LARGEST_BLOCK = 8192
"""Rows of a block at most, where a pass is cut into a number of them."""


class OnlineEstimator(PredictsBlocks, SingleRows):
    """Base of the online estimators: predict each row, then learn from it, once.

    A subclass gives ``_build``, which makes the learner, and is a regressor or a classifier.
    """

    _poor_on_few_rows: ClassVar[bool] = False
    """Told to scikit-learn: after the 200 rows of its checks, a learner that restarts has learned little."""
    loss: str
    bound: float | None
    scale: str | None

    def _check_parameters(self) -> None:
        loss_named(self.loss, labels=self._labels)
        if self.bound is not None and check_positive("bound", self.bound, " or None") >= LARGEST_TARGET:
            raise ValueError(f"bound must be below {LARGEST_TARGET:g}; it is {self.bound!r}")
        if self.scale not in SCALES:
            raise ValueError(f"scale must be one of {', '.join(map(repr, SCALES))}; it is {self.scale!r}")

    def fit(self, X: Any, y: Any = None) -> Any:
        """Forget everything, then predict and learn from each row of ``X`` once, in order.

        Parameters
        ----------
        X : rows of shape (n, d), or a row source with a target
            Dense, CSR, objects for a PairwiseKernel, or what :func:`squeak.rows` returns.
        y : array of shape (n,)
            Left out for a row source.

        Returns
        -------
        self
        """
        before = dict(self.__dict__)
        for name in self._state_names():
            self.__dict__.pop(name, None)
        try:
            return self._read(X, y)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        """Predict and learn from some more rows, one or many; the result does not depend on how they are cut.

        Parameters
        ----------
        X : rows of shape (n, d), or a row source with a target
        y : array of shape (n,)

        Returns
        -------
        self
        """
        return self._read(X, y)

    def test_then_train(self, X: Any, y: Any = None) -> Any:
        """Predict each row before learning from it: all of the rows, or after an error none.

        The same state as :meth:`partial_fit`, and the predictions that an honest test of the stream needs.

        Parameters
        ----------
        X : rows of shape (n, d), or a row source with a target
        y : array of shape (n,)

        Returns
        -------
        array of shape (n,)
            The predictions, or labels.
        """
        with self._all_or_nothing():
            return np.concatenate([tested.predictions for tested in self.test_then_train_blocks(X, y)])

    def test_then_train_blocks(
        self, X: Any, y: Any = None, *, n_blocks: int | None = None, start: Cursor | None = None
    ) -> Iterator[Tested]:
        """Predict and then learn block by block, as the blocks are taken: what every pass over a stream is made of.

        Parameters
        ----------
        X : rows of shape (n, d), or a row source with a target
        y : array of shape (n,)
            Left out for a row source.
        n_blocks : int, optional
            Cut the rows into about so many blocks (each block of a source that does not know its length); as the
            source has them unless given.
        start : Cursor, optional
            Where to begin in a row source: the ``cursor`` of an earlier block.

        Returns
        -------
        iterator of Tested
            Each with ``y`` and ``predictions``, and the ``scores``, ``targets``, ``facts``, ``seconds`` and
            ``cursor`` behind them.

        Examples
        --------
        >>> import numpy as np, squeak
        >>> from squeak.online import ConKonsRegressor
        >>> X = np.random.default_rng(0).random((100_000, 2))
        >>> model = ConKonsRegressor(max_atoms=10, random_state=0)
        >>> [len(tested.predictions) for tested in model.test_then_train_blocks(squeak.rows(X, X[:, 0]))]
        [65536, 34464]
        """
        total = X.n_rows if isinstance(X, RowSource) else None
        for block, given, cursor in self._blocks(X, y, start):
            began = time.perf_counter()
            rows, targets = self._check_block(block, given, prepared=isinstance(X, RowSource))
            n, labels = n_rows(rows), np.ravel(np.asarray(given))
            size = n if n_blocks is None else min(max((total or n) // n_blocks, 1), LARGEST_BLOCK)
            at = 0
            while at < n:
                if not len(targets):  # the row brings a new class
                    part = slice(at, at + 1)
                    answers, scores, targets = self._meet(take(rows, part), labels[part])
                else:
                    part = slice(at, min(at + size, at + len(targets)))
                    scores = self._feed(take(rows, part), targets[: part.stop - at])
                    answers = self.answers(scores)
                yield Tested(
                    labels[part],
                    answers,
                    scores,
                    targets[: part.stop - at],
                    loss_named(self.loss, labels=self._labels),
                    self._stream.facts,
                    time.perf_counter() - began,
                    cursor if part.stop == n else None,
                )
                targets, at, began = targets[part.stop - at :], part.stop, time.perf_counter()
                if not len(targets) and at < n:
                    targets = self._encode(labels[at : at + self._n_known(labels[at:])], False)

    @by_blocks
    def predict(self, X: Any) -> Any:
        """Return the predictions of rows; what the next round would predict for each of them.

        Parameters
        ----------
        X : rows of shape (n, d)

        Returns
        -------
        array of shape (n,)
            Numbers, or labels.
        """
        return self.answers(self._scores(X))

    def encoded(self, X: Any, y: Any = None) -> tuple[Rows, Array]:
        """Return rows and targets as the learner takes them: preprocessed and checked, labels as ±1.

        Parameters
        ----------
        X : rows of shape (n, d)
        y : array of shape (n,), optional

        Returns
        -------
        rows : rows of shape (n, columns)
        targets : array of shape (n, outputs)
            With no rows where ``y`` is left out.
        """
        self._needs_rows()
        rows = self._check_new(X)
        targets = self._encode(np.asarray([] if y is None else y), False)
        if y is not None and len(targets) != n_rows(rows):
            raise ValueError(f"there are {n_rows(rows)} rows and {len(targets)} targets")
        return self._stream.as_seen(rows), targets

    def answers(self, scores: Array) -> Any:
        """Return what scores of the learner stand for."""
        raise self._abstract()

    def _scores(self, X: Any) -> Array:
        self._needs_rows()
        return self._stream.scores(self._check_new(X))

    def _read(self, X: Any, y: Any) -> Any:
        with self._all_or_nothing():
            for _ in self.test_then_train_blocks(X, y):
                pass
        return self

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo what was learned if there is an error; after an interrupt it stays, and ``n_seen_`` counts it."""
        before, stream = dict(self.__dict__), getattr(self, "_stream", None)
        state = None if stream is None else stream.copy()
        try:
            yield
        except BaseException as error:
            refused = isinstance(error, Exception) and not isinstance(error, Warning)
            if refused or self.n_seen_ == 0:
                self.__dict__.clear()
                self.__dict__.update(before)
                if state is not None:
                    self._stream = state
            raise

    def _blocks(self, X: Any, y: Any, start: Cursor | None = None) -> Iterator[tuple[Any, Any, Cursor | None]]:
        """Yield rows, targets and, of a row source from a place on, where the next block begins."""
        if not isinstance(X, RowSource):
            yield X, y, None
            return
        if y is not None or X.target is None:
            raise ValueError("a row source brings its own target: pass squeak.rows(..., target=...) and no y")
        known = getattr(self, "_stream", None)
        if known is not None:
            X.check_preprocessed(known.preprocessing, "those before", "model.preprocessing_")
        self._coming = X.preprocessing
        try:
            for block in X.blocks(start):
                yield block.X, block.y, block.cursor
        finally:
            self.__dict__.pop("_coming", None)

    def _feed(self, rows: Rows, targets: Array) -> Array:
        """Learn from checked rows; a stream whose very first rows fail is taken back."""
        try:
            return self._stream.learn(rows, targets)
        except BaseException:
            if self._stream.n_seen == 0:
                for name in self._state_names():
                    self.__dict__.pop(name, None)
            raise

    @staticmethod
    def _state_names() -> tuple[str, ...]:
        own = ("_stream", "_head", "n_features_in_", "feature_names_in_", "classes_", "_named")
        return (*own, "_records", "_pending")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_stream") and self._stream.n_seen > 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.kernel is None or bool(getattr(self.kernel, "accepts_sparse", False))
        tags.target_tags.required = True
        return tags

    @property
    def kernel_(self) -> Any:
        """The kernel with every width a number; None until two different rows were seen."""
        self._needs_rows()
        return self._stream.resolved

    @property
    def preprocessing_(self) -> Any:
        """What turns the user's columns into rows, where a row source brought it; else None."""
        self._needs_rows()
        return self._stream.preprocessing

    @property
    def facts_(self) -> dict[str, int]:
        """The sizes of what was learned, by name: atoms, coordinates, growths; none while the width is unknown."""
        self._needs_rows()
        return {} if self._stream.learner is None else dict(self._stream.facts)

    @property
    def history_(self) -> list[dict[str, Any]]:
        """The times at which the learner began anew, because scales had moved or because the stream had drifted.

        For each, ``rows`` that had been seen, and the numbers of the ``columns`` whose scale had moved, with a
        kernel such as RBF("learned") also the ``relevance`` of all columns from then on; or, with an
        ``alarm_rate``, the mean ``losses`` before and after the drift, how many rows came ``after`` it, and, once
        that is known, whether the learner ``stayed`` as it was before the alarm, for beginning anew was no better.
        """
        self._needs_rows()
        return [dict(entry) for entry in self._stream.history]

    @property
    def scale_(self) -> tuple[Array, Array] | None:
        """The centre and the spread of every column now; None where columns are taken as they are.

        The spread of a column that has been constant is infinite: the kernel does not see it yet.
        """
        self._needs_rows()
        found = self._stream.scale
        return None if found is None else (found.centre.copy(), found.spread)

    @property
    def n_atoms_(self) -> int:
        """How many rows are kept."""
        return self._fact("atoms")

    @property
    def learner_(self) -> Learner | None:
        """What learns, with all that it knows; None until the kernel's width is known."""
        self._needs_rows()
        return self._stream.learner

    def _fact(self, name: str) -> int:
        self._needs_rows()
        return self._stream.facts[name]
