"""A kernel's metric, learned from the targets: how much each column, or each direction, matters.

The model so far, f = Σ_j c_j k(·, z_j), tells by its gradients where it changes: G = (1/n) Σ_x ∇f(x)∇f(x)ᵀ, summed
over outputs. Rows are then multiplied by T with TᵀT ∝ G, and the model is solved anew. A few rounds settle. Other
widths are tried where a round hardly helps. Of all rounds, each at its best penalty, the one with the least error
on held-out rows is taken.

References
----------
Radhakrishnan, Beaglehole, Pandit and Belkin, "Mechanism for feature learning in neural networks and
backpropagation-free machine learning models", Science 383 (2024).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.kernels import RBF, Laplacian, Matern, Metric, against, gradients
from squeak.core.nystrom import TriangularFeatures
from squeak.core.types import Array, BoolArray, IntArray
from squeak.learners.data import ArrayTraining
from squeak.learners.normal import NormalEquations, NormalTerm

ALPHAS = np.geomspace(1e-7, 3e-2, 15)
"""Penalties that are tried, for one row of weight 1."""

FIRST_WIDTHS = (0.5, 1.0, 2.0, 4.0)
"""Multiples of the median distance that are tried at first; the best round is tried at half and twice its own."""

WIDE_WIDTHS = (1.0, 4.0, 16.0)
"""The same for the Matérn-½ kernel, which is best when it is wide."""

SMALLEST_PART = 1e-4
"""A column is made no shorter than this part of the longest one."""

JITTER = 1e-6
"""Added to the atoms' kernel matrix, whose diagonal is 1, while kernels are compared: no penalty feels it."""

TILE = 512
"""Held-out rows whose kernel values are computed at a time."""

GRADIENT_ROWS = 4_000
MEDIAN_ROWS = 1_000
ROUNDS = 8
BACK = 0.15
"""The part of the rows that is held out to choose by."""

BETTER = 0.995
"""A round whose error is not below the one before by this factor is the last."""


def gradient_product(kernel: Any, atoms: Array, coef: Array, X: Array, full: bool = True) -> Array:
    """Return the average gradient outer product of f = Σ_j coef_j k(·, atom_j) over rows, or its diagonal.

    G = (1/n) Σ_x Σ_outputs ∇f(x) ∇f(x)ᵀ.

    Parameters
    ----------
    kernel : kernel
    atoms : array of shape (m, d)
    coef : array of shape (m, outputs)
    X : array of shape (n, d)
    full : bool
        False: only the diagonal.

    Returns
    -------
    array of shape (d, d) or (d,)
    """

    def part(tile: slice) -> Array:
        g = gradients(kernel, X[tile], atoms, coef)
        if not full:
            return np.asarray(np.einsum("ndq,ndq->d", g, g))
        flat = g.transpose(1, 0, 2).reshape(g.shape[1], -1)
        return np.asarray(flat @ flat.T)

    return np.asarray(np.sum(engine.map_ordered(part, engine.tiles(len(X), 1024)), axis=0) / len(X))


def stretches(G: Array, groups: IntArray | None = None, power: float = 1.0) -> Array:
    """Return the stretch of every column, (G_jj/max)^(power/2); columns of one group share their mean G_jj."""
    diagonal = np.maximum(G if G.ndim == 1 else np.diag(G), 0.0)
    if groups is not None:
        diagonal = (np.bincount(groups, diagonal) / np.bincount(groups))[groups]
    largest = float(diagonal.max(initial=0.0))
    if not largest > 0.0:
        return np.ones(len(diagonal))
    return np.asarray(np.maximum((diagonal / largest) ** (power / 2.0), SMALLEST_PART))


def linear_map(G: Array, power: float = 1.0) -> Array:
    """Return the symmetric T with T·T = (G/‖G‖)^power."""
    values, vectors = np.linalg.eigh(G)
    values = np.maximum(values, 0.0)
    if not values[-1] > 0.0:
        return np.eye(len(G))
    return np.asarray((vectors * (values / values[-1]) ** (power / 2.0)) @ vectors.T)


@dataclass(frozen=True)
class Trial:
    """A kernel with its best penalty: the error on held-out rows, and the coefficients of its atoms."""

    kernel: Any
    alpha: float
    """The penalty for one row: alpha·n is KernelRidge's."""
    error: float
    """Mean over the held-out rows of Σ over outputs of (y − f)²."""
    coef: Array
    at_edge: bool
    back: Array
    """What the model says of the held-out rows, less the targets' mean."""
    factor: float = 1.0
    """The width over the one that was given, or over the median distance."""
    equations: NormalEquations | None = None
    """Of the rows to solve on, where they are kept."""


@dataclass(frozen=True)
class Held:
    """Rows to solve on, the first of which are atoms, and held-out rows to choose by."""

    X: Array
    y: Array
    """Targets less their mean over the rows to solve on, one column an output."""
    X_back: Array
    y_back: Array
    n_atoms: int
    mean: Array
    back: IntArray
    """The numbers of the held-out rows."""
    weight: Array | None = None
    weight_back: Array | None = None

    @classmethod
    def split(
        cls,
        X: Array,
        y: Array,
        weight: Array | None,
        n_atoms: int,
        rng: np.random.Generator,
        back: BoolArray | None = None,
    ) -> Held:
        """Return rows in random order; those held out are told, or :data:`BACK` of all, one at least."""
        order = rng.permutation(len(X))
        if back is None or not back.any():
            behind, front = np.split(order, [max(1, round(BACK * len(X)))])
        else:
            behind, front = order[back[order]], order[~back[order]]
        if not len(front):  # a single row: it stands for both
            front = behind
        weights = (None, None) if weight is None else (weight[front], weight[behind])
        mean = np.average(y[front], axis=0, weights=weights[0])
        atoms = min(n_atoms, len(front))
        return cls(X[front], y[front] - mean, X[behind], y[behind] - mean, atoms, mean, behind, *weights)

    @property
    def atoms(self) -> Array:
        """The rows that are atoms."""
        return self.X[: self.n_atoms]

    def with_atoms(self, n_atoms: int) -> Held:
        """Return the same rows with another number of atoms."""
        return replace(self, n_atoms=min(n_atoms, len(self.X)))

    def all_rows(self) -> tuple[Array, Array]:
        """Return all rows and their targets, those held out at the end."""
        return np.concatenate([self.X, self.X_back]), np.concatenate([self.y, self.y_back])

    def first(self, rows: int, back: int) -> Held:
        """Return the first rows alone, and the first of those held out: they are in random order."""
        weights = (None, None) if self.weight is None else (self.weight[:rows], _head(self.weight_back, back))
        kept = self.X[:rows], self.y[:rows], self.X_back[:back], self.y_back[:back]
        return Held(*kept, min(self.n_atoms, rows), self.mean, self.back[:back], *weights)

    def at(self, kernel: Any, factor: float = 1.0, keep: bool = False) -> Trial:
        """Return a kernel with the penalty of least error on the held-out rows; ``keep`` its equations."""
        data = ArrayTraining(self.X, self.y, self.weight)
        features = TriangularFeatures(kernel, self.atoms, ridge=0.0 if keep else JITTER)
        if keep:
            least = float(ALPHAS[0]) * (len(self.X) if self.weight is None else float(self.weight.sum()))
            equations = NormalEquations.sum(data, features, least)
        else:  # sums of kernel values, and features of none of the rows: their rounding is far below a penalty
            term = NormalTerm(features, np.zeros((self.n_atoms, 0)))
            equations = NormalEquations.of(term, data.sum(term))
        spectrum = equations.spectrum()
        values_of, back = against(kernel, self.atoms), np.empty((len(self.X_back), self.n_atoms))
        for tile in engine.tiles(len(back), TILE):
            back[tile] = values_of(self.X_back[tile])
        scaled = [spectrum.moment / (spectrum.values + alpha * spectrum.weight)[:, None] for alpha in ALPHAS]
        coefs = features.mixing @ (spectrum.vectors @ np.hstack(scaled))
        said = (back @ coefs).reshape(len(back), len(ALPHAS), -1)
        residual = self.y_back[:, None] - said
        errors = np.average(np.einsum("ijk,ijk->ij", residual, residual), axis=0, weights=self.weight_back)
        best = int(np.argmin(errors))
        coef = np.ascontiguousarray(coefs.reshape(self.n_atoms, len(ALPHAS), -1)[:, best])
        at_edge = best in (0, len(errors) - 1)
        kept = equations if keep else None
        return Trial(kernel, float(ALPHAS[best]), float(errors[best]), coef, at_edge, said[:, best], factor, kept)

    def whole(self, trial: Trial) -> tuple[Array, Array]:
        """Return a trial's atoms and their coefficients for all rows, those held out among them.

        Sums over rows add up, so only the held-out rows are looked at again. Targets are less the mean of the rows
        to solve on.
        """
        assert trial.equations is not None
        features = trial.equations.features
        behind = NormalEquations.sum(ArrayTraining(self.X_back, self.y_back, self.weight_back), features)
        both = trial.equations.plus(behind)
        return self.atoms, np.asarray(features.mixing @ both.solve(trial.alpha * both.weight))

    def best_of(self, kernel: Any, factors: tuple[float, ...]) -> Trial:
        """Return the best trial over multiples of a kernel's width."""
        return min((self.at(widened(kernel, factor), factor) for factor in factors), key=lambda trial: trial.error)


def _head(values: Array | None, count: int) -> Array | None:
    return None if values is None else values[:count]


def widened(kernel: Any, factor: float) -> Any:
    """Return a kernel with a multiple of its width."""
    if isinstance(kernel, Metric):
        return Metric(widened(kernel.kernel, factor), kernel.T)
    params = kernel.get_params(deep=False)
    return type(kernel)(**{**params, "length_scale": factor * np.asarray(params["length_scale"])[()]})


def stretched(kernel: Any, stretch: Array, X: Array) -> Any:
    """Return a kernel of the median width in a metric: a stretch for each column, or a map."""
    if isinstance(kernel, Metric):
        kernel = kernel.kernel
    params = kernel.get_params(deep=False)
    middle = type(kernel)(**{**params, "length_scale": "median"})
    mapped = X * stretch if stretch.ndim == 1 else X @ stretch.T
    # rows that are all alike have no distances: any width will do
    width = float(middle.resolve(mapped).length_scale) if np.ptp(mapped, axis=0).any() else 1.0
    if stretch.ndim == 1:
        return type(kernel)(**{**params, "length_scale": width / stretch})
    return Metric(type(kernel)(**{**params, "length_scale": width}), stretch)


def next_metric(trial: Trial, held: Held, full: bool, groups: IntArray | None, power: float = 1.0) -> Any:
    """Return the trial's kernel in the metric of its model's gradients, of the median width there."""
    G = gradient_product(trial.kernel, held.atoms, trial.coef, held.X[:GRADIENT_ROWS], full)
    stretch = linear_map(G, power) if full else stretches(G, groups, power)
    return stretched(trial.kernel, stretch, held.X[:MEDIAN_ROWS])


def learned(
    first: Trial, held: Held, full: bool, groups: IntArray | None, rounds: int, left: Callable[[], float]
) -> Trial:
    """Return the best trial over rounds, each in the metric of the model before and as wide, in median distances.

    The first rounds are tried at half the width too, as long as it is better: slopes are learned at the scale of
    the width, and those of a kernel that is too wide lead the rounds after it astray. When a round gains too
    little, the best one so far is tried at other widths, and rounds go on if that helps.
    """
    best = last = first
    narrower = True
    for _ in range(rounds):
        if not left() > 0.0:
            return best
        kernel = next_metric(last, held, full, groups)
        found = held.best_of(kernel, (last.factor, last.factor / 2.0) if narrower else (last.factor,))
        narrower = found.factor < last.factor
        if found.error > BETTER * last.error:
            before, best = best.error, at_best_width(min(best, found, key=lambda trial: trial.error), held, left)
            if best.error > BETTER * before:
                return best
            found = best
        last, best = found, min(best, found, key=lambda trial: trial.error)
    return at_best_width(best, held, left)


def at_best_width(trial: Trial, held: Held, left: Callable[[], float]) -> Trial:
    """Return the trial at half or twice its width, and again, as long as its error falls."""
    for times in (0.5, 2.0):
        best = trial
        while left() > 0.0:
            found = held.at(widened(best.kernel, times), best.factor * times)
            if not found.error < best.error:
                break
            best = found
        if best is not trial:
            return best
    return trial


def tuned(
    kernel: Any,
    held: Held,
    groups: IntArray | None = None,
    rounds: int = ROUNDS,
    left: Callable[[], float] = lambda: np.inf,
) -> Trial:
    """Return the trial of least error over the rounds of a kernel: from the median width, or from its own numbers.

    No trial begins when no seconds are ``left``.

    A :class:`Metric` learns a linear map, which begins as the identity where it has none; other kernels learn a
    width for each column.
    """
    check_tunable(kernel)
    full = isinstance(kernel, Metric)
    inner = kernel.kernel if full else kernel
    kernel = with_map(kernel, held.X.shape[1])
    if not is_settled(kernel):
        start = stretched(inner, np.ones(held.X.shape[1]), held.X[:MEDIAN_ROWS])
        first = held.best_of(start, WIDE_WIDTHS if getattr(inner, "nu", None) == 0.5 else FIRST_WIDTHS)
        if not rounds:
            return first
    else:
        first = held.at(kernel, in_medians(kernel, held.X))
    return learned(first, held, full, groups, rounds, left)


def check_tunable(kernel: Any) -> None:
    """Refuse a kernel whose width and metric cannot be learned."""
    inner = kernel.kernel if isinstance(kernel, Metric) else kernel
    if not isinstance(inner, RBF | Laplacian | Matern):
        raise TypeError(f"the kernel must be RBF, Laplacian or Matern, or a Metric of one; it is {kernel!r}")
    if isinstance(inner.length_scale, str) and inner.length_scale not in ("learned", "auto", "median"):
        raise ValueError(f"length_scale must be positive, or 'learned'; it is {inner.length_scale!r}")


def in_medians(kernel: Any, X: Array) -> float:
    """Return the width of a kernel over the median distance of the first rows in its metric."""
    return _size(kernel) / _size(stretched(kernel, _stretch_of(kernel, X.shape[1]), X[:MEDIAN_ROWS]))


def _stretch_of(kernel: Any, columns: int) -> Array:
    """Return the metric of a kernel, up to a factor."""
    if isinstance(kernel, Metric):
        return np.asarray(kernel.T, dtype=np.float64)
    return np.broadcast_to(1.0 / np.asarray(kernel.length_scale, dtype=np.float64), (columns,))


def is_settled(kernel: Any) -> bool:
    """Tell whether a kernel's width is a number, or several."""
    inner = kernel.kernel if isinstance(kernel, Metric) else kernel
    return not isinstance(inner.length_scale, str)


def with_map(kernel: Any, columns: int) -> Any:
    """Return a kernel whose map is the identity where its width is settled and nobody gave a map."""
    if isinstance(kernel, Metric) and kernel.T is None and is_settled(kernel):
        return Metric(kernel.kernel, np.eye(columns))
    return kernel


def _size(kernel: Any) -> float:
    """Return the width of a kernel, or that of its first column."""
    inner = kernel.kernel if isinstance(kernel, Metric) else kernel
    return float(np.ravel(inner.length_scale)[0])
