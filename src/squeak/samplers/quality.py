"""How good a dictionary is, by every measure: accuracy, score ratios, trace error, regression risk."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from squeak.core import engine
from squeak.core.kernels import Kernel, block, diagonal, gram, resolve
from squeak.core.leverage import WeightedFactor, scores_at
from squeak.core.nystrom import TriangularFeatures
from squeak.core.rows import n_rows, take
from squeak.core.seeds import PROBE, generator_at
from squeak.core.types import Array, Rows
from squeak.samplers.dictionary import Dictionary
from squeak.samplers.measured import estimate_accuracy


class Tally:
    """A number that several threads add to, and that copies of its owner share."""

    def __init__(self) -> None:
        self.total = 0
        self._lock = threading.Lock()

    def add(self, number: int) -> None:
        """Add to the total."""
        with self._lock:
            self.total += number

    def __deepcopy__(self, memo: object) -> Tally:
        return self


class CountingKernel(Kernel):
    """Any kernel, with every value that is computed counted in ``tally``."""

    def __init__(self, kernel: Any, tally: Tally) -> None:
        self.kernel = kernel
        self.tally = tally
        self.accepts_sparse = getattr(kernel, "accepts_sparse", False)
        self.requires_vector_input = getattr(kernel, "requires_vector_input", True)

    def _block(self, X: Rows, Y: Rows) -> Array:
        self.tally.add(n_rows(X) * n_rows(Y))
        return block(self.kernel, X, Y)

    def _gram(self, X: Rows) -> Array:
        self.tally.add(n_rows(X) ** 2)
        return gram(self.kernel, X)

    def _diag(self, X: Rows) -> Array:
        self.tally.add(n_rows(X))
        return diagonal(self.kernel, X)

    def resolve(self, X: Rows) -> CountingKernel:
        """Return this kernel with every width that is to be learned from data replaced by its value."""
        return CountingKernel(resolve(self.kernel, X), self.tally)

    def is_stationary(self) -> bool:
        """Tell whether values depend on x − y only."""
        return bool(getattr(self.kernel, "is_stationary", lambda: False)())


NEGLIGIBLE = 1e-10
"""Directions with a smaller share λ/(λ + ridge) than this part of the largest change no measure that is printed."""

RANK = 1e-13


@dataclass(frozen=True)
class Judge:
    """All rows, and what is known of them exactly where there are few enough; judges dictionaries of them.

    ``exact``: whether K and its eigenvectors may be computed.
    """

    X: Rows
    kernel: Any
    ridge: float
    exact: bool

    @cached_property
    def K(self) -> Array:
        """The kernel matrix of all rows."""
        return gram(self.kernel, self.X)

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """The eigenvalues and eigenvectors of K, ascending."""
        values, vectors = eigh(self.K, check_finite=False)
        return values, vectors

    @cached_property
    def scores(self) -> Array:
        """The exact ridge leverage scores."""
        values, vectors = self.spectrum
        return scores_at(values, np.square(vectors), np.ones(len(values)), self.ridge)

    @cached_property
    def _directions(self) -> Array:
        """B = U·√(λ/(λ + ridge)), negligible columns left out: P − P̃ has the eigenvalues of Bᵀ diag(1 − w) B."""
        values, vectors = self.spectrum
        shares = np.maximum(values, 0.0) / (np.maximum(values, 0.0) + self.ridge)
        keep = shares > NEGLIGIBLE * shares[-1]
        return np.ascontiguousarray(vectors[:, keep] * np.sqrt(shares[keep]))

    def accuracy(self, weights: Array) -> float:
        """Return ε̂ = ‖P − P̃‖ of weights, one a row: its largest eigenvalue in size, by Lanczos steps to 1e-9."""
        B, apart = self._directions, 1.0 - weights
        if np.abs(apart).max(initial=0.0) < RANK:
            return 0.0
        if B.shape[1] < 50:
            return _dense_norm(B, apart)
        error = LinearOperator((B.shape[1],) * 2, matvec=lambda v: B.T @ (apart * (B @ v)), dtype=np.float64)
        start = generator_at(0, PROBE).standard_normal(B.shape[1])
        try:
            values = eigsh(error, k=2, which="LM", tol=1e-9, v0=start, return_eigenvectors=False)
        except ArpackError:
            return _dense_norm(B, apart)
        return float(np.abs(values).max())

    @cached_property
    def trace(self) -> float:
        """Tr K."""
        return float(diagonal(self.kernel, self.X).sum())

    def judge(self, d: Dictionary) -> dict[str, float]:
        """Return every measure of a dictionary; NaN for what it does not have or what would cost too much."""
        facts = {"accuracy_low": np.nan, "accuracy_high": np.nan}
        facts |= {"ratio_mean": np.nan, "ratio_5%": np.nan, "ratio_95%": np.nan}
        if d.calibrated and self.exact:
            weights = np.zeros(n_rows(self.X))
            weights[d.positions] = d.weights
            facts["accuracy_low"] = facts["accuracy_high"] = self.accuracy(weights)
            positive = self.scores > 0
            ratios = self._estimated(d)[positive] / self.scores[positive]
            facts["ratio_mean"] = float(ratios.mean())
            facts["ratio_5%"], facts["ratio_95%"] = (float(value) for value in np.quantile(ratios, [0.05, 0.95]))
        elif d.calibrated:
            found = estimate_accuracy(replace(d, ridge=self.ridge), self.X)
            facts["accuracy_low"], facts["accuracy_high"] = found.lower, found.upper
        return facts | self._reconstruction(d)

    def _estimated(self, d: Dictionary) -> Array:
        """Return the scores that the dictionary gives at the judge's ridge, which need not be its own."""
        return WeightedFactor.build(self.kernel, d.atoms, d.weights, self.ridge)[0].scores(self.X)

    def _reconstruction(self, d: Dictionary) -> dict[str, float]:
        """Return the relative trace error of K̃ = Z Zᵀ, and the risk factor where K is known."""
        features = TriangularFeatures(self.kernel, d.atoms)
        if not self.exact:

            def squares(tile: slice) -> float:
                return float(np.square(features.block(take(self.X, tile))).sum())

            kept = sum(engine.map_ordered(squares, engine.tiles(n_rows(self.X), 1024)))
            return {"trace_error": max(0.0, 1.0 - kept / self.trace), "risk_factor": np.nan}
        Z = features.transform(self.X)
        trace_error = max(0.0, 1.0 - float(np.square(Z).sum()) / self.trace)
        return {"trace_error": trace_error, "risk_factor": self._risk(Z) / (self.ridge * float(self.scores.sum()))}

    def _risk(self, Z: Array) -> float:
        """Return the mean risk of ridge regression with K̃ = Z Zᵀ over functions drawn from the kernel's own prior.

        R = λ²·Tr[(K̃ + λ)⁻¹K(K̃ + λ)⁻¹] + σ²·Tr[K̃²(K̃ + λ)⁻²] with λ = σ² = ridge; with K itself it is ridge·d_eff.
        """
        squares, V = eigh(Z.T @ Z, check_finite=False)  # Z = A √squares Vᵀ
        keep = squares > RANK * squares[-1]
        squares, A = squares[keep], Z @ (V[:, keep] / np.sqrt(squares[keep]))
        shares = squares / (squares + self.ridge)
        diag = np.einsum("ij,ij->j", A, self.K @ A)
        bias = self.trace - float(((2 * shares - shares**2) * diag).sum())
        return bias + self.ridge * float(np.square(shares).sum())


def _dense_norm(B: Array, apart: Array) -> float:
    return float(np.abs(np.linalg.eigvalsh(B.T @ (apart[:, None] * B))).max(initial=0.0))
