"""What to compare with on features: SoR, Thompson sampling on the dictionary, random features."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from squeak.bandits.bkb import BKB
from squeak.bandits.checks import check_count
from squeak.bandits.sparse import SparseModel
from squeak.core.kernels import RBF, Laplacian, Matern, Scaled
from squeak.core.kernels.width import checked_width
from squeak.core.storage import register
from squeak.core.types import Array, BoolArray, IntArray, Rows


class SorModel(SparseModel):
    """DTC without the residual: the variance of SoR, which starves far from the dictionary."""

    keep_residual = False


@register
class SorUCB(BKB):
    """BKB with SoR's variance zᵀV⁻¹z: what goes wrong without the residual. Not for use.

    Far from the dictionary its intervals collapse, and arms there are never pulled.

    Parameters
    ----------
    arms : rows
    kernel : kernel
    oversampling, noise, norm, delta, beta, prior_mean, refit, random_state, verbose
        As in :class:`BKB`.

    References
    ----------
    Carratino thesis, section 7.1 (variance starvation); the theory page, "Bandits".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import SorUCB
    >>> from squeak.kernels import RBF
    >>> arms = np.linspace(0, 1, 50).reshape(-1, 1)
    >>> bandit = SorUCB(arms, RBF(0.1), random_state=0)
    >>> bandit.tell([0, 1, 2], [0.0, 0.0, 0.0])
    >>> bool(bandit.posterior()[1][-1] < 1e-9)      # nothing was seen there, and it is sure of it
    True
    """

    kind: ClassVar[str] = "sor_ucb"
    _model_class = SorModel


@register
class DictionaryThompson(BKB):
    """Thompson sampling on the dictionary: pull the best arm of one draw from the DTC posterior.

    The draw is f̃(x) = z(x)ᵀ(w + noise·V^(−1/2)ε) + noise·√residual(x)·ε_x.

    Parameters
    ----------
    arms : rows
    kernel : kernel
    oversampling, noise, norm, delta, beta, prior_mean, refit, random_state, verbose
        As in :class:`BKB`; beta is not used.

    References
    ----------
    Thompson 1933; the theory page, "Bandits".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import DictionaryThompson
    >>> from squeak.kernels import RBF
    >>> arms = np.linspace(0, 1, 50).reshape(-1, 1)
    >>> bandit = DictionaryThompson(arms, RBF(0.3), noise=0.05, random_state=0)
    >>> bandit.run(lambda i: float(arms[i, 0]), 30).best_.index > 40
    True
    """

    kind: ClassVar[str] = "dictionary_thompson"

    def _choose(self, limit: int | None) -> list[int]:
        model, rng = self._model, self._generator()
        eigenvalues, vectors = np.linalg.eigh(model.solver)
        draw = vectors @ (np.sqrt(np.maximum(eigenvalues, 0.0)) * rng.standard_normal(len(eigenvalues)))
        sample = (model.weights + self.noise_ * draw) @ model.features
        sample += self.noise_ * np.sqrt(model.residual) * rng.standard_normal(self.n_arms)
        return [int(np.argmax(self._masked(sample)))]


class RandomFeatureModel(SparseModel):
    """The posterior on features that were drawn before the data: no dictionary, no residual."""

    keep_residual = False
    frequencies: Array

    def embed(self, frequencies: Array) -> None:
        """Take the frequencies, (d, D), and make the features √(k(x,x)/D)·[cos, sin] of every arm."""
        self.frequencies = frequencies
        self._basis = list(range(2 * frequencies.shape[1]))
        self._buffer = self._random(self.arms, self.diag)
        self.solver = np.eye(len(self._basis)) / self.ridge
        self.weights = np.zeros(len(self._basis))
        self.signal = np.einsum("ij,ij->j", self._buffer, self._buffer) / self.ridge

    def _random(self, X: Rows, diag: Array) -> Array:
        angles = (np.asarray(X, dtype=np.float64) @ self.frequencies).T
        both = np.vstack([np.cos(angles), np.sin(angles)])
        return np.asarray(both * np.sqrt(diag / len(angles)))

    def update(
        self,
        members: IntArray,
        sure: BoolArray,
        pulled: IntArray,
        counts: Array,
        sums: Array,
        told: IntArray,
        times: Array,
    ) -> None:
        """Take the pulls told; the dictionary plays no part."""
        for arm, count in zip(told.tolist(), times.tolist(), strict=True):
            self._pull(arm, count)
        self.weights = self.solver @ (np.take(self.features, pulled, axis=1) @ sums)
        self.mean = self.weights @ self.features


class RandomFeatureUCB(BKB):
    """UCB on random Fourier features of a stationary kernel: oblivious to where the pulls are.

    Parameters
    ----------
    arms : dense rows
    kernel : RBF, Laplacian, Matern or a scaled one
    n_frequencies : int
        Each gives a cosine and a sine.
    noise, norm, delta, beta, prior_mean, refit, random_state, verbose
        As in :class:`GPUCB`.

    References
    ----------
    Rahimi and Recht 2007; the theory page, "Bandits".

    Examples
    --------
    >>> import numpy as np
    >>> from squeak.bandits import RandomFeatureUCB
    >>> from squeak.kernels import RBF
    >>> arms = np.linspace(0, 1, 50).reshape(-1, 1)
    >>> bandit = RandomFeatureUCB(arms, RBF(0.3), noise=0.05, n_frequencies=50, random_state=0)
    >>> bandit.run(lambda i: float(arms[i, 0]), 20).best_.index > 40
    True
    """

    kind: ClassVar[str] = ""
    _model_class = RandomFeatureModel

    def __init__(self, arms: Any, kernel: Any = None, *, n_frequencies: int = 200, **params: Any) -> None:
        self.n_frequencies = check_count(n_frequencies, "n_frequencies")
        super().__init__(arms, kernel, **params)

    def _start(self) -> None:
        model = RandomFeatureModel(self.kernel_, self.arms_, self.ridge_)
        model.embed(frequencies_of(self.kernel_, self.arms_.shape[1], self.n_frequencies, self._generator()))
        self._model = model
        pulled = np.flatnonzero(self.counts_)
        if len(pulled):
            self._update(pulled, np.ones(len(pulled), dtype=bool), pulled, self.counts_[pulled])

    def _grow(self, rows: Rows) -> None:
        raise TypeError("RandomFeatureUCB takes no new arms: it is for comparison only")

    def _posterior(self, X: Rows) -> tuple[Array, Array]:
        model = self._model
        assert isinstance(model, RandomFeatureModel)
        z = model._random(X, np.asarray(self.kernel_.diag(X), dtype=np.float64)).T
        return z @ model.weights, self.noise_ * np.sqrt(np.einsum("ij,ij->i", z @ model.solver, z))


def frequencies_of(kernel: Any, columns: int, n: int, rng: np.random.Generator) -> Array:
    """Return ``n`` frequencies from a stationary kernel's spectral density, shape (columns, n)."""
    if isinstance(kernel, Scaled):
        return frequencies_of(kernel.kernel, columns, n, rng)
    if isinstance(kernel, Laplacian):
        draws = rng.standard_cauchy((columns, n))
    elif isinstance(kernel, RBF | Matern):
        draws = rng.standard_normal((columns, n))
        if isinstance(kernel, Matern):  # Student's t with 2·nu degrees of freedom
            draws /= np.sqrt(rng.chisquare(2 * kernel.nu, n) / (2 * kernel.nu))
    else:
        raise TypeError(f"random features are known for RBF, Laplacian and Matern, not for {kernel!r}")
    return np.asarray(draws / np.reshape(checked_width(kernel, columns), (-1, 1)))
