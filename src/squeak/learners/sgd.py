"""Stochastic gradient descent on random features: what is looked at before, the steps, and the losses.

    w ← w − step(t)/b · Σ_batch φ(x)·slope(w·φ(x), y),    step(t) = step/κ² · t^(−decay),    ‖φ(x)‖² ≤ κ².

No penalty: what regularises is step·T, T steps in all (about 1/λ of ridge regression). All batch sizes b do
the same at equal step·T as long as step/b stays below about 1/√n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.linalg import eigvalsh

from squeak.core import engine
from squeak.core.fourier import FourierFeatures
from squeak.core.rows import join, n_rows, take
from squeak.core.seeds import ORDER, coins, generator_at
from squeak.core.types import Array, Rows
from squeak.learners.logistic import losses, probabilities

SAMPLE_ROWS = 1000
"""Rows from which the kernel's width and the features' largest eigenvalue are learned."""

HELD_ROWS = 10_000
"""Rows held out at most: more would cost time and tell little."""


class Loss(Protocol):
    """A loss ℓ(f, y) of values f of shape (n, outputs)."""

    def slope(self, F: Array, Y: Array) -> Array:
        """Return dℓ/df."""

    def value(self, F: Array, Y: Array) -> Array:
        """Return ℓ, shape (n,)."""


class Squared:
    """½(f − y)², whose slope is f − y: no factor 2."""

    def slope(self, F: Array, Y: Array) -> Array:
        """Return f − y."""
        return F - Y

    def value(self, F: Array, Y: Array) -> Array:
        """Return ½(f − y)², added over the outputs."""
        return np.asarray(0.5 * np.sum((F - Y) ** 2, axis=1))


class Logistic:
    """log(1 + e^f) − y·f for one output and y in {0, 1}; log Σ e^f − f_y for several, y a row of 0 and one 1."""

    def slope(self, F: Array, Y: Array) -> Array:
        """Return the probabilities minus y."""
        return np.asarray(probabilities(F) - Y)

    def value(self, F: Array, Y: Array) -> Array:
        """Return minus the log-likelihood; large values do not overflow."""
        return losses(F, Y)


class Lowest:
    """The rows with the lowest keys among all that were shown, in the rows' order."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.keys: Array | None = None
        self.kept: tuple[Rows, Any, Any] | None = None

    def add(self, keys: Array, which: Any, X: Rows, y: Any, weight: Any) -> None:
        """Look at the rows of a block that are named, with their keys."""
        if len(which) == 0:
            return
        if len(which) > self.size:
            which = which[np.sort(np.argpartition(keys[which], self.size - 1)[: self.size])]
        new = take(X, which), y[which], None if weight is None else weight[which]
        if self.keys is None or self.kept is None:
            self.keys, self.kept = keys[which], new
            return
        joined = np.concatenate([self.keys, keys[which]])
        some: Any = slice(None)
        if len(joined) > self.size:
            some = np.sort(np.argpartition(joined, self.size - 1)[: self.size])
        (rows, *old), (more, *fresh) = self.kept, new
        pairs = (None if a is None else np.concatenate([a, b])[some] for a, b in zip(old, fresh, strict=True))
        self.keys, self.kept = joined[some], (take(join(rows, more), some), *pairs)


@dataclass
class Survey:
    """What one look at all rows tells: how many there are, some for a validation, some for a sample.

    Every row has a coin that depends on its number alone. Those below ``threshold`` are held out; those with the
    highest are the sample. So the same rows are chosen in memory and from a source.
    """

    n: int
    seed: int
    threshold: float
    held: tuple[Rows, Any, Any] | None
    sample: Rows

    @classmethod
    def of(cls, blocks: Iterator[Any], seed: int, fraction: float, look: Callable[[Any, Any], None]) -> Survey:
        """Read all rows once; ``look`` is shown the targets and weights of every block."""
        n, held, sample = 0, Lowest(HELD_ROWS), Lowest(SAMPLE_ROWS)
        for X, (y, weight) in blocks:
            look(y, weight)
            u = coins(seed, n, n_rows(X))
            held.add(u, np.flatnonzero(u < fraction), X, y, weight)
            sample.add(1.0 - u, np.arange(len(u)), X, y, weight)
            n += len(u)
        if sample.kept is None:
            raise ValueError("there are no rows")
        full = held.keys is not None and len(held.keys) == HELD_ROWS
        threshold = float(np.nextafter(held.keys.max(), 1.0)) if full and held.keys is not None else fraction
        if held.keys is not None and len(held.keys) == n:  # a handful of rows: all are needed
            return cls(n, seed, 0.0, None, sample.kept[0])
        return cls(n, seed, threshold, held.kept, sample.kept[0])

    @property
    def n_training(self) -> int:
        """The number of rows that are learned from."""
        return self.n - (0 if self.held is None else n_rows(self.held[0]))

    def passes(
        self, blocks: Iterator[Any], number: int, shuffle: bool, replacement: bool = False
    ) -> Iterator[tuple[Rows, Any, Any, Any]]:
        """Yield the blocks of a pass, each with its targets, weights, and the order in which its rows are used.

        With ``replacement`` that is as many independent draws from the block's rows as there are of them.
        """
        first = 0
        for place, (X, (y, weight)) in enumerate(blocks):
            order = np.flatnonzero(coins(self.seed, first, n_rows(X)) >= self.threshold)
            first += n_rows(X)
            if replacement:
                order = generator_at(self.seed, ORDER, number, place).choice(order, len(order))
            elif shuffle:
                order = generator_at(self.seed, ORDER, number, place).permutation(order)
            yield X, y, weight, order


class Descent:
    """Coefficients on their way down: ``last``, after so many ``steps``; a batch may be half summed."""

    def __init__(
        self, features: FourierFeatures, loss: Loss, intercept: Array, batch: int, step: float, decay: float
    ) -> None:
        self.features, self.loss, self.intercept = features, loss, intercept
        self.batch, self.step_length, self.decay = batch, step, decay
        self.last = np.zeros((features.rank, len(intercept)))
        self.steps = self.passes = 0
        self._gradient, self._filled = np.zeros_like(self.last), 0
        self._tail_from, self._tail, self._tail_steps = 0, np.zeros_like(self.last), 0

    def copy(self) -> Descent:
        """Return a descent of its own at the same point."""
        other = copy(self)
        other.last, other._gradient, other._tail = self.last.copy(), self._gradient.copy(), self._tail.copy()
        return other

    def begin(self, rows: int, tail: float) -> None:
        """Begin a pass over so many rows; the iterates of the last part ``tail`` of its steps are averaged."""
        steps = -(-rows // self.batch)
        self._tail_from = self.steps + steps - int(np.ceil(tail * steps)) if tail > 0 else self.steps + steps + 1
        self._tail[:], self._tail_steps = 0.0, 0

    def feed(self, X: Rows, encode: Callable[[Any], Array], y: Any, weight: Any, order: Any) -> None:
        """Learn from rows in an order, batch by batch; encode turns targets into numbers."""
        at = 0
        while at < len(order):
            which = order[at : at + self.batch - self._filled]
            w = None if weight is None else weight[which]
            self._gradient += self._sum(take(X, which), encode(y[which]), w)
            self._filled, at = self._filled + len(which), at + len(which)
            if self._filled == self.batch:
                self._take_step()

    def end(self) -> Array:
        """Take the step of a last, smaller batch, and return the coefficients: the tail's mean where asked for."""
        if self._filled:
            self._take_step()
        return self._tail / self._tail_steps if self._tail_steps else self.last.copy()

    def _take_step(self) -> None:
        self.steps += 1
        length = self.step_length / self.features.bound * self.steps**-self.decay
        self.last -= length / self.batch * self._gradient
        self._gradient[:], self._filled = 0.0, 0
        if self.steps > self._tail_from:
            self._tail += self.last
            self._tail_steps += 1

    def _sum(self, X: Rows, Y: Array, weight: Any) -> Array:
        """Return Σ φ(x)·slope over some rows, in tiles on the threads."""

        def tile_sum(tile: slice) -> Array:
            Z = self.features.block(take(X, tile))
            slope = self.loss.slope(Z @ self.last + self.intercept, Y[tile])
            return np.asarray(Z.T @ (slope if weight is None else slope * weight[tile, None]))

        tiles = self.features.tiles(len(Y))
        if len(tiles) == 1:
            return tile_sum(tiles[0])
        return np.asarray(sum(engine.map_ordered(tile_sum, tiles)))

    def error(self, coef: Array, held: tuple[Rows, Any, Any], encode: Callable[[Any], Array]) -> float:
        """Return the mean loss of coefficients over rows that were held out."""
        X, y, weight = held
        Y = encode(y)
        values = np.empty(len(Y))

        def fill(tile: slice) -> None:
            values[tile] = self.loss.value(self.features.block(take(X, tile)) @ coef + self.intercept, Y[tile])

        engine.map_ordered(fill, self.features.tiles(len(Y)))
        return float(np.average(values, weights=weight))


def safe_step(features: FourierFeatures, sample: Rows, batch: int) -> float:
    """Return the longest safe step, times κ²: κ²·b/(κ² + (b − 1)·λ) with λ the largest eigenvalue of E φφᵀ.

    One row alone allows 1/κ², many together 1/λ. λ is measured on the sample (of its rows' kernel matrix).

    References
    ----------
    Ma, Bassily, Belkin, "The power of interpolation", 2018.
    """
    n = n_rows(sample)
    K = features.kernel(sample) / n
    try:
        largest = float(eigvalsh(K, subset_by_index=[n - 1, n - 1], check_finite=False)[0])
    except np.linalg.LinAlgError:  # LAPACK cannot tell one of many equal eigenvalues: K is all but diagonal
        largest = float(eigvalsh(K, driver="ev", check_finite=False)[-1])
    return features.bound * batch / (features.bound + (batch - 1) * largest)
