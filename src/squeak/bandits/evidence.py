"""Marginal likelihood of rewards on counts, exact or on landmarks, and the hyper-parameters that maximise it.

For t rewards with within-arm squares W = Σ y² − Σ_i n_i ȳ_i² and M = K_u + λ·diag(1/n), centred by the mean m:

    −2·log p = t·log 2π + Σ_i [(n_i − 1)·log λ + log n_i] + logdet M + W/λ + (ȳ − m)ᵀM⁻¹(ȳ − m).

On landmarks K is replaced by its Nyström approximation Q and Σ_i n_i(k_ii − q_ii)/λ is added: a lower bound of log
p, equal to it when the landmarks are all the arms pulled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import clone

from squeak.core.checks import check_whole
from squeak.core.cholesky import NotPositiveDefiniteError, inverse_factor
from squeak.core.kernels import RBF, Kernel, Matern, Scaled, diagonal, gram
from squeak.core.nystrom import TriangularFeatures
from squeak.core.rows import n_rows, take
from squeak.core.types import Array, IntArray, Rows

LANDMARKS = 400
"""With more distinct arms than this the likelihood is taken on landmarks."""


@dataclass(frozen=True)
class Hyperparameters:
    """What :func:`fit_hyperparameters` found."""

    kernel: Any
    noise: float
    mean: float
    log_likelihood: float


def refit_steps(refit: str | Iterable[int] | None) -> tuple[int, ...]:
    """Return the numbers of rewards after which hyper-parameters are fitted again; "doubling" is 32, 64, 128, …."""
    if refit is None:
        return ()
    words = f"refit must be None, 'doubling' or numbers of rewards; it is {refit!r}"
    if isinstance(refit, str):
        if refit != "doubling":
            raise ValueError(words)
        return tuple(32 * 2**i for i in range(20))
    if not isinstance(refit, Iterable):
        raise TypeError(words)
    return tuple(check_whole("refit", step) for step in refit)


def log_evidence(
    rows: Rows,
    counts: Array,
    sums: Array,
    square_sum: float,
    kernel: Any,
    noise: float,
    mean: float = 0.0,
    landmarks: IntArray | None = None,
) -> float:
    """Return log p(rewards), or its lower bound on landmarks; the formula is in the module's head.

    Parameters
    ----------
    rows : rows of the u distinct arms
    counts, sums : arrays of shape (u,)
        How often each was pulled, and the sum of its rewards.
    square_sum : float
        The sum of all squared rewards.
    kernel : kernel
    noise : float
    mean : float
        The prior mean.
    landmarks : array of ints, optional
        Which of the rows span the approximation; all of them when left out.

    Returns
    -------
    float

    References
    ----------
    Rasmussen and Williams, equation 2.30; on landmarks the bound of Titsias (2009).

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits.evidence import log_evidence
    >>> from squeak.kernels import RBF
    >>> round(log_evidence(np.zeros((1, 1)), np.array([2.0]), np.array([2.0]), 2.0, RBF(1.0), 1.0), 4)
    -2.7205
    """
    return _Likelihood(rows, counts, sums, square_sum, landmarks).best(kernel, noise**2, 1.0, mean)[0]


class _Likelihood:
    """The rewards, and their likelihood under any kernel."""

    def __init__(
        self, rows: Rows, counts: Array, sums: Array, square_sum: float, landmarks: IntArray | None
    ) -> None:
        self.rows, self.counts, self.means = rows, counts, sums / counts
        self.total = float(counts.sum())
        self.within = max(square_sum - float(counts @ self.means**2), 0.0)
        self.landmarks = landmarks
        self._root: Array = np.zeros((0, 0))  # L⁻¹ of M = LLᵀ, where best was called last

    def best(self, kernel: Any, ratio: float, amplitude: float | None, mean: float | None) -> tuple[float, ...]:
        """Return (log p, amplitude, mean) for the kernel times amplitude, λ = ratio·amplitude; None: the best."""
        logdet, whitened, ones, penalty = self._whiten(kernel, ratio)
        if mean is None:
            mean = float(ones @ whitened) / max(float(ones @ ones), 1e-300)
        gap = whitened - mean * ones
        quadratic = float(gap @ gap)
        if amplitude is None:
            amplitude = max((quadratic + self.within / ratio) / self.total, 1e-300)
        ridge, logdet = ratio * amplitude, logdet + len(self.counts) * math.log(amplitude)
        repeats = (self.total - len(self.counts)) * math.log(ridge) + float(np.log(self.counts).sum())
        fixed = self.total * math.log(2 * math.pi) + repeats + self.within / ridge
        return -0.5 * (fixed + logdet + quadratic / amplitude + penalty), amplitude, mean

    def slopes(self, kernel: Any, ratio: float, amplitude: float, mean: float) -> tuple[Array, float]:
        """Return the derivatives of log p by the logarithms of each column's width, and by that of λ.

        Of an RBF or Matern, scaled or not, for which :meth:`best` was called last, and gave amplitude and mean.
        With M of the module's head for amplitude 1, α = M⁻¹(ȳ − m) and W = M⁻¹ − ααᵀ/amplitude, the derivative by
        anything that moves M is −½·Σ W∘∂M; one by the log width of column c is
        ½·Σ_ij W_ij·k′_ij·(x_ic − x_jc)²/width_c², where ∇k = k′·(x − y)/width².
        """
        X, factor = np.asarray(self.rows, dtype=np.float64), kernel.factor if isinstance(kernel, Scaled) else 1.0
        inner, root = kernel.kernel if isinstance(kernel, Scaled) else kernel, self._root
        alpha = root.T @ (root @ (self.means - mean))
        W = root.T @ root - np.multiply.outer(alpha, alpha / amplitude)
        by_noise = float(W.diagonal() @ (ratio / self.counts)) + self.total - len(self.counts)
        X = X - X.mean(axis=0)  # products of differences, from products of rows: nothing may cancel
        weights = W * _steepness(inner, X) * factor
        squares = weights.sum(axis=1) @ X**2 - np.einsum("ij,ij->j", X, weights @ X)
        return squares / np.square(inner.length_scale), -0.5 * (by_noise - self.within / (ratio * amplitude))

    def _whiten(self, kernel: Any, ridge: float) -> tuple[float, Array, Array, float]:
        """Return logdet M, and vectors a, o with aᵀa = ȳᵀM⁻¹ȳ, aᵀo = ȳᵀM⁻¹1, oᵀo = 1ᵀM⁻¹1; and the penalty."""
        if self.landmarks is None:
            M = gram(kernel, self.rows)
            M[np.diag_indices_from(M)] += ridge / self.counts
            self._root = factor = inverse_factor(M)
            both = factor @ np.column_stack([self.means, np.ones(len(self.means))])
            return -2.0 * float(np.log(factor.diagonal()).sum()), both[:, 0], both[:, 1], 0.0
        features = TriangularFeatures(kernel, take(self.rows, self.landmarks))
        Z = features.block(self.rows)
        left = np.maximum(diagonal(kernel, self.rows) - np.einsum("ij,ij->i", Z, Z), 0.0)
        scaled = Z * np.sqrt(self.counts)[:, None]
        V = scaled.T @ scaled / ridge
        V[np.diag_indices_from(V)] += 1.0
        factor = inverse_factor(V)
        data = np.column_stack([self.means, np.ones(len(self.means))]) * np.sqrt(self.counts / ridge)[:, None]
        inside = factor @ (scaled.T @ data) / math.sqrt(ridge)
        gram2 = data.T @ data - inside.T @ inside  # aᵀa, aᵀo, oᵀo in a 2 × 2 matrix
        roots, vectors = np.linalg.eigh(gram2)
        half = np.sqrt(np.maximum(roots, 0.0))[:, None] * vectors.T
        logdet = -2.0 * float(np.log(factor.diagonal()).sum()) + float(np.log(ridge / self.counts).sum())
        return logdet, half[:, 0], half[:, 1], float(self.counts @ left) / ridge


def fit_hyperparameters(
    rows: Rows,
    counts: Array,
    sums: Array,
    square_sum: float,
    kernel: Any,
    noise: float,
    mean: float = 0.0,
    *,
    landmarks: IntArray | None = None,
    fit_mean: bool = True,
    fit_amplitude: bool = False,
    groups: IntArray | None = None,
    least_noise: float = 1e-4,
    iterations: int = 50,
    prior: Any = None,
    restart: bool = True,
) -> Hyperparameters:
    """Return kernel, noise and prior mean that maximise the marginal likelihood, started from those given.

    Every length scale of a squeak kernel is multiplied by a common factor (or, with ``groups``, those of
    each group of columns by its own); scikit-learn's kernels are moved by their ``theta``.

    Parameters
    ----------
    rows, counts, sums, square_sum, landmarks
        As in :func:`log_evidence`. Above 400 rows without landmarks, 400 evenly spaced ones carry the likelihood.
    kernel : kernel
    noise, mean : float
    fit_mean, fit_amplitude : bool
        Fit the prior mean, and a factor on the kernel.
    groups : array of ints, one for each column, optional
        The number of the group, from 0 on, whose factor multiplies the width of the column. One factor for all
        columns when left out.
    least_noise : float
        The noise is no less than this part of the kernel's standard deviation.
    iterations : int
        Of L-BFGS.
    prior : kernel, optional
        Widths are expected within a factor e³ or so of this kernel's; of those of ``kernel`` when left out.
    restart : bool
        Start a second time, and take the better of both: from the widths of ``prior`` and much noise where it is
        given, else from smaller widths and little noise.

    Returns
    -------
    Hyperparameters
        With ``kernel``, ``noise``, ``mean`` and ``log_likelihood``.

    References
    ----------
    Rasmussen and Williams, section 5.4.

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits.evidence import fit_hyperparameters
    >>> from squeak.kernels import RBF
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((80, 1))
    >>> y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(80)
    >>> found = fit_hyperparameters(X, np.ones(80), y, float(y @ y), RBF(1.0), 1.0)
    >>> 0.07 < found.noise < 0.13, 0.1 < found.kernel.length_scale < 0.6
    (True, True)
    """
    if landmarks is None and n_rows(rows) > LANDMARKS:
        landmarks = np.unique(np.linspace(0, n_rows(rows) - 1, LANDMARKS).astype(np.int64))
    data = _Likelihood(rows, counts, sums, square_sum, landmarks)
    knobs = _Knobs(kernel, groups)
    home, spread = (knobs.start, 9.0) if prior is None else (knobs.distance(prior), 1.0)
    size = float(np.mean(diagonal(kernel, rows)))
    least = least_noise**2
    amplitude = None if fit_amplitude else 1.0
    centre = None if fit_mean else mean
    smooth = landmarks is None and knobs.is_radial

    def parts(theta: Array) -> tuple[Any, float]:
        return knobs.turned(theta[:-1]), float(np.exp(theta[-1])) * size

    def loss(theta: Array) -> Any:
        try:
            likelihood, *best = data.best(*parts(theta), amplitude, centre)
            slopes = knobs.slopes(*data.slopes(*parts(theta), *best)) if smooth else np.zeros(len(theta))
        except (NotPositiveDefiniteError, FloatingPointError):
            likelihood, slopes = -1e25, np.zeros(len(theta))
        apart = theta[:-1] - home  # keeps idle widths at home
        value = min(0.5 * float((apart**2).sum()) / spread - likelihood, 1e25)
        slopes[:-1] -= apart / spread
        return (value, -slopes) if smooth else value

    start = np.append(knobs.start, math.log(max(noise**2 / size, least * 2)))
    bounds = [*knobs.bounds, (math.log(least), math.log(100.0))]
    options = {"maxiter": iterations, "maxfun": 40 * iterations}
    starts = [start]
    if restart and isinstance(kernel, Kernel):
        # Wide kernels with much noise and narrow ones with little explain the same values: look from both sides.
        starts.append(np.append(*((knobs.start - 2.0, math.log(0.01)) if prior is None else (home, math.log(0.1)))))
    runs = [minimize(loss, at, method="L-BFGS-B", jac=smooth, bounds=bounds, options=options) for at in starts]
    found = min(runs, key=lambda run: float(run.fun))
    before = loss(start)
    theta = found.x if found.fun <= (before[0] if smooth else before) else start
    turned, ratio = parts(theta)
    value, factor, centre_found = data.best(turned, ratio, amplitude, centre)
    turned = clone(turned, safe=False)
    if fit_amplitude:
        turned = Scaled(turned.kernel, turned.factor * factor) if isinstance(turned, Scaled) else turned * factor
    return Hyperparameters(turned, math.sqrt(ratio * factor), centre_found, value)


class _Knobs:
    """The numbers of a kernel that a fit may turn, on a log scale."""

    def __init__(self, kernel: Any, groups: IntArray | None) -> None:
        self.kernel, self.groups = kernel, groups
        if isinstance(kernel, Kernel):
            self._scratch = clone(kernel, safe=False)
            owners = [(owner, owner.length_scale) for owner in _with_widths(self._scratch)]
            self._owners = [(owner, np.asarray(w) if isinstance(w, list | tuple) else w) for owner, w in owners]
            count = 0 if not self._owners else 1 if groups is None else int(groups.max()) + 1
            self.start = np.zeros(count)
            self.bounds = [(-5.0, 5.0)] * count
        else:
            self.start = np.array(kernel.theta, dtype=np.float64)
            self.bounds = [tuple(pair) for pair in np.atleast_2d(kernel.bounds)] if len(self.start) else []

    @property
    def is_radial(self) -> bool:
        """Whether the slopes of the likelihood are known."""
        inner = self.kernel.kernel if isinstance(self.kernel, Scaled) else self.kernel
        return isinstance(inner, RBF) or (isinstance(inner, Matern) and inner.nu > 0.5)

    def slopes(self, by_column: Array, by_noise: float) -> Array:
        """Return derivatives by theta, of those by the logarithm of each column's width and that of the noise."""
        groups = np.zeros(len(by_column), dtype=np.int64) if self.groups is None else self.groups
        return np.append(np.bincount(groups, weights=by_column), by_noise)

    def distance(self, other: Any) -> Array:
        """Return the theta at which this kernel's widths are those of another of the same form."""
        theirs = _with_widths(other)[0].length_scale
        ratio = np.log(np.asarray(theirs, dtype=np.float64) / np.asarray(self._owners[0][1], dtype=np.float64))
        if self.groups is None:
            return np.atleast_1d(ratio.mean())
        ratio = np.broadcast_to(ratio, self.groups.shape)
        return np.bincount(self.groups, weights=ratio) / np.bincount(self.groups)

    def turned(self, theta: Array) -> Any:
        """Return the kernel with its numbers at ``theta``; the same object each time, for squeak's own."""
        if not isinstance(self.kernel, Kernel):
            return self.kernel.clone_with_theta(theta)
        factor = np.exp(theta)[self.groups] if self.groups is not None else float(np.exp(theta.sum()))
        for owner, value in self._owners:
            owner.length_scale = value * factor
        return self._scratch


def _steepness(kernel: Any, X: Array) -> Array:
    """Return k′ with ∇ₓk(x, y) = k′·(x − y)/width²: −k of an RBF, and the next rougher kernel of a Matern."""
    if isinstance(kernel, RBF):
        return -gram(kernel, X)
    ratio = kernel.nu / (kernel.nu - 1.0)
    rougher = Matern(np.asarray(kernel.length_scale) / math.sqrt(ratio), nu=kernel.nu - 1.0)
    return np.asarray(-ratio * gram(rougher, X))


def _with_widths(kernel: Any) -> list[Any]:
    """Return the kernels inside a kernel that have a length scale."""
    if not isinstance(kernel, Kernel):
        return []
    inside = [value for value in kernel.get_params(deep=False).values() if isinstance(value, Kernel)]
    own = [kernel] if hasattr(kernel, "length_scale") else []
    return own + [found for value in inside for found in _with_widths(value)]
