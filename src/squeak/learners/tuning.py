"""Hyper-parameters without a search by hand: the width by leave-one-out error on some rows, alpha from the sums.

For one width a fit gives the whole path of alpha (:class:`Spectrum`), and leave-one-out errors need no refits:
y_i − f₋ᵢ(x_i) = (y_i − f(x_i))/(1 − h_i) with h_i = w_i z_iᵀ(Σ w z zᵀ + alpha·I)⁻¹ z_i.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from squeak.core import engine
from squeak.core.kernels import Metric, block, diagonal
from squeak.core.nystrom import Features, TriangularFeatures
from squeak.core.progress import progress
from squeak.core.rows import n_rows, take
from squeak.core.seeds import SAMPLE, generator_at
from squeak.core.types import Array, IntArray, Rows
from squeak.learners.data import ArrayTraining, Training
from squeak.learners.metric import Held, tuned
from squeak.learners.normal import NormalEquations, Spectrum
from squeak.learners.tiles import tile_rows
from squeak.trees.sums import Arrays

SEARCH_ROWS = 4_000
SEARCH_ATOMS = 400
METRIC_ROWS, METRIC_ATOMS = 10_000, 600
"""Rows and atoms with which a width for each column is learned."""

WIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of the median distance that are tried; the best is then refined by factors of √2."""

FEWEST_LEFT = 1e-10
"""1 − h is taken to be no less: a row that fits itself alone says nothing of others."""


def alpha_grid(mean_diagonal: float, n: float) -> Array:
    """Return the alphas that ``"auto"`` tries: from 1e-8 to 0.1 of the trace of K (n: the rows' weight in all)."""
    return np.geomspace(1e-8, 1e-1, 19) * mean_diagonal * n


@dataclass(frozen=True)
class LeaveOneOutTerm:
    """Σ w (y − f₋ᵢ)² over a block, for every alpha."""

    features: Features
    spectrum: Spectrum
    alphas: Array

    def __call__(self, X: Rows, pair: tuple[Any, Any]) -> Arrays:
        """Return the sums, in tiles on the threads."""
        y, weight = pair
        turned = self.features.mixing @ self.spectrum.vectors
        shrunk = 1.0 / (self.spectrum.values[:, None] + self.alphas)

        def errors(tile: slice) -> Array:
            Z = block(self.features.kernel, take(X, tile), self.features.atoms) @ turned
            w = np.ones(len(Z)) if weight is None else weight[tile]
            left = np.maximum(1.0 - w[:, None] * (np.square(Z) @ shrunk), FEWEST_LEFT)
            targets = y[tile].reshape(len(Z), -1)
            total = np.empty(len(self.alphas))
            for number in range(len(self.alphas)):
                residual = targets - Z @ (self.spectrum.moment * shrunk[:, [number]])
                total[number] = w @ np.square(residual / left[:, [number]]).sum(axis=1)
            return total

        tiles = engine.tiles(n_rows(X), tile_rows(len(self.features.mixing)))
        return (np.sum(engine.map_ordered(errors, tiles), axis=0),)


def leave_one_out(data: Any, features: Features, spectrum: Spectrum, alphas: Array) -> Array:
    """Return the mean squared leave-one-out error for every alpha: one more pass over the rows."""
    (total,) = data.sum(LeaveOneOutTerm(features, spectrum, alphas))
    return np.asarray(total / spectrum.weight)


def wants_search(kernel: Any) -> bool:
    """Tell whether a kernel's width, or its linear map, is to be searched for."""
    return asked_width(kernel) in ("auto", "learned")


def asked_width(kernel: Any) -> str | None:
    """Return the word that a kernel, or the one in a metric, has for its width; None where that is a number."""
    width = getattr(getattr(kernel, "kernel", kernel), "length_scale", None)
    return width if isinstance(width, str) else None


def searched_kernel(kernel: Any, data: Training, y_of: Any, seed: int, verbose: int = 0) -> Any:
    """Return the kernel with the width of least leave-one-out error, at each width's best alpha.

    Parameters
    ----------
    kernel : kernel
        With ``length_scale="auto"`` or ``"learned"``; others come back as they are.
    data : rows and targets
        Up to 4,000 rows of it are used: drawn from rows in memory, the first of a stream.
    y_of : function
        Targets as numbers, one column an output.
    seed : int
    verbose : int
        1 shows a progress bar over the widths.
    """
    if not wants_search(kernel):
        return kernel
    by_column = asked_width(kernel) == "learned"
    if isinstance(kernel, Metric) and kernel.T is None and not by_column:
        return searched_kernel(kernel.kernel, data, y_of, seed, verbose)
    if isinstance(kernel, Metric) and kernel.T is not None:  # the map is given: the width is looked for behind it
        X, y, weight = _some_rows(data, seed, METRIC_ROWS if by_column else SEARCH_ROWS)
        mapped = ArrayTraining(kernel.mapped(X), y, weight)
        return Metric(searched_kernel(kernel.kernel, mapped, y_of, seed, verbose), kernel.T)
    X, y, weight = _some_rows(data, seed, METRIC_ROWS if by_column else SEARCH_ROWS)
    targets = np.asarray(y_of(y), dtype=np.float64).reshape(n_rows(X), -1)
    targets = targets - np.average(targets, axis=0, weights=weight)
    if by_column:
        with progress("length_scale", "metrics", 1, verbose):
            return _in_learned_metric(kernel, X, targets, weight, _groups(data), seed)
    middle = type(kernel)(**{**kernel.get_params(deep=False), "length_scale": "median"}).resolve(X)
    some = ArrayTraining(X, targets, weight)
    tried: dict[float, float] = {}
    with progress("length_scale", "widths", len(WIDTHS) + 2, verbose) as bar:

        def best_with(factors: Iterable[float]) -> float:
            for factor in factors:
                tried[factor] = _error(middle, factor, some)
                bar.update(1)
            return min(tried, key=tried.__getitem__)

        best = best_with(WIDTHS)
        best = best_with((best / np.sqrt(2.0), best * np.sqrt(2.0)))
    return _wider(middle, best)


def _groups(data: Training) -> IntArray | None:
    """Return for every number of a row which of the user's columns it comes from; None: each is its own."""
    preprocessing = None if isinstance(data, ArrayTraining) else data.source.preprocessing
    if preprocessing is None:
        return None
    sizes = [span.stop - span.start for _, span in preprocessing.spans()]
    return np.repeat(np.arange(len(sizes)), sizes)


def _in_learned_metric(kernel: Any, X: Rows, y: Array, weight: Any, groups: IntArray | None, seed: int) -> Any:
    """Return the kernel with a width for each column, or a linear map, of least error on held-out rows."""
    if not isinstance(X, np.ndarray):
        raise TypeError("length_scale='learned' needs dense rows: it looks along every column")
    held = Held.split(X, y, weight, METRIC_ATOMS, generator_at(seed, SAMPLE, 78))
    return tuned(kernel, held, groups).kernel


def _some_rows(data: Training, seed: int, most: int) -> tuple[Rows, Any, Any]:
    if isinstance(data, ArrayTraining):
        X, y, weight = data.X, data.y, data.weight
    else:
        X, (y, weight) = data.first()
    n = n_rows(X)
    chosen = np.sort(generator_at(seed, SAMPLE, 77).permutation(n)[:most])
    return take(X, chosen), y[chosen], None if weight is None else weight[chosen]


def _wider(kernel: Any, factor: float) -> Any:
    params = kernel.get_params(deep=False)
    return type(kernel)(**{**params, "length_scale": float(factor * params["length_scale"])})


def _error(kernel: Any, factor: float, data: ArrayTraining) -> float:
    """Return the least leave-one-out error over alpha at a multiple of a kernel's width."""
    wider = _wider(kernel, factor)
    n = n_rows(data.X)
    atoms = take(data.X, np.unique(np.linspace(0, n - 1, min(n, SEARCH_ATOMS)).astype(np.int64)))
    features = TriangularFeatures(wider, atoms)
    equations = NormalEquations.sum(data, features)
    alphas = alpha_grid(float(diagonal(wider, atoms).mean()), equations.weight)
    return float(leave_one_out(data, features, equations.spectrum(), alphas).min())
