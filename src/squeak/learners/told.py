"""How far off local experts are: rows that no expert has seen, and how large errors are in different places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if

from squeak.core import engine, state
from squeak.core.kernels import RBF
from squeak.core.saved import Layout, Saved
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array, IntArray
from squeak.data import by_blocks
from squeak.learners.classifier import KernelClassifier
from squeak.learners.data import ArrayTraining
from squeak.learners.expansion import Expansion, ExpansionsPiece
from squeak.learners.intervals import check_coverage, interval
from squeak.learners.left_out import LeftOut, Sample
from squeak.learners.metric import Held, tuned
from squeak.learners.ridge import KernelRidge
from squeak.learners.splits import SplitTree
from squeak.learners.spread import floored, spread_of

TOLD = 4000
"""Rows of a fit at most of which it is told what the experts say without them."""

WIDTH_ROWS, WIDTH_ATOMS = 2000, 100
"""Rows and atoms by which the widths of the model of sizes are learned."""

WHOLE = 1.0 - 1e-9
"""All experts that have a share in a row have told of it where their shares add up to so much."""


@dataclass(frozen=True)
class ExpertErrors(Saved):
    """How large errors are at every place, and errors of rows that the experts had not seen in units of that size.

    Parameters
    ----------
    spread : list of one Expansion
        The size of errors.
    scores : array of shape (k, outputs)
    weight : array of shape (k,), optional
        Of the rows of the scores.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.learners.spread import constant
    >>> from squeak.learners.told import ExpertErrors
    >>> scores = np.linspace(-2.0, 2.0, 99)[:, None]
    >>> errors = ExpertErrors([constant(np.zeros((1, 1)), np.array([3.0]))], scores)
    >>> [float(end[0, 0].round(2)) for end in errors.interval(np.zeros((1, 1)), np.zeros((1, 1)), 0.9)]
    [-5.51, 5.51]
    """

    _state: ClassVar[Layout] = {
        "spread": ExpansionsPiece(),
        "scores": state.numbers("scores", "outputs"),
        "weight": state.numbers("scores", low=0.0, optional=True),
    }

    spread: list[Expansion]
    scores: Array
    weight: Array | None = None

    def sizes(self, X: Array) -> Array:
        """Return the size of errors at some rows, shape (n, outputs)."""
        return floored(self.spread[0].values(X), self.spread[0].intercept)

    def std(self, X: Array) -> Array:
        """Return the standard deviation of new targets at some rows, shape (n, outputs)."""
        return np.asarray(self.sizes(X) * np.sqrt(np.average(self.scores**2, axis=0, weights=self.weight)))

    def interval(self, values: Array, X: Array, coverage: float) -> tuple[Array, Array]:
        """Return the ends of intervals around values at some rows."""
        return interval(values, self.sizes(X), self.scores, coverage, self.weight)

    def fits(self, columns: int, outputs: int) -> bool:
        """Tell whether it is of rows with so many columns and outputs."""
        [*one] = self.spread
        shapes = {self.scores.shape[1], *(part.coef.shape[1] for part in one)}
        return len(one) == 1 and shapes == {outputs} and one[0].atoms.shape[1] == columns and len(self.scores) > 0


@dataclass
class Told:
    """Rows of a fit and what the experts say of them without having seen them."""

    X: Array
    y: Array
    """Shape (k, outputs)."""
    values: Array
    """Shape (k, outputs)."""
    weight: Array | None
    seed: int

    @cached_property
    def errors(self) -> ExpertErrors | None:
        """How large errors are, computed when it is first asked for; None where there are no rows."""
        if not len(self.X):
            return None
        residual, rng = self.y - self.values, generator_at(self.seed, SAMPLE, 5)
        some = rng.permutation(len(self.X))[:WIDTH_ROWS]
        held = Held.split(self.X[some], np.abs(residual[some]), None, WIDTH_ATOMS, rng)
        with engine.single_blas():  # as in threads: the bits of BLAS's own threads depend on their number
            kernel = tuned(RBF("learned"), held, rounds=1).kernel
            spread, scores = spread_of(kernel, self.X, residual, self.seed)
        return ExpertErrors([spread], scores, self.weight)


def decides(model: Any) -> bool:
    """Tell whether experts decide between classes."""
    return isinstance(model.estimator, KernelClassifier) or getattr(model, "classes_", None) is not None


class ErrorsKnown:
    """Adds intervals to experts of a regression."""

    _told: Told | ExpertErrors | None
    dimensions_: int
    _rows_for: Callable[[Any], Any]
    _values: Callable[[Any], Array]

    @available_if(lambda self: not decides(self))  # type: ignore[untyped-decorator]
    @by_blocks
    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return an interval for every row that a new target lies in with a probability of ``coverage``.

        For up to 4,000 rows of the fit it is known what the experts say without the row: f₋ᵢ of
        :meth:`KernelRidge.predict_interval` for experts that are ridge regressions, what was said of held-out rows
        for those of a :class:`KernelBlend`. A small model of the sizes s(x) of the residuals y − f₋ᵢ is learned;
        low = f(x) + q₁·s(x) and high = f(x) + q₂·s(x) with conformal quantiles q of residuals in units of s.

        Parameters
        ----------
        X : array, table, or row source
        coverage : float
            Between 0 and 1, both excluded.

        Returns
        -------
        low, high : arrays of shape (n,) or (n, outputs)
            Infinite where rows are too few: 90% takes nine. Of several outputs each is covered by itself.

        Notes
        -----
        With residuals of rows that had no part in the fit, coverage would be guaranteed for every number of rows
        and every distribution, on average over rows. Here the tree, kernels and penalties were chosen with all
        rows at hand, and the experts of held-out rows have learned from them since. Where two parts meet, a row
        counts if the experts of both parts have told of it; those of a :class:`KernelBlend` draw their held-out
        rows apart unless ``back`` is given, so that such rows count less. The model of the sizes is learned when it
        is first asked for, or when the experts are saved.

        References
        ----------
        Lei, G'Sell, Rinaldo, Tibshirani and Wasserman, JASA 113 (2018), section 5.2, for intervals whose width
        follows a learned spread; Barber, Candès, Ramdas and Tibshirani, Annals of Statistics (2021).

        Examples
        --------
        >>> import numpy as np
        >>> from squeak import KernelRidge, LocalExperts
        >>> from squeak.kernels import RBF
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, (2000, 1))
        >>> y = np.sin(5 * X[:, 0]) + 0.1 * (4 + X[:, 0]) * rng.standard_normal(2000)
        >>> model = LocalExperts(KernelRidge(RBF(0.3), 1.0, max_atoms=30), leaf_rows=400, random_state=0)
        >>> low, high = model.fit(X[:1000], y[:1000]).predict_interval(X[1000:], coverage=0.9)
        >>> bool(0.87 < np.mean((low <= y[1000:]) & (y[1000:] <= high)) < 0.93)
        True
        """
        check_coverage(coverage)
        rows = self._rows_for(X)
        low, high = self._known().interval(self._values(rows), rows, coverage)
        return self._shaped(low), self._shaped(high)

    @property
    def knows_errors_(self) -> bool:
        """Whether there are deviations and intervals: experts of a regression that tell of rows left out."""
        return self._errors is not None

    def _known(self) -> ExpertErrors:
        if self._errors is None:
            raise ValueError(
                "it is not known how far off these experts are: use experts of KernelRidge or KernelBlend, which "
                "can leave rows out, and fit them anew if they come from a file of an older version"
            )
        return self._errors

    @property
    def _errors(self) -> ExpertErrors | None:
        """How large errors are, in different places; None where no row was left out."""
        return self._told.errors if isinstance(self._told, Told) else self._told

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self.dimensions_ == 1 else values


def some_rows(n: int, seed: int) -> Array:
    """Return which of n rows are told of, up to :data:`TOLD` of them: an array of bool."""
    some = np.zeros(n, dtype=bool)
    some[generator_at(seed, SAMPLE, 4).permutation(n)[:TOLD]] = True
    return some


def told_by(data: ArrayTraining, values: Array, shares: Array, seed: int) -> Told:
    """Return the rows of which all experts have told that have a share in them.

    Parameters
    ----------
    data : ArrayTraining
    values : array of shape (n, outputs)
        What the experts said, of :func:`said`.
    shares : array of shape (n,)
    seed : int

    Returns
    -------
    Told
    """
    known = np.flatnonzero(shares >= WHOLE)
    if len(known) > TOLD:
        known = np.sort(generator_at(seed, SAMPLE, 4).permutation(known)[:TOLD])
    weight = None if data.weight is None else data.weight[known]
    y = np.asarray(data.y, dtype=np.float64).reshape(len(data.y), -1)[known]
    return Told(np.asarray(data.X[known], dtype=np.float64), y, values[known], weight, seed)


def without(model: Any, X: Array, y: Array, weight: Array | None, some: IntArray) -> Array | None:
    """Return what a fitted model would say of some rows of its fit without them; None where it cannot tell."""
    errors: LeftOut | None = getattr(model, "_left_out", None) if isinstance(model, KernelRidge) else None
    if errors is None:
        return None
    targets = np.asarray(y[some], dtype=np.float64).reshape(len(some), -1)
    sample = Sample(X[some], targets, None if weight is None else weight[some])
    return replace(errors, sample=sample, before=None).values


def said(tree: SplitTree, X: Array, found: Sequence[Any], leaves: list[IntArray]) -> tuple[Array, Array]:
    """Return what the experts said of rows before they saw them, and the sum of the shares of those that did.

    ``found``: what :func:`squeak.learners.leaves.fitted` returned for each leaf. ``leaves``: the rows of each. Of
    other rows the values are NaN.
    """
    out, shares = np.full((len(X), found[0].expert[0].coef.shape[1]), np.nan), np.zeros(len(X))
    for (rows, share), one, own in zip(tree.shares(X), found, leaves, strict=True):
        part = np.zeros(len(X))
        part[rows] = share
        known = own[one.places]
        out[known] = np.where(np.isnan(out[known]), 0.0, out[known]) + part[known, None] * one.values
        shares[known] += part[known]
    return out, shares
